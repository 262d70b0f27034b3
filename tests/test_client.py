"""The client: it starts an engine, notices every way it can go wrong, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest
from cutaway.engine.client import EngineClient
from cutaway.engine.errors import CutawayError, EngineDied, ProtocolError
from cutaway.engine.protocol import Abort, Failed, Finished, Inspect, Load, Metrics, Ready, Step

from .patience import PATIENCE
from .scripted_engine import COMMAND
from .talking import Listener, scripted, submit


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


async def gone(pid: int) -> bool:
    """Whether a process ends within our patience, zombies counted as gone."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return True
        await asyncio.to_thread(process.wait, PATIENCE)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return False
    return True


async def test_a_question_is_answered_and_the_engine_leaves_when_closed():
    async with scripted() as (client, listener):
        await client.send(submit("a", "count 5"))
        finished = await listener.finished("a")
        pid = client.welcome.pid if client.welcome else 0
    assert finished.reason == "end"
    assert listener.text("a") == "1 2 3 4 5 "
    assert await gone(pid)


async def test_events_end_quietly_when_the_client_is_closed():
    async with scripted() as (client, listener):
        pass
    assert not [e for e in await listener.end() if isinstance(e, Failed)]
    assert client.died is None
    with pytest.raises(EngineDied):
        await client.send(Inspect())
    await client.close()


async def test_another_protocol_version_is_refused_in_one_sentence(tmp_path):
    code = (
        "import sys, msgspec; from cutaway.engine import wire; from cutaway.engine.protocol import Welcome;"
        "sys.stdout.buffer.write(wire.encode(Welcome(99, '9.9', 1, 0))); sys.stdout.flush(); sys.stdin.read()"
    )
    client = EngineClient(python(code))
    with pytest.raises(ProtocolError, match=r"The engine \(cutaway 9\.9\) speaks protocol 99, not 1\."):
        await client.start()
    assert client.pid is None


async def test_a_banner_before_the_stream_is_quoted():
    client = EngineClient(python("print('Last login: Monday', flush=True); import sys; sys.stdin.read()"))
    with pytest.raises(ProtocolError, match="something else than messages: 'Last login: Monday'"):
        await client.start()


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("no-such-program engine", "'no-such-program' was not found"),
        ("sh -c 'exit 127'", "its command was not found"),
        ("sh -c 'echo ssh: no route to gpu-box >&2; exit 255'", "could not be reached.*no route to gpu-box"),
        ("sh -c 'exit 3'", "ended with exit code 3"),
        ("sh -c 'kill -9 $$'", "was killed, most likely because memory ran out"),
        ("true", "ended, though nobody asked"),
        ("", "engine command is empty"),
        ("sh -c 'unfinished", "can't be read"),
    ],
)
async def test_a_command_that_does_not_become_an_engine_says_why(command, sentence):
    with pytest.raises(EngineDied, match=sentence):
        await EngineClient(command).start()


async def test_a_file_that_is_not_executable_is_named(tmp_path):
    file = tmp_path / "engine"
    file.write_text("")
    with pytest.raises(EngineDied, match="not executable"):
        await EngineClient([str(file)]).start()


async def test_a_command_that_says_nothing_is_given_up_and_ended():
    client = EngineClient(python("import sys; sys.stdin.read()"), start_timeout=0.3)
    starting = asyncio.create_task(client.start())
    while client.pid is None:
        await asyncio.sleep(0)
    pid = client.pid
    with pytest.raises(EngineDied, match="did not answer"):
        await starting
    assert await gone(pid)


async def test_an_ssh_like_command_line_carries_the_protocol(tmp_path):
    stand_in = tmp_path / "ssh"
    stand_in.write_text('#!/bin/sh\nshift\nexec "$@"\n')
    stand_in.chmod(0o755)
    client = EngineClient(f"{stand_in} gpu-box {COMMAND[0]} {COMMAND[1]}")
    await client.start()
    try:
        listener = Listener(client)
        await client.send(Load())
        await client.send(submit("a", "count 3"))
        await listener.finished("a")
        assert listener.text("a") == "1 2 3 "
    finally:
        await client.close()


async def test_a_killed_engine_is_told_in_words_and_can_be_restarted():
    async with scripted(Load(model="first")) as (client, listener):
        await client.send(submit("a", "forever"))
        await listener.token("a", 3)
        assert client.welcome is not None
        os.kill(client.welcome.pid, signal.SIGKILL)
        heard = await listener.end()
        assert heard[-1] == Failed(
            "The engine was killed, most likely because memory ran out.", kind="died", fatal=True
        )
        with pytest.raises(EngineDied, match="was killed"):
            await client.send(submit("b", "count 1"))
        await client.restart()
        again = Listener(client)
        ready = await again.first(Ready)
        assert isinstance(ready, Ready)
        assert ready.card.name == "first"
        await client.send(submit("b", "count 2"))
        assert (await again.finished("b")).reason == "end"


