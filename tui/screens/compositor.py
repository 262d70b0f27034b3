"""Painting by rows: of what changed, only what the terminal does not show already.

Textual's own partial update asks every widget between the topmost and the lowest change for all of its lines, cuts
them where any widget begins or ends, and writes every changed region whole. While a reply comes in, that was more than
half of what the screen cost. Here each changed row is looked up in a table of which widget is in sight where, only
those lines are asked for, and what stands on the terminal already is not written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.control import Control
from rich.segment import Segment
from textual._compositor import Compositor, CompositorUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

from ..framed import Part
from ..scrolling import LineView

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
        strips: list[tuple[int, int, Strip]] = []
        for y, (left, right, *_), strip in _drawn(pieces):
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


def _drawn(pieces: list[tuple[int, Piece]]) -> Iterator[tuple[int, Piece, Strip]]:
    """Every piece, by its screen row, and how it looks."""
    by_widget: dict[Widget, list[tuple[int, Piece]]] = {}
    for y, piece in pieces:
        by_widget.setdefault(piece.widget, []).append((y, piece))
    for widget, own in by_widget.items():
        region, clip = own[0][1].region, own[0][1].clip
        if isinstance(widget, LineView):
            x = region.x
            parts = [Part(y - region.y, piece.left - x, piece.right - x) for y, piece in own]
            for (y, piece), strip in zip(own, widget.cut(region.size, parts), strict=True):
                yield y, piece, strip
            continue
        # The lines between those that are wanted it has at hand.
        first, last = min([y for y, _ in own]), max([y for y, _ in own])
        lines = widget.render_lines(Region(clip.x - region.x, first - region.y, clip.width, last - first + 1))
        for y, piece in own:
            left, right = piece.left - clip.x, piece.right - clip.x
            strip = lines[y - first]
            yield y, piece, strip if (left, right) == (0, clip.width) else strip.crop(left, right)
