"""The lifecycle strip and the timeline, against the events' times."""

from __future__ import annotations

from cutaway.engine.protocol import Configured, Rejected, Switches
from cutaway.tui.panels import LifecycleStrip, TimelinePanel
from cutaway.tui.panels.glyphs import bar, ramp, shade, sparkline, superscript
from cutaway.tui.panels.stages import stages
from cutaway.tui.panels.units import count, duration, milliseconds, percent, rate, size
from cutaway.tui.state import EngineState, Selection
from hypothesis import given
from hypothesis import strategies as st

from .hand_events import MS, PIECES, Story, conversation
from .panel_host import hosted, told


def lit(state: EngineState, request: str = "r1") -> list[str]:
    found = state.requests[request]
    return [stage.name for stage in stages(found, found.samples.get(0)) if stage.lit]


def test_each_stage_is_lit_while_it_runs():
    events = conversation().events
    assert lit(told(events[:4])) == ["queue"]
    assert lit(told(events[:5])) == ["prefill"]
    assert lit(told(events)) == ["decode", "sample", "stream"]
    until = next(i for i, event in enumerate(events) if getattr(event, "waits", ()))
    assert lit(told(events[: until + 1]), "r2") == ["queue"]
    assert lit(told(conversation().finish("r1").events)) == []


def test_each_stage_has_its_own_time():
    state = told(conversation().events)
    request = state.requests["r1"]
    times = {stage.name: stage.ns for stage in stages(request, request.samples[0])}
    assert times == {
        "template": 400_000, "tokenize": 300_000, "queue": 0, "prefill": 21 * MS, "decode": 16 * MS,
        "sample": 4 * MS, "stream": MS,
    }  # fmt: skip


async def test_the_strip_shows_stages_times_and_ttft_and_gets_shorter_with_the_width():
    selection = Selection()
    selection.select_request("r1")
    async with hosted(LifecycleStrip, told(conversation().events), selection, (130, 3)) as (app, pilot):
        row = app.rows()[0]
        assert row.startswith("✓template 0.4 ▸ ✓tokenize 0.3 ▸ ✓queue 0 ▸ ✓prefill 21 ▸ ●decode 16 ▸ ●sample 4.0")
        assert row.endswith("TTFT 22 ms")
        for width, start in ((65, "✓tmpl 0.4"), (80, "✓tmpl 0.4"), (60, "✓tmpl ✓tok"), (20, "✓✓✓✓●●●")):
            await pilot.resize_terminal(width, 3)
            await pilot.pause()
            assert app.rows()[0].startswith(start)


async def test_a_paused_engine_says_so():
    story = conversation()
    story.events.append(Configured(Switches(paused=True)))
    async with hosted(LifecycleStrip, told(story.events), size=(130, 3)) as (app, _):
        assert "‖ paused" in app.rows()[0]


async def test_the_timeline_shows_spans_intervals_and_totals():
    state, selection = told(conversation().finish("r1").events), Selection()
    selection.select_request("r1")
    state.mark_painted("r1", 1_030 * MS)
    async with hosted(TimelinePanel, state, selection, (120, 20)) as (app, _):
        rows = app.rows()
        text = "\n".join(rows)
    assert set(rows[0]) <= set("░█▓▒▲")
    assert "template to queue 1.0 ms" in rows[1]  # the row "queue" is of the queue alone
    assert "prefill 21 ms" in rows[1]
    assert "transport 1.0 ms" in rows[1]
    assert "ITL p50 10 ms, p95 10 ms · first decode 10 ms" in text
    table = [row.split() for row in rows]
    assert ["TTFT", "22", "ms", "21", "ms", "22", "ms"] in table
    assert ["total", "42", "ms", "42", "ms", "42", "ms"] in table
    assert ["tok/s", "100", "100", "100"] in table
    assert "over 1 finished reply" in text


async def test_first_paint_stands_against_completion_for_both_deliveries_on_one_scale():
    story = Story().begin().ask("s", PIECES)
    for _ in range(4):
        story.step([story.lane(0, "s", "decode", 9, 1)], [story.token("s", "x")])
    story.finish("s")
    story.events.append(Configured(Switches(delivery="buffered")))
    story.ask("b", PIECES, delivery="buffered")
    for _ in range(4):
        story.step([story.lane(0, "b", "decode", 9, 1)], [story.token("b", "x")], said=False)
    story.finish("b")
    state = EngineState()
    painted = {"s": 1_020 * MS, "b": 1_090 * MS}
    ends = {"s": 1_041 * MS, "b": 1_083 * MS}
    for event in story.events:
        request = getattr(event, "request", "")
        state.apply(event, ends.get(request) or getattr(event, "started_ns", 990 * MS) + 11 * MS)
    for request, at in painted.items():
        state.mark_painted(request, at)
    assert state.timeline.shown["streamed"].first_paint_ns == 20 * MS
    assert state.timeline.shown["buffered"].first_paint_ns == 49 * MS
    assert state.timeline.shown["streamed"].completion_ns == 41 * MS
    async with hosted(TimelinePanel, state, size=(100, 20)) as (app, _):
        streamed, buffered = (next(r for r in app.rows() if r.startswith(name)) for name in ("streamed", "buffered"))
    assert streamed.index("▲") < streamed.index("■")
    assert streamed.index("▲") < buffered.index("▲")
    assert "20 ms ▲ first paint, 41 ms ■ complete" in streamed


async def test_a_rejected_request_has_nothing_to_show_and_does_not_fail():
    state = EngineState()
    state.apply(Rejected("r", "Too long."))
    async with hosted(TimelinePanel, state) as (app, _):
        assert app.rows()[0] == "nothing has run yet"


@given(st.floats(0, 1), st.integers(0, 40))
def test_a_bar_is_never_longer_than_its_room_and_grows_with_the_share(share, width):
    drawn = bar(share, width)
    assert len(drawn) <= width
    assert len(bar(share / 2, width)) <= len(drawn)
    assert bool(drawn) == (share > 0 and width > 0)


def test_ramps_span_their_whole_range():
    assert (ramp(0), ramp(0.999), ramp(float("nan"))) == ("▁", "█", "█")
    assert [shade(x) for x in (0.1, 0.5, 0.7, 1.0)] == list("░▒▓█")
    assert (superscript(2), superscript(12)) == ("²", "⁺")
    assert sparkline([0, 5, 10], 2) == "▄█"
    assert sparkline([0, 0], 5) == "▁▁"
    assert sparkline([1], 0) == ""


def test_numbers_read_as_people_write_them():
    assert [milliseconds(ns) for ns in (0, 400_000, 4_200_000, 41 * MS, 1_204 * MS)] == [
        "0",
        "0.4",
        "4.2",
        "41",
        "1,204",
    ]
    assert [duration(ns) for ns in (41 * MS, 1_204 * MS, 12_340 * MS, 123_000 * MS)] == [
        "41 ms", "1.20 s", "12.3 s", "2 min 03 s"
    ]  # fmt: skip
    assert [size(n) for n in (512, 1_536, 3 * 1024**2, 5 * 1024**4)] == ["512 B", "1.5 KiB", "3.0 MiB", "5.0 TiB"]
    assert [percent(x) for x in (0, 0.0001, 0.712, 1)] == ["0.0%", "<0.1%", "71.2%", "100.0%"]
    assert (count(1_024), rate(182.4), rate(9.44)) == ("1,024", "182", "9.4")
