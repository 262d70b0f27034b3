"""The causal square of a prompt as cells: which part of it was computed, by which chunk, and which was spared."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from ..state import Chunk

Kind: TypeAlias = Literal["future", "spared", "reused", "computed", "pending"]

FUTURE = "╲"
SPARED = "░"
REUSED = "▒"
PENDING = "·"


class Cell(msgspec.Struct, frozen=True):
    """One cell of the drawing. `chunk` counts from 0, -1 where none computed it."""

    text: str
    kind: Kind
    chunk: int = -1


class TriangleGrid:
    """The square of `length` queries (down) by `length` keys (across), scaled to `columns` by `rows` cells.

    Half-blocks give every row two halves, so a scaled row that is half computed shows so. Queries below `cached` were
    spared whole; later queries read those columns from the cache.
    """

    def __init__(self, length: int, cached: int, chunks: Sequence[Chunk], columns: int, rows: int) -> None:
        self.length = max(0, length)
        self.cached = min(max(0, cached), self.length)
        self.rows = max(0, min(rows, self.length))
        wide = min(columns, 2 * self.rows) if self.rows else 0
        self.columns = max(0, wide)
        self.chunks = sorted(
            (chunk for chunk in chunks if chunk.start < self.length and chunk.count > 0), key=lambda chunk: chunk.start
        )
        self._starts = [chunk.start for chunk in self.chunks]

    @property
    def scaled(self) -> bool:
        """Whether a row stands for more than one position."""
        return self.rows < self.length

    def positions(self, row: int) -> range:
        """The queries a row stands for."""
        return range(row * self.length // self.rows, (row + 1) * self.length // self.rows)

    def chunk_of(self, position: int) -> int:
        """Number of the chunk that computed a position, -1: none did yet."""
        found = bisect_right(self._starts, position) - 1
        while found >= 0:
            if position < self.chunks[found].end:
                return found
            found -= 1
        return -1

    def row(self, row: int) -> list[Cell]:
        """The cells of one row."""
        positions = self.positions(row)
        ends = [(query, self.chunk_of(query)) for query in (positions[0], positions[-1])]
        cells: list[Cell] = []
        looked: tuple[tuple[Kind, int], ...] = ()
        for column in range(self.columns):
            key = column * self.length // self.columns
            halves = tuple([self._half(query, chunk, key) for query, chunk in ends])
            # Most cells of a row look like their neighbour.
            cells.append(cells[-1] if halves == looked else self._cell(halves))
            looked = halves
            if halves[0][0] == halves[1][0] == "future":
                cells += [cells[-1]] * (self.columns - len(cells))
                break
        return cells

    def _cell(self, halves: tuple[tuple[Kind, int], ...]) -> Cell:
        if halves[0] == halves[1]:
            kind, chunk = halves[0]
            return Cell(self._text(kind, chunk), kind, chunk)
        solid = [kind == "computed" for kind, _ in halves]
        kind, chunk = halves[1] if solid[1] else halves[0]
        if all(solid):
            return Cell(self._text(kind, chunk), kind, chunk)
        if any(solid):
            return Cell("▀" if solid[0] else "▄", "computed", chunk)
        # No half is computed: the one nearer to being so speaks.
        kind, chunk = halves[1] if halves[0][0] == "future" else halves[0]
        return Cell(self._text(kind, chunk), kind, chunk)

    def _half(self, query: int, chunk: int, key: int) -> tuple[Kind, int]:
        if key > query:
            return "future", -1
        if query < self.cached:
            return "spared", -1
        if chunk < 0:
            return "pending", -1
        return ("reused" if key < self.cached else "computed"), chunk

    @staticmethod
    def _text(kind: Kind, chunk: int) -> str:
        if kind == "computed":
            return "▓" if chunk % 2 else "█"
        return {"future": FUTURE, "spared": SPARED, "reused": REUSED, "pending": PENDING}[kind]
