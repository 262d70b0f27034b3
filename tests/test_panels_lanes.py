"""Lanes, queue and policy comparison."""

from __future__ import annotations

import msgspec
from cutaway.engine.protocol import Step, Wait
from cutaway.tui.panels import LanesPanel
from cutaway.tui.state import Selection

from .hand_events import PIECES, Story, conversation
from .panel_host import hosted, told


async def test_each_lane_is_a_row_of_what_it_did_and_newest_is_last():
    async with hosted(LanesPanel, told(conversation().events), size=(80, 14)) as (app, _):
        rows = app.rows()
    assert rows[0].split()[:2] == ["0", "A░▪▪"]
    assert rows[1].split()[:2] == ["1", "··B▪"]
    assert rows[1].endswith("B decode")


async def test_prefill_shows_its_chunk_size_as_density_and_in_numbers():
    story = Story().begin().ask("r", ["w"] * 40)
    at = 0
    for count in (1, 8, 12, 16):
        story.step([story.lane(0, "r", "prefill", at, count, admitted=at == 0)])
        at += count
    story.step([story.lane(0, "r", "padding", at, 1), story.lane(1, "q", "recompute", 0, 7)])
    async with hosted(LanesPanel, told(story.events[:-1]), size=(80, 14)) as (app, _):
        assert app.rows()[0].startswith("0 A▒▓█ ")
        assert app.rows()[0].endswith("A prefill 16@21")
    async with hosted(LanesPanel, told(story.events), size=(80, 14)) as (app, _):
        assert [row[:7] for row in app.rows()[:2]] == ["0 A▒▓█×", "1 ····↻"]


async def test_the_queue_tells_who_waits_and_why():
    story = Story().begin().ask("a", ("x",)).ask("b", ("y",))
    waits = [Wait("b", 0, "4 pages needed, 2 free", 4, 2, overtaken=3)]
    story.step([story.lane(0, "a", "decode", 1, 1)], waits=waits)
    async with hosted(LanesPanel, told(story.events)) as (app, _):
        assert "waits B: 4 pages needed, 2 free (overtaken 3 times)" in app.rows()
        assert "50.0% useful" in app.borders()


async def test_a_step_launched_while_the_one_before_ran_is_told_so():
    events = list(conversation().events)
    async with hosted(LanesPanel, told(events), size=(80, 14)) as (app, _):
        assert "launched ahead" not in app.borders()
    last = max(at for at, event in enumerate(events) if isinstance(event, Step))
    events[last] = msgspec.structs.replace(events[last], ahead=True)
    async with hosted(LanesPanel, told(events), size=(80, 14)) as (app, _):
        assert "launched ahead" in app.borders()


async def test_both_policies_stand_side_by_side_with_their_finish_times():
    story = Story().begin()
    for policy, steps in (("continuous", 2), ("static", 5)):
        for label in ("short", "long"):
            submitted = story.now
            request = f"{policy}-{label}"
            story.ask(request, PIECES, label=label)
            for _ in range(steps):
                story.step([story.lane(0, request, "decode", 9, 1)], policy=policy)  # type: ignore[arg-type]
            story.finish(request, submitted=submitted)
    async with hosted(LanesPanel, told(story.events), size=(80, 20)) as (app, _):
        rows = [row.split() for row in app.rows()]
        assert "static" in app.borders()
    assert ["finished", "after", "continuous", "static"] in rows
    assert ["short", "21", "ms", "51", "ms"] in rows
    assert ["long", "21", "ms", "51", "ms"] in rows
    assert ["p50", "21", "ms", "51", "ms"] in rows
    assert ["last", "21", "ms", "51", "ms"] in rows


async def test_pages_that_one_policy_found_cached_are_told_beside_its_times_and_the_sums_come_first():
    story = Story().begin()
    for policy, cached in (("continuous", 0), ("static", 6)):
        submitted = story.now
        story.ask(policy, PIECES, label="short")
        story.step([story.lane(0, policy, "decode", 9, 1, cached=cached)], policy=policy)  # type: ignore[arg-type]
        story.finish(policy, submitted=submitted)
    async with hosted(LanesPanel, told(story.events), size=(80, 20)) as (app, _):
        rows = [row.split()[:2] for row in app.rows()]
        assert ["≡", "spared", "0", "6"] in [row.split() for row in app.rows()]
        assert "the prefix cache spared one of them more" in "\n".join(app.rows())
    assert rows.index(["p50", "11"]) < rows.index(["last", "11"]) < rows.index(["short", "11"])


async def test_traffic_of_ones_own_is_shown_before_it_ran_under_the_other_policy():
    story = Story().begin()
    for policy, label in (("continuous", "built in"), ("static", "built in"), ("static", "line 1")):
        submitted = story.now
        request = f"{policy}-{label}"
        story.ask(request, PIECES, label=label)
        story.step([story.lane(0, request, "decode", 9, 1)], policy=policy)  # type: ignore[arg-type]
        story.finish(request, submitted=submitted)
    async with hosted(LanesPanel, told(story.events), size=(80, 20)) as (app, _):
        rows = [row.split() for row in app.rows()]
    assert ["line", "1", "—", "11", "ms"] in rows
    assert ["built", "in", "11", "ms", "11", "ms"] in rows
    assert any(row[:4] == ["run", "the", "same", "traffic"] for row in rows)


async def test_one_policy_alone_says_how_to_compare():
    story = Story().begin().ask("r", PIECES)
    story.step([story.lane(0, "r", "decode", 9, 1)]).finish("r", submitted=1)
    async with hosted(LanesPanel, told(story.events)) as (app, _):
        assert "run the same traffic under the other policy to compare" in app.rows()


async def test_clicking_a_cell_selects_the_token_it_made():
    state, selection = told(conversation().events), Selection()
    async with hosted(LanesPanel, state, selection) as (_, pilot):
        await pilot.click(LanesPanel, offset=(1 + 2 + 2, 1))
        assert (selection.request, selection.position) == ("r1", 11)
        await pilot.click(LanesPanel, offset=(1 + 2, 1))
        assert (selection.request, selection.position) == ("r1", 7)


async def test_up_and_down_select_what_the_lanes_do_now():
    state, selection = told(conversation().events), Selection()
    selection.select_request("r1")
    async with hosted(LanesPanel, state, selection) as (_, pilot):
        await pilot.press("down")
        assert selection.request == "r2"
        await pilot.press("down", "up")
        assert selection.request == "r1"
