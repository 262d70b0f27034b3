"""The six lines of the summary, as a panel."""

from __future__ import annotations

from collections.abc import Hashable

from ..panels.line import Line, wrap
from ..panels.panel import Panel
from .progress import Tour
from .summary import brief, summary
from .view import View

HEAD = 12  # cells of a stage's name


class SummaryPanel(Panel):
    """One stage of the reader's request a line, with the figures of its chapters, "first → second" setting.

    Where they do not fit, one figure a chapter: the saved tour has them all.
    """

    TITLE = "your request in six lines"

    def __init__(self, tour: Tour, view: View) -> None:
        super().__init__(view.state, view.selection)
        self.tour = tour

    def depends_on(self) -> Hashable:
        return tuple(summary(self.tour))

    def waiting(self) -> str:
        return ""

    def draw(self, width: int, height: int) -> list[Line]:
        rows = _rows(summary(self.tour), width)
        return rows if len(rows) <= height else _rows(brief(self.tour), width)


def _rows(stages: list[tuple[str, str]], width: int) -> list[Line]:
    rows: list[Line] = []
    for stage, figures in stages:
        for at, part in enumerate(wrap(figures, max(10, width - HEAD))):
            rows.append(Line().fit(stage if at == 0 else "", HEAD, "strong").add(part))
    return rows
