"""A trace gives back what was said, also one that was cut off, and replays it without a model."""

from __future__ import annotations

import asyncio
import gzip
import json
import math
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cutaway.engine import trace
from cutaway.engine.errors import TraceError
from cutaway.engine.protocol import (
    Abort,
    AnyCommand,
    AnyEvent,
    Candidate,
    Configured,
    Failed,
    Finished,
    Load,
    Pause,
    Rejected,
    Resume,
    Sampled,
    SamplingSettings,
    Shutdown,
    Step,
    StepOnce,
    Submit,
    Switches,
    TextDelta,
    Welcome,
)
from cutaway.engine.replay import ReplayEngine

from .patience import PATIENCE
from .talking import Listener, scripted, submit

WELCOME = Welcome(1, "0", 7, 123)
MASKED = Candidate(3, "\ufffd", b"\xf0", float("-inf"), None, 0.0, 0.0, "top_k")
EVENTS: list[AnyEvent] = [
    Configured(Switches()),
    Step(1, 100, sampled=(Sampled("a", 0, 0, 4, 3, "x", b"x", 5, candidates=(MASKED,)),)),
    TextDelta("a", 0, "x\x1b[2J — ✓", 1, 5),
    Step(2, 200),
    TextDelta("a", 0, "y", 2, 6),
    Step(3, 300),
    Finished("a", 0, "end"),
]


def record(path: Path, events: list[AnyEvent], finish: bool = True) -> trace.TraceWriter:
    writer = trace.TraceWriter(path)
    for event in events:
        writer.write(event)
    if finish:
        writer.close()
    return writer


async def heard(engine: ReplayEngine) -> list[AnyEvent]:
    return [event async for event in engine.events()]


def test_a_trace_gives_back_commands_and_events_in_order_and_in_time(tmp_path):
    file = tmp_path / "a.trace"
    writer = trace.TraceWriter(file)
    command = Submit("a", text="hi", settings=SamplingSettings(logit_bias={5: 1.0}))
    writer.write(command)
    for event in EVENTS:
        writer.write(event)
    assert not file.exists(), "it has its name only when it is whole"
    writer.close()
    entries = list(trace.read(file))
    assert [entry.message for entry in entries] == [command, *EVENTS]
    assert [entry.sent for entry in entries] == [True] + [False] * len(EVENTS)
    times = [entry.t for entry in entries]
    assert times == sorted(times)
    assert [event for _, event in trace.read_events(file)] == EVENTS


def test_sa_05_minus_infinity_is_null_in_the_file_and_minus_infinity_again_when_read(tmp_path):
    file = tmp_path / "a.trace"
    record(file, EVENTS)

    def refuse(word: str) -> float:
        raise AssertionError(f"{word} is not JSON")

    text = gzip.decompress(file.read_bytes()).decode()
    lines = [json.loads(line, parse_constant=refuse) for line in text.splitlines()]
    candidate = lines[2]["event"]["sampled"][0]["candidates"][0]
    assert candidate["logit"] is None
    assert candidate["logprob"] is None
    (step, *_) = [event for _, event in trace.read_events(file) if isinstance(event, Step)]
    assert math.isinf(step.sampled[0].candidates[0].logit)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.99])
def test_a_trace_that_was_cut_off_is_read_up_to_there(tmp_path, share):
    file = tmp_path / "a.trace"
    record(file, [TextDelta("a", 0, f"{n * 7919}", n, n) for n in range(3000)])
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * share)])
    read = [event for _, event in trace.read_events(file)]
    assert read == [TextDelta("a", 0, f"{n * 7919}", n, n) for n in range(len(read))]
    assert len(read) > 3000 * share * 0.5


def test_what_a_crash_leaves_behind_is_read_up_to_the_last_flush(tmp_path, monkeypatch):
    monkeypatch.setattr(trace, "FLUSH_EVERY", 0.0)
    file = tmp_path / "a.trace"
    writer = record(file, EVENTS, finish=False)
    left = file.with_name("a.trace.part")
    assert [event for _, event in trace.read_events(left)] == EVENTS
    writer.close()
    assert not left.exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is not a trace"),
        (b"hello\n", "is not a trace"),
        (gzip.compress(b"hello\n", mtime=0), "is not a trace"),
        (gzip.compress(b'{"cutaway_trace": 9, "protocol": 1}\n', mtime=0), "has format 9"),
        (gzip.compress(b'{"cutaway_trace": 1, "protocol": 9}\n', mtime=0), "of protocol 9"),
        (gzip.compress(b'{"cutaway_trace": 1, "protocol": 1}\nnonsense\n', mtime=0), "is damaged"),
    ],
)
def test_a_file_that_is_no_trace_is_refused_by_name(tmp_path, content, sentence):
    file = tmp_path / "a.trace"
    file.write_bytes(content)
    with pytest.raises(TraceError, match=f"a.trace .*{sentence}"):
        list(trace.read(file))


def test_a_missing_file_and_an_unwritable_one_are_named(tmp_path):
    with pytest.raises(TraceError, match=r"none can't be read: No such file"):
        list(trace.read(tmp_path / "none"))
    with pytest.raises(TraceError, match="can't be written"):
        trace.TraceWriter(tmp_path / "no" / "folder" / "a.trace")


def test_events_that_only_a_later_version_knows_are_left_out(tmp_path):
    file = tmp_path / "a.trace"
    lines = ['{"cutaway_trace": 1, "protocol": 1}', '{"t": 1, "event": {"event": "dream"}}']
    lines.append('{"t": 2, "event": {"event": "failed", "message": "m", "mood": 3}}')
    file.write_bytes(gzip.compress("\n".join([*lines, ""]).encode()))
    assert list(trace.read_events(file)) == [(2, Failed("m"))]


