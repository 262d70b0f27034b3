"""The screen on a server, and on an engine behind ssh: what is told is shown, what is not told is said."""

from __future__ import annotations

import os
import re
import shlex
import signal
import threading
from pathlib import Path

import pytest
from cutaway.engine.client import EngineClient, own_command
from cutaway.engine.protocol import Load, SamplingSettings
from cutaway.tui.app import CutawayApp
from cutaway.tui.session import Session

from .http_server import DONE, body, end, piece, serving, simple, stream, vllm
from .screen_run import Running, running, shown
from .scripted_engine import COMMAND

LIMITED = SamplingSettings(max_tokens=16)


def remote(url: str) -> EngineClient:
    return EngineClient(own_command("--server", url))


async def test_the_screen_shows_what_a_server_tells_and_says_what_it_does_not_tell():
    with serving(vllm()) as server:
        async with running((160, 48), Load(), LIMITED, engine=remote(server.url)) as run:
            await run.ask("What is the capital of France?")
            await run.shows("L'Étoile, la Marseillaise, la femme,")
            for words in (
                "vLLM 0.32.0 at 127.0.0.1",
                "ctx 53/2048",
                "What│·is│·the│·capital",
                "Told by the server: log-probabilities of 3",
                "does not tell which request is computed",
                "does not tell which page holds what",
                "does not tell in which chunks",
                "✓server",
                "network, queue and prefill",
                "cut at 16 tokens",
            ):
                await run.shows(words)
            await run.shows("364 blocks of 128 tokens")
            assert "prefix cache" not in run.frame()[-1]


async def test_a_servers_totals_are_asked_for_only_while_a_panel_shows_them():
    with serving(vllm()) as server:
        async with running((80, 24), Load(), engine=remote(server.url)) as run:
            before = [request.path for request in server.requests].count("/metrics")
            run.main._ask_totals()
            await run.ask("hi")
            assert [request.path for request in server.requests].count("/metrics") == before
            await run.pilot.press("f3")
            await run.shows("told by the server")
            await run.until(lambda: [r.path for r in server.requests].count("/metrics") > before, "a look")


async def test_oa_11_panels_say_when_log_probabilities_are_not_given():
    with serving(simple(stream(piece("hi"), piece(" you"), end(), DONE))) as server:
        async with running((120, 40), Load(), engine=remote(server.url)) as run:
            await run.ask("hello")
            await run.shows("hi you")
            await run.shows("not given by this server")
            await run.shows("token count not reported")


async def test_oa_13_the_time_waited_is_shown_and_escape_works_at_once():
    gate = threading.Event()
    with serving(simple(stream(piece("x"), end(), DONE, gate=gate))) as server:
        async with running((80, 24), Load(), engine=remote(server.url)) as run:
            await run.ask("hello", wait=False)
            await run.until(lambda: re.search(r"waiting for the server \d+ s", run.text()), "the wait")
            await run.pilot.press("escape")
            await run.shows("stopped after")
            gate.set()


async def test_oa_07_a_cut_reply_keeps_its_text_and_offers_to_try_again():
    with serving(simple(stream(piece("Par"), cut=True))) as server:
        async with running((100, 24), Load(), engine=remote(server.url)) as run:
            await run.ask("hello")
            await run.shows("Par")
            await run.shows("the connection was cut in the middle of the reply")
            await run.shows("r tries again")


async def test_oa_08_the_screen_comes_up_without_a_server_and_goes_on_when_it_is_there():
    with serving(simple(stream(piece("here"), end(), DONE))) as server:
        server.stop()
        async with shown(Running, CutawayApp(Session(remote(server.url), Load())), (100, 24)) as run:
            await run.shows("No server answers at")
            run.main.composer.focus()
            run.main.composer.put("a question that waits")
            await run.pilot.press("enter")
            server.start()
            await run.shows("here")
            assert run.session.trouble is None


async def test_oa_08_a_server_lost_on_sending_fails_the_reply_keeps_the_chat_and_is_found_again():
    with serving(simple(stream(piece("here"), end(), DONE))) as server:
        async with running((110, 30), Load(), engine=remote(server.url)) as run:
            await run.ask("first")
            server.stop()
            await run.ask("second")
            await run.shows("No server answers at")
            await run.shows("r tries again")
            await run.shows("again in")  # by itself
            server.start()
            await run.until(lambda: run.session.state.loading is None, "the server")
            await run.outside("r")
            await run.until(lambda: run.session.conversation.leaf.text == "here", "the reply")


async def test_oa_08_a_server_lost_while_idle_is_told_where_its_totals_are_looked_at():
    with serving(vllm()) as server:
        async with running((120, 40), Load(), engine=remote(server.url)) as run:
            await run.shows("running")
            server.stop()
            await run.shows("No server answers at")
            assert run.session.trouble is None
            server.start()
            await run.until(lambda: run.session.state.loading is None, "the server")


async def test_the_server_is_described_before_the_first_question():
    with serving(vllm()) as server:
        async with running((120, 40), Load(), engine=remote(server.url)) as run:
            await run.shows("/chat/completions, /tokenize, /metrics")
            await run.shows("does not tell in which chunks")
            await run.outside("b")
            await run.shows("How vLLM 0.32.0 batches")


async def test_the_reply_streams_as_it_comes():
    gate = threading.Event()
    parts = [part + b"\n\n" for part in body("vllm-0.32", "chat_stream_logprobs").split(b"\n\n") if part]
    with serving(vllm(stream(*parts, gate=gate, gated=4))) as server:
        async with running((120, 40), Load(), engine=remote(server.url)) as run:
            await run.ask("hello", wait=False)
            await run.shows("L'É")
            gate.set()
            await run.shows("la femme,")


# ---------------------------------------------------------------------------------------------------- over ssh


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A stand-in for ssh on the path: it runs what it is given here, and hangs up with 255 when it is told to."""
    script = tmp_path / "ssh"
    # The shell's own child would be given an empty input.
    script.write_text('#!/bin/sh\nshift\nexec 3<&0\n"$@" <&3 &\ntrap "kill $!; exit 255" USR1\nwait $!\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return f"ssh gpu-box {shlex.join(COMMAND)}"


async def test_an_engine_behind_ssh_answers_and_a_lost_connection_keeps_the_chat(ssh: str):
    engine = EngineClient(ssh)
    async with running((100, 30), Load(), engine=engine) as run:
        await run.ask("count 3")
        await run.shows("1 2 3")
        await run.ask("slowly forever", wait=False)
        await run.until(lambda: run.session.conversation.leaf.text, "some text")
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGUSR1)
        await run.shows("could not be reached")
        await run.shows("1 2 3")
        assert run.session.conversation.leaf.text
        await run.outside("R")
        await run.until(lambda: run.session.trouble is None and run.session.link.ready, "the engine again")
        await run.ask("count 2")
        await run.shows("1 2")
