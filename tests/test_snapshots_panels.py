"""Each panel with the whole screen to itself, over recorded conversations."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .scenes import MIDDLE, SMALL, Scene, maximised

# The trace that has most to show, and how many of its steps to play.
MOST: dict[str, tuple[str, int | None]] = {
    "tokens": ("prefix", None),
    "lanes": ("policies", 290),
    "triangle": ("stepped", 3),
    "pages": ("policies", 40),
    "candidates": ("temperatures", None),
    "timeline": ("buffered", None),
}


@pytest.mark.parametrize("panel", MOST)
@pytest.mark.parametrize(("size", "look"), [(MIDDLE, "dark"), (SMALL, "no-colour")], ids=("120x40", "80x24-no-colour"))
def test_a_panel_maximised(snapped: Callable[..., bool], panel: str, size: tuple[int, int], look: str) -> None:
    trace, upto = MOST[panel]
    assert snapped(Scene(trace, size, upto=upto, keys=maximised(panel)), look)


@pytest.mark.parametrize("panel", MOST)
def test_a_panel_in_the_place_of_the_chat(snapped: Callable[..., bool], panel: str) -> None:
    trace, upto = MOST[panel]
    assert snapped(Scene(trace, SMALL, upto=upto, keys=maximised(panel)[:1]))
