"""Markdown tables to lines: cells wrap, borders line up, a table too wide for its place becomes a list. No Textual."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from .styled import Line, Styled

LEAST = 4  # cells a column must have
_BAR = " │ "


def table_lines(rows: Sequence[Sequence[Styled]], width: int) -> list[Line]:
    """Lines of a table; the first row is the header. Every character can be read at any width."""
    columns = max((len(row) for row in rows), default=0)
    if not columns:
        return []
    room = width - cell_len(_BAR) * (columns - 1)
    if room < LEAST * columns:
        return _stacked(rows, width)
    widths = _share([max(cell_len(row[c].text) if c < len(row) else 0 for row in rows) for c in range(columns)], room)
    lines: list[Line] = []
    for index, row in enumerate(rows):
        cells = [list(row[c].wrap(widths[c])) if c < len(row) else [Styled()] for c in range(columns)]
        for level in range(max(len(cell) for cell in cells)):
            line = Styled()
            for c, cell in enumerate(cells):
                if c:
                    line.add(_BAR, "frame")
                part = cell[level] if level < len(cell) else Styled()
                part = _fit(part, widths[c])
                line.append(part)
                if c < columns - 1:
                    line.add(" " * (widths[c] - cell_len(part.text)))
            lines.append(line.line())
        if index == 0:
            rule = Styled()
            rule.add("─┼─".join("─" * w for w in widths), "frame")
            lines.append(rule.line())
    return lines


def _fit(part: Styled, width: int) -> Styled:
    """Without the spaces that hang over the edge."""
    while len(part) and cell_len(part.text) > width and part.text[-1] == " ":
        part = part.slice(0, len(part) - 1)
    return part


def _share(wanted: list[int], room: int) -> list[int]:
    """Give each column what it wants, the narrow ones first, and the wide ones equal shares of the rest."""
    widths = [0] * len(wanted)
    left = room
    order = sorted(range(len(wanted)), key=lambda c: wanted[c])
    for done, column in enumerate(order):
        fair = left // (len(order) - done)
        widths[column] = max(1, min(wanted[column], fair))
        left -= widths[column]
    return widths


def _stacked(rows: Sequence[Sequence[Styled]], width: int) -> list[Line]:
    """Each row as a list of "header: cell" lines."""
    header, *body = rows
    if not body:
        body = [header]
    lines: list[Line] = []
    for row in body:
        if lines:
            rule = Styled()
            rule.add("─" * max(1, width), "frame")
            lines.append(rule.line())
        for c, cell in enumerate(row):
            entry = Styled()
            if row is not header and c < len(header):
                entry.append(header[c])
                entry.add(": ", "frame")
            entry.append(cell)
            lines.extend(part.line() for part in entry.wrap(width))
    return lines
