"""The queue to the reader: never waits, loses no text and no end, and stays small when nobody reads."""

from __future__ import annotations

import threading
from collections import defaultdict

import msgspec
import pytest
from cutaway.engine.outbox import Outbox, StepFold
from cutaway.engine.protocol import (
    AnyEvent,
    Candidate,
    Configured,
    Failed,
    Finished,
    Lane,
    LoadProgress,
    PageChange,
    PoolTotals,
    PromptRendered,
    Rejected,
    Sampled,
    Step,
    Switches,
    TextDelta,
    Wait,
)
from hypothesis import given
from hypothesis import strategies as st

from .patience import PATIENCE, until

CANDIDATE = Candidate(1, "a", b"a", 0.0, -0.5, 0.5, 0.5)


def token(request: str, index: int) -> Sampled:
    return Sampled(request, 0, index, index, index, "a", b"a", index, candidates=(CANDIDATE,))


def step(iteration: int, **fields: object) -> Step:
    return msgspec.structs.replace(Step(iteration, iteration * 100, run_ns=10, computed=2), **fields)


@st.composite
def lives(draw: st.DrawFn) -> list[AnyEvent]:
    """A plausible stream: prompts, then steps and texts, then ends, of up to three requests at once."""
    events: list[AnyEvent] = []
    written: dict[str, int] = {}
    names = iter(f"r{n}" for n in range(100))
    for iteration in range(draw(st.integers(0, 40))):
        kind = draw(st.sampled_from(["step", "step", "step", "begin", "end", "progress", "switch", "fail", "reject"]))
        if kind == "begin" and len(written) < 3:
            name = next(names)
            written[name] = 0
            events.append(PromptRendered(name, "", (), 0, 0, 0, 0, 100))
        elif kind == "end" and written:
            name = draw(st.sampled_from(sorted(written)))
            events.append(Finished(name, 0, "end", generated_tokens=written.pop(name)))
        elif kind == "progress":
            events.append(LoadProgress("weights", iteration, 40))
        elif kind == "switch":
            events.append(Configured(Switches(paused=draw(st.booleans()))))
        elif kind == "fail":
            events.append(Failed(f"f{iteration}"))
        elif kind == "reject":
            events.append(Rejected(f"x{iteration}", "no"))
        elif kind == "step":
            sampled = []
            for name in written:
                channel = draw(st.sampled_from(["answer", "reasoning"]))
                events.append(TextDelta(name, 0, f"{name}:{written[name]} ", written[name] + 1, iteration, channel))
                sampled.append(token(name, written[name]))
                written[name] += 1
            lanes = tuple(Lane(lane, name, 0, "decode", 0, 1, 1, 1) for lane, name in enumerate(written))
            pages = draw(st.lists(st.builds(PageChange, st.integers(0, 5), st.sampled_from(["used", "free"]))))
            events.append(step(iteration, sampled=tuple(sampled), lanes=lanes, pages=tuple(pages)))
    return events


def read_all(outbox: Outbox) -> list[AnyEvent]:
    outbox.close()
    events: list[AnyEvent] = []
    while taken := outbox.take():
        events += taken
    return events


def texts(events: list[AnyEvent]) -> dict[tuple[str, str], str]:
    said: dict[tuple[str, str], str] = defaultdict(str)
    for event in events:
        if isinstance(event, TextDelta):
            said[event.request, event.channel] += event.text
    return said


def kept(events: list[AnyEvent]) -> list[AnyEvent]:
    return [e for e in events if isinstance(e, (PromptRendered, Finished, Failed, Rejected))]


def steps(events: list[AnyEvent]) -> list[Step]:
    return [event for event in events if isinstance(event, Step)]


def bare(tokens: list[Sampled]) -> list[Sampled]:
    return [msgspec.structs.replace(one, candidates=()) for one in tokens]


@given(lives(), st.integers(0, 30), st.data())
def test_whenever_it_is_read_nothing_said_is_lost_and_every_sum_is_conserved(events, limit, data):
    outbox, read = Outbox(limit), []
    for event in events:
        outbox.put(event)
        if data.draw(st.integers(0, 4)) == 0:
            read += outbox.take(timeout=0)
    read += read_all(outbox)
    assert texts(read) == texts(events)
    assert kept(read) == kept(events)
    before, after = steps(events), steps(read)
    for name in ("run_ns", "computed"):
        assert sum(getattr(s, name) for s in after) == sum(getattr(s, name) for s in before)
    assert sum(1 + s.merged for s in after) == len(before)
    assert bare([t for s in after for t in s.sampled]) == bare([t for s in before for t in s.sampled])
    assert {c.page: c.state for s in after for c in s.pages} == {c.page: c.state for s in before for c in s.pages}
    for kind in (LoadProgress, Configured):
        assert [e for e in read if isinstance(e, kind)][-1:] == [e for e in events if isinstance(e, kind)][-1:]