async def test_a_recorded_conversation_is_played_back_as_it_was(tmp_path):
    file = tmp_path / "a.trace"
    async with scripted() as (client, _):
        await client.close()
        recording = trace.Recording(client, file)
        await recording.start()
        listener = Listener(recording)
        await recording.send(Load())
        await recording.send(submit("a", "count 5"))
        await listener.finished("a")
        await recording.close()
    replay = ReplayEngine(file, speed=None)
    assert isinstance(await replay.start(), Welcome)
    played = await heard(replay)
    assert played == listener.heard
    sent = [entry.message for entry in trace.read(file) if entry.sent]
    assert sent[:2] == [Load(), submit("a", "count 5")]


async def test_a_disk_that_fills_up_ends_the_recording_and_not_the_conversation(tmp_path):
    writer = record(tmp_path / "a.trace", EVENTS, finish=False)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    writer._file.write = full  # pyright: ignore[reportAttributeAccessIssue]
    writer.write(EVENTS[0])
    writer.write(EVENTS[0])
    assert "No space left" in writer.problem
    writer.close()
    assert not (tmp_path / "a.trace").exists()


async def test_the_original_pace_is_kept_sped_up_and_long_gaps_are_cut(tmp_path):
    file = tmp_path / "a.trace"
    lines = ['{"cutaway_trace": 1, "protocol": 1}']
    lines += [f'{{"t": {t * 10**9}, "event": {{"event": "failed", "message": "{t}"}}}}' for t in (0, 10, 20, 20_000)]
    file.write_bytes(gzip.compress("\n".join([*lines, ""]).encode()))
    replay = ReplayEngine(file, speed=100.0, longest_gap=10.0)
    await replay.start()
    began = time.monotonic()
    times = [time.monotonic() - began async for _ in replay.events()]
    assert all(t >= due for t, due in zip(times, (0.0, 0.1, 0.2, 0.3), strict=True))
    assert times[-1] < PATIENCE, "at the original pace the last gap alone would take 200 s"


async def test_a_paused_replay_goes_on_by_single_steps_and_requests_are_refused(tmp_path):
    file = tmp_path / "a.trace"
    record(file, [WELCOME, *EVENTS])
    replay = ReplayEngine(file, speed=None, paused=True)
    assert await replay.start() == WELCOME
    events = replay.events()
    assert await anext(events) == Configured(Switches(paused=True))
    waiting = asyncio.ensure_future(anext(events))
    await replay.send(submit("new", "hi"))
    rejected = await waiting
    assert isinstance(rejected, Rejected)
    assert rejected.request == "new"
    await replay.send(StepOnce())
    assert [await anext(events), await anext(events)] == EVENTS[1:3]
    waiting = asyncio.ensure_future(anext(events))
    await replay.send(Resume())
    assert await waiting == Configured(Switches(paused=False))
    assert [event async for event in events] == EVENTS[3:]


async def test_pause_holds_the_playback_before_its_next_step_and_shutdown_ends_it(tmp_path):
    file = tmp_path / "a.trace"
    record(file, [WELCOME, *EVENTS])
    replay = ReplayEngine(file, speed=None)
    await replay.start()
    events = replay.events()
    assert [await anext(events), await anext(events)] == EVENTS[:2]
    await replay.send(Pause())
    assert await anext(events) == Configured(Switches(paused=True))
    assert await anext(events) == EVENTS[2]
    waiting = asyncio.ensure_future(anext(events, None))
    await replay.send(Shutdown())
    assert await waiting is None


async def test_a_replay_can_be_started_again(tmp_path):
    file = tmp_path / "a.trace"
    record(file, [WELCOME, *EVENTS])
    replay = ReplayEngine(file, speed=None)
    for _ in range(2):
        await replay.start()
        assert await heard(replay) == EVENTS
        await replay.close()


async def test_a_replay_that_stays_holds_after_the_steps_it_was_told_and_goes_on_answering(tmp_path):
    file = tmp_path / "a.trace"
    record(file, [WELCOME, *EVENTS])
    replay = ReplayEngine(file, speed=None, upto=2, stay=True)
    await replay.start()
    events = replay.events()
    assert [await anext(events) for _ in range(5)] == EVENTS[:5], "up to what came before the third step"
    waiting = asyncio.ensure_future(anext(events, None))
    await replay.send(submit("new", "hi"))
    assert isinstance(await waiting, Rejected)
    waiting = asyncio.ensure_future(anext(events, None))
    await replay.close()
    assert await waiting is None
    assert replay.over


async def test_a_replay_tells_what_was_sent_and_keeps_the_recorders_time(tmp_path):
    file = tmp_path / "a.trace"
    lines = ['{"cutaway_trace": 1, "protocol": 1, "began_ns": 5000}']
    lines += [
        '{"t": 7, "event": {"event": "welcome", "protocol": 1, "engine": "0", "pid": 1, "clock_ns": 1}}',
        '{"t": 8, "command": {"command": "abort", "request": "a"}}',
        '{"t": 9, "event": {"event": "failed", "message": "m"}}',
    ]
    file.write_bytes(gzip.compress("\n".join([*lines, ""]).encode()))
    told: list[tuple[AnyCommand, int]] = []
    replay = ReplayEngine(file, speed=None, sent=lambda command: told.append((command, replay.now_ns())))
    await replay.start()
    assert replay.now_ns() == 5007
    assert await heard(replay) == [Failed("m")]
    assert told == [(Abort("a"), 5008)]
    assert replay.now_ns() == 5009


def test_replaying_imports_no_torch():
    code = "import sys, cutaway.engine.replay, cutaway.engine.client; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
