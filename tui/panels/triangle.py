"""The prefill triangle: which query looked at which key, chunk by chunk."""

from __future__ import annotations

from collections.abc import Hashable

from ..state import SampleState
from .line import Line, facts_rows, spread
from .panel import Panel
from .triangle_grid import Cell, TriangleGrid
from .units import count, duration, rate

STYLES = {"future": "dim", "spared": "accent", "reused": "accent", "pending": "dim"}
BESIDE = 34  # cells that the facts need beside the square
LEGEND = ("█▓ computed", "░ spared by the prefix cache", "▒ read from it", "· to come", "╲ the future")


class TrianglePanel(Panel):
    """Rows are queries, columns keys. What a token may not see is crossed out; what the cache spared is light."""

    TITLE = "prefill triangle"
    CAPABILITY = "prefill"
    SCROLLS = False

    def depends_on(self) -> Hashable:
        request = self.current
        found = self.selection
        if request is None:
            return None
        sample = request.samples.get(found.sample)
        # Decoding does not change the triangle: only chunks do.
        return (request.request, id(request.rendered), found.sample, sample and (len(sample.chunks), sample.cached))

    def draw(self, width: int, height: int) -> list[Line]:
        found = self.resolved()
        self._sample = found.sample
        self._name = found.request.name if found.request else ""
        length = found.request.prompt_length if found.request else 0
        self._length = length
        if not length:
            return [Line("the prompt is not known yet", "dim")]
        sample, gutter = found.sample, len(count(length)) + 1 if width >= 24 else 0
        facts = _facts(length, sample)
        beside = gutter + 2 * min(height, length) + 2
        if height >= 3 and width - beside >= BESIDE:
            rows = self._square(length, sample, beside - 2 - gutter, height, gutter)
            return _side_by_side(rows, [*facts, *LEGEND], beside, height)
        most = facts_rows(height)
        below = spread(facts, width, most) if height >= 4 else []
        if height >= min(16, length + 2) and height >= 6:
            below += spread(LEGEND, width, most, "dim", "  ")
        return self._square(length, sample, width - gutter, height - len(below), gutter) + below

    def _square(self, length: int, sample: SampleState | None, columns: int, rows: int, gutter: int) -> list[Line]:
        grid = TriangleGrid(length, _given(sample), sample.chunks if sample else (), columns, rows)
        return [self._row(grid, row, gutter) for row in range(grid.rows)]

    def _row(self, grid: TriangleGrid, row: int, gutter: int) -> Line:
        positions = grid.positions(row)
        starts = {chunk.start for chunk in grid.chunks} | {0, grid.cached}
        mark = next((start for start in sorted(starts) if start in positions), None)
        line = Line().fit("" if mark is None else f"{count(mark)} ", gutter, "dim", right=True)
        # Neighbours of one look are one piece: a row of 150 cells is a handful of segments.
        text, style = "", ""
        for cell in grid.row(row):
            look = _style(cell)
            if look != style:
                line.add(text, style)
                text, style = "", look
            text += cell.text
        return line.add(text, style)

    def titles(self) -> tuple[str, str]:
        return self.TITLE, f"{self._name} · {count(self._length)} × {count(self._length)}" if self._length else ""


def _side_by_side(rows: list[Line], facts: list[str], column: int, height: int) -> list[Line]:
    """The square left, the facts right of it, one a row."""
    rows = rows + [Line() for _ in range(min(height, len(facts)) - len(rows))]
    for row, fact in zip(rows, facts, strict=False):
        row.pad_to(column).add(fact, "dim" if fact in LEGEND else "")
    return rows


def _facts(length: int, sample: SampleState | None) -> list[str]:
    """What was computed and what it took, the most telling first."""
    if sample is None or not sample.chunks:
        return [f"{count(length)} positions, none computed yet"]
    chunks = [chunk for chunk in sample.chunks if chunk.start < length]
    done = sum(min(chunk.end, length) - chunk.start for chunk in chunks)
    took = sum(chunk.took_ns for chunk in sample.chunks)
    parts = [f"computed {count(done)} of {count(length)} positions"]
    if sample.cached:
        parts.append(f"spared {count(sample.cached)}")
    if shared := min(_given(sample), length) - sample.cached:
        parts.append(f"shared by the fork {count(shared)}")
    if took:
        parts.append(f"{duration(took)} in the model")
    if took and done:
        parts.append(f"{rate(done * 1e9 / took)} tok/s")
    last, number = sample.chunks[-1], len(sample.chunks)
    parts.append(f"{count(number)} chunk{'s' if number > 1 else ''}, last {count(last.start)}–{count(last.end - 1)}")
    if last.iteration >= 0:
        parts.append(f"step {count(last.iteration)}, lane {last.lane}")
    pairs = sum(_pairs(chunk.start, min(chunk.end, length)) for chunk in chunks)
    return [*parts, f"{count(pairs)} query-key pairs (derived)"]


def _given(sample: SampleState | None) -> int:
    """Positions [0, n) that were there already: from the prefix cache, or in a fork's shared pages."""
    if sample is None:
        return 0
    return max(sample.cached, sample.chunks[0].start if sample.chunks else 0)


def _style(cell: Cell) -> str:
    if cell.kind == "computed":
        return "assistant" if cell.chunk % 2 else "user"
    return STYLES[cell.kind]


def _pairs(start: int, end: int) -> int:
    """Query-key pairs of causal attention for queries [start, end)."""
    return (end * (end + 1) - start * (start + 1)) // 2
