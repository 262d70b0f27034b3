"""Painting by rows: of what changed, only what the terminal does not show already.

Textual's own partial update asks every widget between the topmost and the lowest change for all of its lines, cuts
them where any widget begins or ends, and writes every changed region whole. While a reply comes in, that was more than
half of what the screen cost. Here each changed row is looked up in a table of which widget is in sight where, only
those lines are asked for, and what stands on the terminal already is not written again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.control import Control
from rich.segment import Segment
from textual._compositor import Compositor, CompositorUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

if TYPE_CHECKING:
    from textual.widget import Widget


class Piece(NamedTuple):
    """Columns [left, right) of a screen row, in which one widget is in sight."""

    left: int
    right: int
    widget: Widget
    region: Region  # of the widget, on the screen
    clip: Region  # the part of it that is in sight, were nothing in front


class RowsUpdate(CompositorUpdate):
    """Strips and the places (x, y) on the screen where they go."""

    def __init__(self, strips: list[tuple[int, int, Strip]]) -> None:
        self.strips = strips

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for x, y, strip in self.strips:
            yield Control.move_to(x, y).segment
            yield from strip
        yield Segment.line()

    def render_segments(self, console: Console) -> str:
        return "".join([f"\x1b[{y + 1};{x + 1}H{strip.render(console)}" for x, y, strip in self.strips])


class RowCompositor(Compositor):
    """A compositor whose partial updates cost what changed."""

    def __init__(self) -> None:
        super().__init__()
        self._layout: object = None  # what `_in_sight` was made from
        self._in_sight: dict[int, list[Piece]] = {}  # by row
        self._shown: dict[tuple[int, int], tuple[int, Strip]] = {}  # by (row, left): right, and what stands there

    def render_full_update(self, simplify: bool = False) -> LayoutUpdate:
        self._shown.clear()
        return super().render_full_update(simplify)

    def render_partial_update(self) -> RowsUpdate | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """What has to be written for the regions that are dirty; None: nothing."""
        regions = [region.intersection(self.size.region) for region in self._dirty_regions]
        self._dirty_regions.clear()
        pieces = [
            (y, piece) for y, left, right in self._regions_to_spans(regions) for piece in self._at(y, left, right)
        ]
        lines = _lines(pieces)
        strips: list[tuple[int, int, Strip]] = []
        for y, piece in pieces:
            left, right, widget, _, clip = piece
            strip = lines[widget][y]
            if left != clip.x or right != clip.right:
                strip = strip.crop(left - clip.x, right - clip.x)
            if self._shown.get((y, left)) != (right, strip):
                self._shown[y, left] = right, strip
                strips.append((left, y, strip))
        return RowsUpdate(strips) if strips else None

    def _at(self, y: int, left: int, right: int) -> Iterable[Piece]:
        """The pieces of a row that columns [left, right) touch."""
        if self._layout is not self.layers_visible:
            self._layout = self.layers_visible
            self._in_sight.clear()
            self._shown.clear()
        row = self._in_sight.get(y)
        if row is None:
            row = self._in_sight[y] = self._pieces(y)
        return [piece for piece in row if piece.left < right and piece.right > left]

    def _pieces(self, y: int) -> list[Piece]:
        """What is in sight in a row, from left to right."""
        pieces: list[Piece] = []
        free = [(0, self.size.width)]
        for widget, clip, region in self.layers_visible[y]:  # from the front to the back
            still_free: list[tuple[int, int]] = []
            for start, end in free:
                left, right = max(start, clip.x), min(end, clip.right)
                if left >= right:
                    still_free.append((start, end))
                    continue
                pieces.append(Piece(left, right, widget, region, clip))
                still_free += [part for part in ((start, left), (right, end)) if part[0] < part[1]]
            free = still_free
            if not free:
                break
        return sorted(pieces, key=lambda piece: piece.left)


def _lines(pieces: list[tuple[int, Piece]]) -> dict[Widget, dict[int, Strip]]:
    """The lines of each widget, by screen row, that its pieces need; those between them it has at hand."""
    rows: dict[Widget, tuple[int, int, Piece]] = {}
    for y, piece in pieces:
        first, last, _ = rows.get(piece.widget, (y, y, piece))
        rows[piece.widget] = min(first, y), max(last, y), piece
    lines: dict[Widget, dict[int, Strip]] = {}
    for widget, (first, last, piece) in rows.items():
        region, clip = piece.region, piece.clip
        crop = Region(clip.x - region.x, first - region.y, clip.width, last - first + 1)
        lines[widget] = dict(enumerate(widget.render_lines(crop), first))
    return lines
