"""The page grid, against the block tables and the pool's totals."""

from __future__ import annotations

from cutaway.engine.protocol import Configured, PageChange, PageDetail, PoolTotals, Switches
from cutaway.tui.panels import InspectRequested, PagesPanel
from cutaway.tui.state import Selection
from hypothesis import given, settings
from hypothesis import strategies as st

from .hand_events import Story, card, conversation, used
from .panel_host import hosted, told


async def test_the_grid_is_the_block_tables():
    state, selection = told(conversation().events), Selection()
    state.pool.flashes.clear()
    async with hosted(PagesPanel, state, selection, (42, 20)) as (app, _):
        rows = app.rows()
    # Page 3 is shared by A and B, 4 and 5 are A's and full, 6 is B's with 3 of 4, 7 is cached.
    assert rows[0] == "···²AA▆░" + "·" * 32
    assert rows[1] == "·" * 24


async def test_the_totals_are_the_pools():
    state = told(conversation().events)
    async with hosted(PagesPanel, state, size=(100, 20)) as (app, _):
        text = "\n".join(app.rows())
        assert "4 used · 1 shared · 1 cached · 59 free" in app.borders()
    assert "4.0 KiB of 64.0 KiB · hit rate 25.0% · 4 of 16 tokens hit · 1 evicted" in text


async def test_an_evicted_and_a_copied_page_flash_and_then_calm_down():
    story = Story().begin().ask("r", ("a",))
    story.step(
        [story.lane(0, "r", "prefill", 0, 1, (0, 1))],
        pages=[used(0, ("r/0",), evicted=True), used(1, ("r/0",), 2, copied_from=0)],
        pool=PoolTotals(64, 2, 0, 0, 62),
    )
    state = told(story.events)
    # Far in the future of this process, so that only the second poll puts it out.
    state.pool.flashes = {page: type(f)(f.kind, 2**62) for page, f in state.pool.flashes.items()}
    async with hosted(PagesPanel, state) as (app, pilot):
        assert app.rows()[0].startswith("✗»··")
        state.pool.flashes = {page: type(f)(f.kind, 0) for page, f in state.pool.flashes.items()}
        assert app.panel.refresh_if_changed(app.panel._drawn_ns + 10**9)
        await pilot.pause()
        assert app.rows()[0].startswith("A▄··")


async def test_the_selected_page_shows_tokens_owners_references_and_hash():
    state, selection = told(conversation().events), Selection()
    async with hosted(PagesPanel, state, selection, (100, 20)) as (app, pilot):
        await pilot.press("home", "right", "right", "right")
        assert selection.page == 3
        text = "\n".join(app.rows())
        assert "page 3 · used · 4/4 · refs 2 · A B · #ab12" in text
        assert "<|im_start|>│user│⏎│Why" in text
        asked = [message.page for message in app.posted if isinstance(message, InspectRequested)]
        assert asked == [3]
        state.apply(PageDetail(3, "used", (1, 2), ("told", " by\x1b")))
        app.panel.repaint()
        await pilot.pause()
        assert "told│·by␛" in "\n".join(app.rows())


async def test_clicking_a_cell_selects_its_page():
    state, selection = told(conversation().events), Selection()
    async with hosted(PagesPanel, state, selection, (42, 20)) as (_, pilot):
        await pilot.click(PagesPanel, offset=(1 + 5, 1 + 1))
        assert selection.page == 45
        await pilot.press("up", "left")
        assert selection.page == 4
        await pilot.press("end")
        assert selection.page == 63
        await pilot.press("right", "down")
        assert selection.page == 63


async def test_a_selected_token_marks_its_page():
    state, selection = told(conversation().events), Selection()
    selection.select_token("r1", 0, 9)
    async with hosted(PagesPanel, state, selection, (100, 20)) as (app, _):
        assert "page 5 · used" in "\n".join(app.rows())
        (marked,) = [s.text for strip in app.strips()[1:4] for s in strip if s.style and s.style.reverse]
        assert marked == "A"


async def test_a_big_pool_scrolls_and_keeps_its_facts_in_sight():
    story = Story().begin(card(pages=5_000))
    story.step([], pages=[used(4_999, ("r/0",))], pool=PoolTotals(5_000, 1, 0, 0, 4_999))
    state, selection = told(story.events), Selection()
    async with hosted(PagesPanel, state, selection, (52, 20)) as (app, pilot):
        assert "?" not in app.rows()[0]
        await pilot.press("end")
        await pilot.pause()
        grid = [row for row in app.rows() if row.startswith("·")]
        assert grid[-1].rstrip("▅▇█▁▂▃ ▄▆").endswith("?")
        assert any("page 4,999" in row for row in app.rows())


async def test_without_kv_reuse_the_recomputed_positions_stand_against_the_needed_ones():
    story = conversation()
    story.events.append(Configured(Switches(kv_reuse=False)))
    story.step([story.lane(0, "r1", "recompute", 0, 12)])
    state = told(story.events)
    async with hosted(PagesPanel, state, size=(51, 16)) as (app, _):
        text = "\n".join(app.rows())
    assert "KV reuse off: computed 12 · reuse needs 1" in text
    assert state.requests["r1"].recomputed == 11


@settings(max_examples=15, deadline=None)
@given(st.lists(st.sampled_from(["own", "part", "shared", "cached", "free", "never"]), min_size=1, max_size=60))
async def test_every_page_is_told_apart_by_its_glyph(kinds):
    story = Story().begin(card(pages=len(kinds))).ask("r", ("a",))
    changes = {
        "own": lambda page: used(page, ("r/0",)),
        "part": lambda page: used(page, ("r/0",), 1),
        "shared": lambda page: used(page, ("r/0", "q/0", "r/1")),
        "cached": lambda page: PageChange(page, "cached", (), 4),
        "free": lambda page: PageChange(page, "free"),
    }
    pages = [changes[kind](page) for page, kind in enumerate(kinds) if kind != "never"]
    story.step([story.lane(0, "r", "prefill", 0, 1)], pages=pages, pool=PoolTotals(len(kinds), 0, 0, 0, 0))
    glyphs = {"own": "A", "part": "▂", "shared": "³", "cached": "░", "free": "·", "never": "·"}
    async with hosted(PagesPanel, told(story.events), size=(22, 14)) as (app, _):
        drawn = "".join(app.rows())[: len(kinds)]
    assert drawn == "".join(glyphs[kind] for kind in kinds)