async def test_the_last_words_in_the_log_are_told_with_the_death():
    async with scripted() as (client, listener):
        client.local = True  # as with the command that is used when none is given
        await client.send(submit("a", "fail"))
        await listener.finished("a")
        await client.send(submit("b", "die"))
        heard = await listener.end()
    assert isinstance(heard[-1], Failed)
    assert heard[-1].action == "Its last words: cutaway.engine.serving: a step failed"


async def test_an_engine_that_ignores_every_request_to_end_is_killed(monkeypatch):
    monkeypatch.setattr("cutaway.engine.client.CLOSE_TIMEOUT", 0.2)
    code = (
        "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "from cutaway.engine import wire; from cutaway.engine.protocol import Welcome; import os;"
        "sys.stdout.buffer.write(wire.encode(Welcome(1, 'x', os.getpid(), 0))); sys.stdout.flush(); time.sleep(600)"
    )
    client = EngineClient(python(code))
    welcome = await client.start()
    await client.close()
    assert await gone(welcome.pid)


async def test_a_killed_parent_leaves_no_engine_behind(tmp_path):
    program = tmp_path / "parent.py"
    program.write_text(
        "import asyncio, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        "from tests.talking import *\n"
        "async def main():\n"
        "    async with scripted() as (client, listener):\n"
        "        await client.send(submit('a', 'slowly forever'))\n"
        "        await listener.token('a', 2)\n"
        "        print(client.welcome.pid, flush=True)\n"
        "        await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    parent = await asyncio.create_subprocess_exec(sys.executable, str(program), stdout=asyncio.subprocess.PIPE)
    assert parent.stdout is not None
    engine = int(await asyncio.wait_for(parent.stdout.readline(), PATIENCE))
    parent.kill()
    await parent.wait()
    assert await gone(engine)


async def test_ca_02_after_an_abort_lanes_and_pages_are_free_and_the_engine_stands_still():
    async with scripted() as (client, listener):
        await client.send(submit("a", "slowly forever"))
        await listener.token("a", 3)
        await client.send(Abort("a"))
        assert (await listener.finished("a")).reason == "aborted"  # it would go on for ever
        await client.send(Inspect())
        first = await listener.first(Metrics)
        await client.send(submit("b", "count 1"))
        await listener.finished("b")
        last = next(e for e in reversed(listener.heard) if isinstance(e, Step))
        assert {lane.request for lane in last.lanes} == {"b"}
        assert last.pool.used == 1
        assert isinstance(first, Metrics)
        assert first.num_requests_running == 0
        # One step reads the prompt and draws the token, one more finds the end.
        await client.send(Inspect())
        second = await listener.first(Metrics)
        assert isinstance(second, Metrics)
        assert second.iterations - first.iterations <= 3


async def test_ca_05_an_abort_is_noticed_at_the_next_chunk_of_a_long_prompt():
    async with scripted(Load(token_budget=1)) as (client, listener):
        await client.send(submit("a", "slowly " + "word " * 900))  # 18 s at the least
        await listener.until(lambda e: isinstance(e, Step) and any(lane.start == 1 for lane in e.lanes))
        await client.send(Abort("a"))
        finished = await listener.finished("a")
    chunks = [lane.start for e in listener.heard if isinstance(e, Step) for lane in e.lanes]
    assert finished.reason == "aborted"
    assert len(chunks) < 900
    assert not [e for e in listener.heard if isinstance(e, Finished) and e.generated_tokens]


async def test_a_slow_reader_never_blocks_the_engine_and_loses_no_text():
    async with scripted(Load(pages=2000)) as (client, listener):
        await client.send(submit("a", "count 20000"))
        # Nobody reads: the queue here fills, then the pipe, then the engine folds, and still gets to its end.
        assert client.welcome is not None
        process = psutil.Process(client.welcome.pid)
        deadline = time.monotonic() + PATIENCE
        before = -1.0
        # One that is kept from computing stands still too, but does not sleep.
        while (now := process.cpu_times().user) != before or process.status() != psutil.STATUS_SLEEPING:
            assert time.monotonic() < deadline, "the engine did not come to rest"
            before = now
            await asyncio.sleep(0.3)
        finished = await listener.finished("a")
    assert finished.generated_tokens == 20000
    assert listener.text("a") == "".join(f"{n} " for n in range(1, 20001))
    merged = [e.merged for e in listener.heard if isinstance(e, Step)]
    assert sum(1 + m for m in merged) == 20001
    assert max(merged) > 0


async def test_starting_an_unusable_command_raises_an_error_a_user_can_read():
    with pytest.raises(CutawayError) as caught:
        await EngineClient("/").start()
    assert "'/'" in str(caught.value)
