"""The panels a chapter may name: those of the main screen, and two of the tour's own."""

from __future__ import annotations

from ..panels import CandidatesPanel, LanesPanel, PagesPanel, Panel, TimelinePanel, TokenRow, TrianglePanel
from .cards import CardsPanel
from .progress import Tour
from .summary_panel import SummaryPanel
from .view import View

_PANELS: dict[str, type[Panel]] = {
    "timeline": TimelinePanel,
    "tokens": TokenRow,
    "lanes": LanesPanel,
    "triangle": TrianglePanel,
    "pages": PagesPanel,
    "candidates": CandidatesPanel,
}


def make_panel(name: str, view: View, tour: Tour) -> Panel:
    """A panel on what a run has left."""
    if name == "summary":
        return SummaryPanel(tour, view)
    if name == "cards":
        return CardsPanel(view)
    return _PANELS[name](view.state, view.selection)
