"""From places on the screen back to the source: what is selected, and what was clicked."""

from __future__ import annotations

from rich.cells import cell_len
from textual.selection import Selection

from ..state.conversation import Node
from .column import Column
from .styled import Line


def selected_source(column: Column, selection: Selection) -> str:
    """The source of the selected characters, message by message; where only decoration is selected, that."""
    first = selection.start.y if selection.start is not None else 0
    last = selection.end.y if selection.end is not None else column.height - 1
    spans: list[tuple[Node, int, int]] = []
    shown: list[str] = []
    for y in range(max(0, first), min(last, column.height - 1) + 1):
        found = column.line(y)
        span = selection.get_span(y)
        if found is None or span is None:
            continue
        section, line = found
        start, end = span
        stop = len(line.origins) if end == -1 else end
        shown.append(line.text[start:stop])
        origins = [origin for origin in line.origins[start:stop] if origin >= 0]
        if not origins:
            continue
        low, high = min(origins), max(origins) + 1
        if spans and spans[-1][0] is section.node:
            node, before, after = spans[-1]
            spans[-1] = (node, min(before, low), max(after, high))
        else:
            spans.append((section.node, low, high))
    if spans:
        return "\n\n".join(node.text[low:high] for node, low, high in spans)
    return "\n".join(part.rstrip() for part in shown).strip("\n")


def source_at(line: Line, cell: int) -> int | None:
    """The source offset of the character at a cell of a line; None for decoration and beyond the end."""
    text = line.text
    index = next((i for i in range(len(text)) if cell_len(text[: i + 1]) > cell), -1)
    return line.origins[index] if index >= 0 and line.origins[index] >= 0 else None
