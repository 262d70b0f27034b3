"""One row of a panel: text in named styles, and the border that no control character passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from ..printable import printable

MORE = "…"
ROOMY = 12  # rows of a panel from which on one kind of fact may take two
Look = Callable[[str], Style]


def safe(text: str) -> str:
    """Text on one line, with nothing in it that a terminal obeys."""
    return text if text.isprintable() else printable(text).replace("\n", "⏎").replace("\t", "␉")


class Line:
    """Text in named styles, left to right. A style is a space-separated list of names that `Panel.look` knows."""

    __slots__ = ("_made", "parts", "width")

    def __init__(self, text: str = "", style: str = "") -> None:
        self.parts: list[tuple[str, str]] = []
        self.width = 0  # cells
        self._made: tuple[object, int, Strip] | None = None  # by which looks and how wide, and the strip
        if text:
            self.add(text, style)

    def add(self, text: str, style: str = "") -> Line:
        """Append text; control characters become visible pictures, whoever forgot them before."""
        if text:
            self._made = None
            text = safe(text)
            self.width += len(text) if text.isascii() else cell_len(text)
            # Neighbours in one style are one segment: everything after this costs per segment.
            if self.parts and self.parts[-1][1] == style:
                text = self.parts.pop()[0] + text
            self.parts.append((text, style))
        return self

    def fit(self, text: str, width: int, style: str = "", right: bool = False) -> Line:
        """Append text cropped or padded to exactly `width` cells."""
        if width <= 0:
            return self
        text = safe(text)
        missing = width - cell_len(text)
        if missing < 0:
            text = set_cell_size(text, width - 1) + MORE if width > 1 else set_cell_size(text, 1)
        elif right:
            text = " " * missing + text
        else:
            text = text + " " * missing
        return self.add(text, style)

    def pad_to(self, column: int, style: str = "") -> Line:
        """Append spaces until the row is `column` cells wide."""
        return self.add(" " * (column - self.width), style)

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.parts)

    def strip(self, width: int, look: Look, looks: object = None) -> Strip:
        """The row as exactly `width` cells: the strip made before, where that was by the same `looks`, if given."""
        made = self._made
        if made is None or made[0] is not looks or made[1] != width:
            segments = [Segment(text, look(style)) for text, style in self.parts]
            strip = Strip(segments, self.width).adjust_cell_length(width, look(""))
            made = looks, width, strip
            self._made = made if looks is not None else None
        return made[2]


def joined(parts: Iterable[str], width: int, style: str = "", between: str = " · ") -> Line:
    """As many parts as fit whole, in order, and "…" for the rest; the first one is always there, cut if need be."""
    waiting = list(parts)
    line = Line()
    for at, part in enumerate(waiting):
        text = (between if line.parts else "") + part
        last = at == len(waiting) - 1
        if line.parts and line.width + cell_len(text) + (0 if last else 2) > width:
            return line.add(f" {MORE}", style) if line.width + 2 <= width else line
        line.add(text, style)
    return line


def facts_rows(height: int) -> int:
    """How many rows one kind of fact may take in a panel of this height."""
    return 2 if height >= ROOMY else 1


def spread(
    parts: Iterable[str], width: int, rows: int, style: str = "", between: str = " · ", fill: bool = False
) -> list[Line]:
    """Like `joined`, over as many rows as needed, `rows` at most: "…" stands at the end of the last one only.

    With `fill` there are always `rows`: what stands beside them does not jump where one needs fewer.
    """
    waiting = list(parts)
    lines: list[Line] = []
    while waiting and len(lines) < max(1, rows) - 1:
        whole, used = 1, cell_len(safe(waiting[0]))
        while whole < len(waiting) and (used := used + cell_len(between + safe(waiting[whole]))) <= width:
            whole += 1
        lines.append(Line(between.join(waiting[:whole]), style))
        waiting = waiting[whole:]
    if waiting:
        lines.append(joined(waiting, width, style, between))
    return lines + [Line()] * (rows - len(lines) if fill else 0)


def wrap(text: str, width: int) -> list[str]:
    """Text in rows of at most `width` characters, broken at spaces where there are any."""
    rows: list[str] = []
    rest = safe(text)
    while rest and width > 0:
        cut = len(rest)
        if cut > width:
            cut = rest.rfind(" ", 1, width + 1)
            cut = width if cut < 1 else cut
        rows.append(rest[:cut])
        rest = rest[cut:].lstrip(" ")
    return rows
