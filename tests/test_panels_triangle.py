"""The prefill triangle, against the chunks."""

from __future__ import annotations

from cutaway.engine.protocol import PromptRendered
from cutaway.tui.panels import TrianglePanel
from cutaway.tui.panels.triangle_grid import TriangleGrid
from cutaway.tui.state import Chunk, Selection
from hypothesis import given
from hypothesis import strategies as st

from .hand_events import conversation
from .panel_host import hosted, told


@st.composite
def prefills(draw: st.DrawFn) -> tuple[int, int, list[Chunk]]:
    """(length, cached, chunks): a prompt computed up to somewhere, chunk by chunk."""
    length = draw(st.integers(1, 60))
    cached = draw(st.integers(0, length - 1))
    at, chunks = cached, []
    for count in draw(st.lists(st.integers(1, 30), max_size=6)):
        count = min(count, length - at)
        if count:
            chunks.append(Chunk(at, count, "prefill", len(chunks), 0, 0, 1_000))
        at += count
    return length, cached, chunks


@given(prefills())
def test_unscaled_every_cell_is_what_the_chunks_did(prefill):
    length, cached, chunks = prefill
    grid = TriangleGrid(length, cached, chunks, 2 * length, length)
    assert not grid.scaled
    for query in range(length):
        cells = grid.row(query)
        by = next((at for at, chunk in enumerate(chunks) if chunk.start <= query < chunk.end), None)
        for column, cell in enumerate(cells):
            key = column // 2
            if key > query:
                assert cell.kind == "future"
            elif query < cached:
                assert cell.kind == "spared"
            elif by is None:
                assert cell.kind == "pending"
            else:
                assert cell.kind == ("reused" if key < cached else "computed")
                assert cell.chunk == by


@given(prefills(), st.integers(1, 40), st.integers(1, 40))
def test_scaled_it_stays_in_its_cells_and_shows_all_of_a_finished_prompt_and_none_of_an_unstarted(
    prefill, columns, rows
):
    length, cached, chunks = prefill
    grid = TriangleGrid(length, cached, chunks, columns, rows)
    drawn = [grid.row(row) for row in range(grid.rows)]
    assert len(drawn) <= min(rows, length)
    assert all(len(row) <= columns for row in drawn)
    assert sorted(position for row in range(grid.rows) for position in grid.positions(row)) == list(range(length))
    texts = {cell.text for row in drawn for cell in row}
    kinds = {cell.kind for row in drawn for cell in row}
    if chunks and chunks[-1].end == length:
        assert "pending" not in kinds
    if not chunks:
        assert not texts & set("█▓▀▄▒")


async def test_the_panel_draws_the_chunks_and_tells_positions_time_and_rate():
    state, selection = told(conversation().events), Selection()
    selection.select_request("r1")
    async with hosted(TrianglePanel, state, selection, (80, 20)) as (app, _):
        rows = app.rows()
    square = [row[: 3 + 20] for row in rows]
    assert square[0] == " 0 " + "░░" + "╲" * 18
    assert square[3] == "   " + "░░" * 4 + "╲" * 12
    assert square[4] == " 4 " + "▒▒" * 4 + "██" + "╲" * 10
    assert square[9] == "   " + "▒▒" * 4 + "▓▓" * 6
    assert [row[25:] for row in rows[:7]] == [
        "computed 6 of 10 positions",
        "spared 4",
        "16 ms in the model",
        "375 tok/s",
        "2 chunks, last 8–9",
        "step 1, lane 0",
        "45 query-key pairs (derived)",
    ]


async def test_a_narrow_panel_has_its_facts_below():
    state, selection = told(conversation().events), Selection()
    selection.select_request("r1")
    async with hosted(TrianglePanel, state, selection, (46, 20)) as (app, _):
        rows = app.rows()
    assert rows[9] == "   " + "▒▒" * 4 + "▓▓" * 6
    assert rows[10] == "computed 6 of 10 positions · spared 4"
    assert rows[11].startswith("16 ms in the model · 375 tok/s")
    assert rows[12].startswith("█▓ computed")


async def test_a_long_prompt_is_scaled_to_the_panel():
    story = conversation()
    story.ask("long", ["w"] * 5_000)
    story.step([story.lane(0, "long", "prefill", 0, 2_500, (1,), admitted=True)])
    state, selection = told(story.events), Selection()
    selection.select_request("long")
    async with hosted(TrianglePanel, state, selection, (60, 24)) as (app, _):
        rows = app.rows()
    square = [row for row in rows if "╲" in row or "█" in row or "·" * 5 in row]
    assert 10 < len(square) <= 22
    assert "computed 2,500 of 5,000 positions" in "\n".join(rows)
    assert square[0].count("█") <= 2
    assert any("·" * 10 in row for row in square[-5:])


async def test_what_a_fork_shares_with_its_source_is_spared_too():
    story = conversation()
    story.prompts["fork"] = 10
    story.events.append(PromptRendered("fork", "", (), 0, 0, story.now, story.now, 128, source="r1"))
    story.step([story.lane(0, "fork", "prefill", 9, 1, (3, 4, 9), admitted=True)])
    state, selection = told(story.events), Selection()
    selection.select_request("fork")
    async with hosted(TrianglePanel, state, selection, (100, 20)) as (app, _):
        rows = app.rows()
    assert [row[3:5] for row in rows[:9]] == ["░░"] * 9
    assert rows[9][:23].endswith("▒▒" * 9 + "██")
    assert "shared by the fork 9" in "\n".join(rows)
