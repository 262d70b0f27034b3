"""The engine process: loads beside a serving model, survives failing steps, rests when idle, ends with its client."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import psutil
import pytest
from cutaway.engine import log, wire
from cutaway.engine.protocol import (
    Abort,
    Failed,
    Finished,
    Hello,
    Load,
    LoadProgress,
    Pause,
    PromptRendered,
    Rejected,
    Resume,
    Shutdown,
    Step,
    StepOnce,
    Welcome,
)

from .patience import PATIENCE
from .pipes import Pipe, running, up_to
from .talking import scripted, submit


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    with running() as engine:
        yield engine


# ------------------------------------------------------------------------------------------------- the handshake


def test_hello_is_answered_with_who_and_when(pipe):
    pipe.send(Hello())
    welcome = next(pipe.events())
    assert isinstance(welcome, Welcome)
    assert welcome.pid == pipe.process.pid
    assert abs(welcome.clock_ns - time.monotonic_ns()) < 10e9


def test_another_protocol_version_is_refused_in_one_sentence_that_names_both(pipe):
    pipe.send(Hello(protocol=99, client="cutaway 9.9"))
    (failed,) = pipe.events()
    assert isinstance(failed, Failed)
    assert failed.fatal
    assert "cutaway 9.9 speaks protocol 99" in failed.message
    assert "same version" in failed.message
    assert pipe.ends() == 1


@pytest.mark.parametrize("first", [b"GET / HTTP/1.1\r\n\r\n", wire.encode(Shutdown()), b"\0\0\0\3abc"])
def test_a_peer_that_does_not_say_hello_is_told_so_and_left(pipe, first):
    pipe.stdin.write(first)
    pipe.stdin.flush()
    (failed,) = pipe.events()
    assert isinstance(failed, Failed)
    assert failed.fatal
    assert failed.kind == "protocol"
    assert pipe.ends() == 1


def test_a_command_of_a_later_version_is_named_and_the_next_one_served(pipe):
    strange = b"\x81\xa7command\xa8levitate"
    pipe.send(Hello())
    pipe.stdin.write(len(strange).to_bytes(4, "big") + strange)
    pipe.send(Load(), submit("a", "count 1"))
    heard = up_to(pipe, Finished)
    assert any(isinstance(e, Failed) and "levitate" in e.message and not e.fatal for e in heard)


# ------------------------------------------------------------------------------------------------------ the ends


@pytest.mark.parametrize("model", ["", "slow", "busy"])
def test_the_process_ends_when_its_input_does_whatever_it_is_doing(pipe, model):
    pipe.send(Hello(), Load(model=model), submit("a", "forever"))
    wanted = Step if not model else LoadProgress
    next(e for e in pipe.events() if isinstance(e, wanted))
    assert pipe.ends() == 0


def test_shutdown_aborts_what_runs_and_says_so_before_the_end(pipe):
    pipe.send(Hello(), Load(), submit("a", "slowly forever", samples=2))
    events = pipe.events()
    next(e for e in events if isinstance(e, Step))
    pipe.send(Shutdown())
    ends = [e for e in events if isinstance(e, Finished)]
    assert [(e.sample, e.reason) for e in ends] == [(0, "aborted"), (1, "aborted")]
    assert pipe.process.wait(PATIENCE) == 0


def test_a_terminate_signal_ends_it_as_a_shutdown_does(pipe):
    pipe.send(Hello(), Load(), submit("a", "slowly forever"))
    events = pipe.events()
    next(e for e in events if isinstance(e, Step))
    pipe.process.terminate()
    assert any(isinstance(e, Finished) and e.reason == "aborted" for e in events)
    assert pipe.process.wait(PATIENCE) == 0


def test_an_engine_whose_output_nobody_reads_any_more_ends(pipe):
    pipe.send(Hello(), Load(), submit("a", "forever"))
    next(e for e in pipe.events() if isinstance(e, Step))
    pipe.stdout.close()
    assert pipe.process.wait(PATIENCE) == 0


# ---------------------------------------------------------------------------------------------------- the stream


async def test_what_libraries_print_goes_to_the_log_and_never_into_the_stream():
    async with scripted() as (client, listener):
        await client.send(submit("a", "noise"))
        await listener.finished("a")
        assert listener.text("a") == "one two three"
    written = log.path().read_text()
    for noise in ("noise from a library", "noise from a C library", "and more of it"):
        assert noise in written


def test_the_log_starts_anew_when_it_is_large_and_keeps_three_older_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "LARGEST", 10)
    descriptor = os.open(os.devnull, os.O_WRONLY)
    file = log.LogFile(tmp_path / "state" / "engine.log", (descriptor,))
    file.open()
    for n in range(6):
        os.write(descriptor, f"line {n} and more\n".encode())
        file.rotate()
    os.close(descriptor)
    kept = {path.name: path.read_text() for path in file.where.parent.iterdir()}
    older = {f"engine.log.{age}": f"line {6 - age} and more\n" for age in (1, 2, 3)}
    assert kept == {"engine.log": "", **older}


def test_a_state_folder_that_can_not_be_written_does_not_stop_the_engine(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("CUTAWAY_STATE_DIR", str(blocked))
    with running() as pipe:
        pipe.send(Hello(), Load(), submit("a", "count 2"))
        up_to(pipe, Finished)
        assert pipe.ends() == 0


# ------------------------------------------------------------------------------------------------------ idleness


async def test_sc_06_an_engine_started_before_any_request_serves_and_uses_no_processor_while_idle():
    async with scripted() as (client, listener):
        assert client.welcome is not None
        process = psutil.Process(client.welcome.pid)
        for request in ("a", "b"):
            _assert_rests(process)
            await client.send(submit(request, "hi"))
            assert (await listener.finished(request)).reason == "end"


def _assert_rests(process: psutil.Process) -> None:
    """A second comes in which it uses no processor: what it still had to do when we looked is done first."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        before = sum(process.cpu_times()[:2])
        with pytest.raises(psutil.TimeoutExpired):
            process.wait(1)
        if sum(process.cpu_times()[:2]) - before <= 0.02:
            return
    raise AssertionError("it never rests")