@given(lives(), st.integers(0, 10))
def test_prompts_come_before_their_tokens_and_ends_after_them_however_much_is_folded(events, limit):
    outbox = Outbox(limit)
    for event in events:
        outbox.put(event)
    begun, ended = set(), set()
    for event in read_all(outbox):
        if isinstance(event, PromptRendered):
            begun.add(event.request)
        names = {t.request for t in event.sampled} if isinstance(event, Step) else set()
        names |= {event.request} if isinstance(event, TextDelta) else set()
        assert names <= begun - ended
        if isinstance(event, Finished):
            ended.add(event.request)


def test_a_reader_that_keeps_up_sees_every_event_as_it_was():
    outbox = Outbox(limit=4)
    for n in range(20):
        event = step(n, sampled=(token("a", n),))
        outbox.put(event)
        assert outbox.take() == [event]
    assert outbox.merged == 0


def test_a_million_tokens_with_nobody_reading_keep_only_a_few_events_waiting():
    outbox = Outbox(limit=8)
    for n in range(20_000):
        outbox.put(TextDelta("a", 0, "x", n + 1, n))
        outbox.put(LoadProgress("weights", n, 20_000))
        outbox.put(step(n))
    assert len(outbox) <= 8 + 3
    read = read_all(outbox)
    assert texts(read) == {("a", "answer"): "x" * 20_000}
    assert sum(1 + s.merged for s in steps(read)) == 20_000


def test_folded_steps_keep_the_newest_state_and_only_the_newest_candidates():
    first = step(1, sampled=(token("a", 0),), pages=(PageChange(3, "used", evicted=True), PageChange(4, "used")))
    second = step(
        2,
        sampled=(token("a", 1),),
        pages=(PageChange(3, "free"),),
        lanes=(Lane(0, "a", 0, "decode", 1, 1, 2, 1),),
        waits=(Wait("b", 0, "4 pages needed, 2 free", 4, 2),),
        pool=PoolTotals(8, 2, 0, 0, 6),
        preempted=("b/0",),
        merged=3,
    )
    fold = StepFold(first)
    fold.add(second)
    folded = fold.event()
    assert folded.iteration == 2
    assert folded.started_ns == first.started_ns
    assert folded.merged == 4
    assert (folded.lanes, folded.waits, folded.pool) == (second.lanes, second.waits, second.pool)
    assert [t.candidates for t in folded.sampled] == [(), (CANDIDATE,)]
    assert folded.pages == (PageChange(3, "free", evicted=True), PageChange(4, "used"))
    assert folded.preempted == ("b/0",)


def test_a_block_table_told_by_a_folded_lane_is_told_again_by_the_next():
    def lane(request: str, table: tuple[int, ...]) -> Lane:
        return Lane(0, request, 0, "decode", 0, 1, 1, 1, block_table=table)

    outbox = Outbox(limit=1)
    outbox.put(step(1))
    outbox.put(step(2, lanes=(lane("a", (5, 6)), lane("b", (7,)))))
    outbox.put(step(3, lanes=(lane("a", ()),)))
    folded = steps(outbox.take())[-1]
    assert folded.lanes == (lane("a", (5, 6)),)
    outbox.put(step(4, lanes=(lane("a", ()), lane("b", ()))))
    assert steps(outbox.take())[-1].lanes == (lane("a", ()), lane("b", (7,)))


def test_take_waits_for_an_event_and_close_ends_the_wait():
    outbox, seen = Outbox(), []

    def read() -> None:
        while taken := outbox.take():
            seen.extend(taken)

    reader = threading.Thread(target=read)
    reader.start()
    outbox.put(Failed("a"))
    outbox.put(Failed("b"))
    outbox.close()
    reader.join(PATIENCE)
    assert not reader.is_alive()
    assert seen == [Failed("a"), Failed("b")]
    outbox.put(Failed("c"))
    assert outbox.take() == []


