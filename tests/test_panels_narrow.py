"""What panels tell in the width that they have beside the chat at 160 columns: 51 cells, and rows to spare."""

from __future__ import annotations

import pytest
from cutaway.tui.panels import CandidatesPanel, PagesPanel, TimelinePanel, TokenRow, TrianglePanel
from cutaway.tui.panels.line import MORE, spread
from cutaway.tui.panels.panel import Panel
from cutaway.tui.state import Selection
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from .hand_events import LOGITS, conversation
from .panel_host import hosted, told

BESIDE_THE_CHAT = (53, 17)  # with the border
parts = st.lists(st.text("ab█日 ", min_size=1, max_size=12), min_size=1, max_size=8)


async def drawn(kind: type[Panel], position: int = 10) -> list[str]:
    selection = Selection()
    selection.select_token("r1", 0, position)
    async with hosted(kind, told(conversation().events), selection, BESIDE_THE_CHAT) as (app, _):
        return app.rows()


@given(parts, st.integers(1, 40), st.integers(1, 5))
def test_parts_stay_whole_and_in_order_over_several_rows_and_what_is_left_out_is_marked(
    given_parts: list[str], width: int, rows: int
) -> None:
    lines = spread(given_parts, width, rows, between="|")
    assert 1 <= len(lines) <= rows
    shown = "|".join(line.text for line in lines)
    if not shown.endswith(MORE):
        assert "|".join(given_parts).startswith(shown)
    for line in lines:
        assert line.width == cell_len(line.text)
        assert line.width <= width or "|" not in line.text


@given(parts)
def test_where_there_is_room_for_all_parts_none_is_left_out(given_parts: list[str]) -> None:
    lines = spread(given_parts, 12, len(given_parts), between="|")
    assert "|".join(line.text for line in lines) == "|".join(given_parts)


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        (TimelinePanel, ("queue", "prefill", "decode to first text", "transport", "first decode", "most")),
        (PagesPanel, ("hit rate", "cached, free to take", "✗ evicted")),
        (TokenRow, ("rank", "drawn at", "surprise", "! forced", "■ end")),
        (TrianglePanel, ("positions", "in the model", "tok/s", "the future")),
        (CandidatesPanel, ("drawn from", "rank", "draw 0.250")),
    ],
)
async def test_a_narrow_panel_with_rows_to_spare_tells_all_of_its_facts(
    kind: type[Panel], facts: tuple[str, ...]
) -> None:
    text = "\n".join(await drawn(kind))
    assert [fact for fact in facts if fact not in text] == []


async def test_a_narrow_panel_still_tells_logits_and_which_filter_cut_a_candidate() -> None:
    rows = [row for row in await drawn(CandidatesPanel) if row[:1] in "▸✂ " and "%" in row]
    assert [row.split()[-1] for row in rows] == [f"{logit:.2f}" for logit in LOGITS]
    assert ["top-p" in row for row in rows] == [row.startswith("✂") for row in rows]


async def test_the_rows_of_the_tokens_do_not_jump_when_another_token_has_less_to_tell() -> None:
    first, second = await drawn(TokenRow, 0), await drawn(TokenRow, 10)
    assert next(at for at, row in enumerate(first) if row.startswith("#")) == next(
        at for at, row in enumerate(second) if row.startswith("#")
    )