async def test_a_paused_engine_with_a_request_uses_no_processor_either():
    async with scripted() as (client, listener):
        assert client.welcome is not None
        await client.send(Pause())
        await client.send(submit("a", "count 3"))
        await listener.first(PromptRendered, "a")
        _assert_rests(psutil.Process(client.welcome.pid))
        assert not [event for event in listener.heard if isinstance(event, Step)]
        await client.send(StepOnce(count=2))
        await listener.token("a", 1)
        await client.send(Resume())
        assert (await listener.finished("a")).generated_tokens == 3


# ------------------------------------------------------------------------------------------------- failing steps


@pytest.mark.parametrize(
    ("how", "kind", "sentence"),
    [
        ("fail", "fault", "A step failed with an unexpected RuntimeError."),
        ("memory", "memory", "There was not enough memory for a step."),
    ],
)
async def test_a_failing_step_ends_its_request_with_one_sentence_and_the_next_is_served(how, kind, sentence):
    async with scripted() as (client, listener):
        await client.send(submit("a", how))
        failed = await listener.first(Failed)
        finished = await listener.finished("a")
        await client.send(submit("b", "count 2"))
        after = await listener.finished("b")
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.message, failed.fatal) == (kind, sentence, False)
    assert "Traceback" in failed.detail
    assert (finished.reason, finished.detail, finished.generated_tokens) == ("failed", sentence, 2)
    assert after.reason == "end"
    assert "Traceback" in log.path().read_text()


async def test_a_request_name_in_use_is_refused_and_the_one_that_has_it_goes_on():
    async with scripted() as (client, listener):
        await client.send(submit("a", "slowly forever"))
        await listener.token("a", 0)
        await client.send(submit("a", "count 1"))
        rejected = await listener.first(Rejected)
        await client.send(Abort("a"))
        assert (await listener.finished("a")).reason == "aborted"
    assert isinstance(rejected, Rejected)
    assert "still running" in rejected.message
