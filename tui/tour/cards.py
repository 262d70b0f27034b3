"""The messages as cards, one a role, and the one row that the template makes of them."""

from __future__ import annotations

from collections.abc import Hashable

from rich.cells import cell_len

from ..panels.line import Line, wrap
from ..panels.panel import Panel
from .view import View


class CardsPanel(Panel):
    """Above the messages of the reader's request, below the one text that the template makes of them."""

    TITLE = "role cards"
    CAPABILITY = "tokens"

    def __init__(self, view: View) -> None:
        super().__init__(view.state, view.selection)
        self.view = view

    def depends_on(self) -> Hashable:
        request = self.current
        return (request and id(request.rendered), self.selection.version)

    def draw(self, width: int, height: int) -> list[Line]:
        request = self.current
        if request is None or request.rendered is None:
            return []
        rows = [line for message in self.view.messages for line in _card(message.role, message.content, width)]
        many = sum(token.control for token in request.prompt)
        rows.append(Line("  ▼ template: one row, ◆ where a control marker was kept", "dim"))
        line = Line()
        for token in request.prompt:
            line.add("◆" if token.control else token.piece, "control" if token.control else token.role)
        rows += _wrapped(line, width)
        return [*rows, Line(f"{len(request.prompt)} tokens, {many} of them control markers", "dim")]


def _card(role: str, text: str, width: int) -> list[Line]:
    inside = max(8, width - 4)
    top = f"╭ {role} " + "─" * max(0, inside - len(role)) + "╮"
    body = [Line("│ ", role).fit(part, inside).add(" │", role) for part in wrap(text, inside)]
    return [Line(top[: width - 1] + "╮", role), *body, Line("╰" + "─" * (width - 2) + "╯", role)]


def _wrapped(line: Line, width: int) -> list[Line]:
    """A styled row broken at the panel's width."""
    rows = [Line()]
    for text, style in line.parts:
        for character in text:
            if rows[-1].width + cell_len(character) > width:
                rows.append(Line())
            rows[-1].add(character, style)
    return rows
