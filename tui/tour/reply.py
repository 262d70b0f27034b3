"""The reader's question and what the model has said to it, under both settings."""

from __future__ import annotations

from collections.abc import Hashable

from ..panels.line import Line, wrap
from ..panels.panel import Panel
from .progress import Tour
from .view import View


class ReplyPanel(Panel):
    """`view` is the run that is shown; a run under way is told as far as its text has come."""

    TITLE = "your request"

    def __init__(self, tour: Tour, view: View, id: str) -> None:
        super().__init__(view.state, view.selection, id=id)
        self.tour = tour
        self.view = view

    def depends_on(self) -> Hashable:
        replies = tuple(outcome.reply for outcome in self.tour.mark.outcomes.values())
        return (self.tour.at, self.tour.question, len(self.view.texts), replies, self.view.setting)

    def waiting(self) -> str:
        return ""

    def draw(self, width: int, height: int) -> list[Line]:
        rows = _said("you", self.tour.question, width, "user")
        for setting in self.tour.chapter.settings:
            outcome = self.tour.mark.outcomes.get(setting.key)
            live = self.view.reply() if self.view.setting == setting.key else ""
            text = live or (outcome.reply if outcome is not None else "")
            if text:
                rows += _said(setting.name, text, width, "assistant")
        return rows


def _said(who: str, text: str, width: int, style: str) -> list[Line]:
    parts = wrap(" ".join(text.split()), max(8, width - 2)) or [""]
    return [Line(who, style), *(Line(f"  {part}") for part in parts)]