@pytest.mark.parametrize("limit", [0, 1, 256])
def test_adding_to_a_long_fold_stays_cheap(limit):
    outbox = Outbox(limit)
    for n in range(30_000):
        outbox.put(step(n, sampled=(token("a", n),)))
    assert sum(len(s.sampled) for s in steps(outbox.take())) == 30_000


def taken_by_a_reader(outbox: Outbox) -> tuple[list[list[AnyEvent]], threading.Thread]:
    """What a thread takes, together where it came together, and the thread, which rests as long as it may."""
    taken: list[list[AnyEvent]] = []

    def read() -> None:
        while events := outbox.take(rest=3600):
            taken.append(events)

    reader = threading.Thread(target=read)
    reader.start()
    return taken, reader


def test_what_streams_is_taken_together_until_something_presses():
    outbox = Outbox()
    taken, reader = taken_by_a_reader(outbox)
    outbox.put(said(-1))
    until(lambda: taken, "the first, which is taken at once")
    for n in range(5):
        outbox.put(TextDelta("a", 0, "x", n + 1, n))
        outbox.put(step(n))
    assert len(taken) == 1
    outbox.put(Failed("presses"))
    until(lambda: len(taken) == 2, "all that streamed and what presses")
    assert taken[1] == [said(4, "xxxxx"), *map(step, range(5)), Failed("presses")]
    outbox.put(step(6))
    outbox.close()
    reader.join(PATIENCE)
    assert not reader.is_alive()
    assert taken[2:] == [[step(6)]]


def test_a_reply_s_first_text_does_not_wait_and_takes_along_what_does():
    outbox = Outbox()
    taken, reader = taken_by_a_reader(outbox)
    for _ in range(2):  # a name can be used again after its end
        outbox.put(Failed("presses"))
        until(lambda: [Failed("presses")] in taken, "what presses")
        outbox.put(step(0))
        outbox.put(said(0))
        until(lambda: [step(0), said(0)] in taken, "the first text, and the step that waited")
        outbox.put(said(1))
        outbox.put(Finished("a", 0, "end"))
        until(lambda: [said(1), Finished("a", 0, "end")] in taken, "the second, which waited for the end")
        taken.clear()
    outbox.close()
    reader.join(PATIENCE)
    assert not reader.is_alive()


def said(index: int, text: str = "x", request: str = "a", channel: str = "answer") -> TextDelta:
    return TextDelta(request, 0, text, index + 1, index, channel)


def test_texts_that_wait_together_come_as_one_with_the_count_and_time_of_the_newest():
    outbox = Outbox()
    outbox.put(said(0))
    assert outbox.take() == [said(0)]
    for n in range(1, 4):
        outbox.put(said(n, f"{n}"))
        outbox.put(said(n, f"{n}", "b"))
    assert outbox.take() == [said(3, "123"), said(1, "1", "b"), said(3, "23", "b")]


def test_a_text_after_a_pause_is_told_alone_with_its_own_time():
    outbox = Outbox()
    for n in range(3):
        outbox.put(said(n))
    assert outbox.take() == [said(0), said(2, "xx")]
    outbox.put(step(3))
    assert outbox.take() == [step(3)]
    for n in range(4, 7):
        outbox.put(said(n))
    assert outbox.take() == [said(4), said(6, "xx")]


@pytest.mark.parametrize("between", [Finished("b", 0, "end"), Failed("f"), LoadProgress("x"), Rejected("c", "no")])
def test_texts_are_joined_across_nothing_that_has_its_place(between):
    outbox = Outbox()
    outbox.put(said(0))
    outbox.take()
    events = [said(1), between, said(2)]
    for event in events:
        outbox.put(event)
    assert outbox.take() == events


def test_what_was_thought_is_not_joined_to_the_answer():
    outbox = Outbox()
    outbox.put(said(0, channel="reasoning"))
    outbox.take()
    for n, channel in enumerate(["reasoning", "reasoning", "answer", "answer"], start=1):
        outbox.put(said(n, channel=channel))
    assert outbox.take() == [said(2, "xx", channel="reasoning"), said(4, "xx")]


def test_many_that_wait_press_too():
    outbox = Outbox(limit=8)
    taken, reader = taken_by_a_reader(outbox)
    outbox.put(step(0))
    until(lambda: taken, "the first")
    for n in range(1, 5):
        outbox.put(step(n))
    until(lambda: len(taken) == 2, "as many as are half of the limit")
    outbox.close()
    reader.join(PATIENCE)
    assert not reader.is_alive()
