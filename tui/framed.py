"""Lines in their frame, put together from parts that are made once.

Textual works the border, its colours and the padding out again for every line that it draws, and cuts the columns out
that nothing hides. `cut` puts those together that are wanted, which are most often all but the scroll bar's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual._styles_cache import StylesCache
from textual.geometry import Region, Size, Spacing
from textual.strip import Strip

if TYPE_CHECKING:
    from textual.color import Color
    from textual.css.styles import StylesBase
    from textual.filter import LineFilter

    from .scrolling import LineView

KEPT = 1024  # framed lines
Frame = tuple[list[Segment], list[Segment]]  # left and right of a line


class Part(NamedTuple):
    """Columns [left, right) of a row, all counted from the widget's corner, the border included."""

    row: int
    left: int
    right: int


class FramedLines(StylesCache):
    """A styles cache that knows what stands left and right of a line, and the framed lines of strips drawn again."""

    def __init__(self) -> None:
        super().__init__()
        self._frame_for: object = None
        self._frame: Frame | None = None
        self._framed: dict[int, tuple[Strip, Strip]] = {}  # by the identity of the strip: itself, and framed
        self._begun: dict[int, tuple[Strip, Strip]] = {}  # the same: itself, and with what stands beside it, filtered
        self._ends: dict[tuple[int, int], Strip] = {}  # columns of what stands right of a line, filtered
        self._filters: list[LineFilter] = []
        self._seen: dict[int, tuple[Style, Style]] = {}  # by the identity of a style: itself, and filtered

    def render_line(  # pyright: ignore[reportIncompatibleMethodOverride] - what is only passed on is not named
        self,
        styles: StylesBase,
        y: int,
        size: Size,
        content_size: Size,
        padding: Spacing,
        base_background: Color,
        background: Color,
        render_content_line: Callable[[int], Strip],
        border_title: Any,
        border_subtitle: Any,
        opacity: float,
        *others: Any,
    ) -> Strip:
        def framed(render: Callable[[int], Strip]) -> Strip:
            looks = (base_background, background, render, border_title, border_subtitle, opacity, *others)
            return super(FramedLines, self).render_line(styles, y, size, content_size, padding, *looks)

        top, _, bottom, _ = styles.gutter
        if not top <= y < min(size.height - bottom, top + content_size.height):
            return framed(render_content_line)
        frame_for = (size.width, content_size.width, base_background, background, opacity, _version(styles))
        if frame_for != self._frame_for:
            self._frame_for, self._frame = frame_for, _frame(framed, content_size.width)
            self._framed.clear()
            self._forget_filtered()
        if self._frame is None:
            return framed(render_content_line)
        line = render_content_line(y - top)
        if line.cell_length != content_size.width:
            return framed(lambda y: line)
        known = self._framed.get(id(line))
        if known is None:
            left, right = self._frame
            known = line, Strip([*left, *line, *right], size.width)
            if len(self._framed) >= KEPT:
                self._framed.clear()
            self._framed[id(line)] = known
        return known[1]

    def cut(self, widget: LineView, size: Size, parts: Iterable[Part]) -> list[Strip]:
        """Parts of the rows of `widget`, whose size this is, as its `render_lines` would give them."""
        filters, (base, background) = list(widget.get_line_filters()), widget.background_colors
        top, right, bottom, left = widget.styles.gutter
        content = size.width - left - right
        if filters != self._filters:
            self._filters = filters
            self._forget_filtered()
        frame_for = (size.width, content, base, background, widget.opacity, _version(widget.styles))
        linked = "@click" in widget.hover_style.meta  # what is below the mouse is lit up, which is Textual's to do
        strips: list[Strip] = []
        for part in parts:
            strip = None
            framed = self._frame is not None and self._frame_for == frame_for and not linked
            if framed and top <= part.row < size.height - bottom:
                if part.left >= left + content:
                    strip = self._beside(part, left + content, background)
                else:
                    line = widget.painted(part.row - top)
                    strip = self._begin(part, line, size, left, left + content, background)
            if strip is None:
                (strip,) = widget.render_lines(Region(0, part.row, size.width, 1))
                if (part.left, part.right) != (0, size.width):
                    strip = strip.crop(part.left, part.right)
            strips.append(strip)
        return strips

    def _begin(self, part: Part, line: Strip, size: Size, left: int, end: int, background: Color) -> Strip | None:
        """A line with what stands left of it, and right of it where it ends there; None where more is wanted."""
        frame, width = self._frame, left + line.cell_length
        if frame is None or width > end or (width < end and part.right > width):
            return None
        known = self._begun.get(id(line))
        if known is None:
            segments = [*frame[0], *line, *frame[1]] if width == end else [*frame[0], *line]
            known = line, self._filtered(segments, size.width if width == end else width, background)
            if len(self._begun) >= KEPT:
                self._begun.clear()
            self._begun[id(line)] = known
        strip = known[1]
        return strip if (part.left, part.right) == (0, strip.cell_length) else strip.crop(part.left, part.right)

    def _beside(self, part: Part, end: int, background: Color) -> Strip | None:
        """What stands right of a line that ends there."""
        if self._frame is None:
            return None
        columns = part.left - end, part.right - end
        if columns not in self._ends:
            width = sum([segment.cell_length for segment in self._frame[1]])
            self._ends[columns] = self._filtered(self._frame[1], width, background).crop(*columns)
        return self._ends[columns]

    def _filtered(self, segments: list[Segment], width: int, background: Color) -> Strip:
        # Filters change styles alone, most of them none of ours: only what is changed is made anew.
        styles = [self._seen_as(segment.style, background) for segment in segments]
        if any(now is not segment.style for now, segment in zip(styles, segments, strict=True)):
            segments = [Segment(text, now) for now, (text, _, _) in zip(styles, segments, strict=True)]
        return Strip(segments, width)

    def _forget_filtered(self) -> None:
        self._begun.clear()
        self._ends.clear()
        self._seen.clear()

    def _seen_as(self, style: Style | None, background: Color) -> Style | None:
        if style is None:
            return None
        seen = self._seen.get(id(style))
        if seen is None:
            if len(self._seen) >= KEPT:
                self._seen.clear()
            probe = [Segment(" ", style)]
            for line_filter in self._filters:
                probe = line_filter.apply(probe, background)
            filtered = probe[0].style
            seen = self._seen[id(style)] = style, style if filtered is None else filtered
        return seen[1]


def _version(styles: StylesBase) -> int:
    """Another one after every change of a style."""
    return styles._cache_key  # pyright: ignore[reportAttributeAccessIssue] - what Textual's own caches go by


def _frame(framed: Callable[[Callable[[int], Strip]], Strip], width: int) -> Frame | None:
    """What stands around a line; None where its own characters are changed too, and nothing can be put together."""
    probe = Segment(" " * width)
    whole = list(framed(lambda y: Strip([probe], width)))
    at = next((index for index, segment in enumerate(whole) if segment is probe), None)
    return None if at is None else (whole[:at], whole[at + 1 :])
