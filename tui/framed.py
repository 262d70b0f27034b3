"""Lines in their frame, put together from parts that are made once.

Textual works the border, its colours and the padding out again for every line that it draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.segment import Segment
from textual._styles_cache import StylesCache
from textual.geometry import Size, Spacing
from textual.strip import Strip

if TYPE_CHECKING:
    from textual.color import Color
    from textual.css.styles import StylesBase

KEPT = 1024  # framed lines
Frame = tuple[list[Segment], list[Segment]]  # left and right of a line


class FramedLines(StylesCache):
    """A styles cache that knows what stands left and right of a line, and the framed lines of strips drawn again."""

    def __init__(self) -> None:
        super().__init__()
        self._frame_for: object = None
        self._frame: Frame | None = None
        self._framed: dict[int, tuple[Strip, Strip]] = {}  # by the identity of the strip: itself, and framed

    def clear(self) -> None:
        super().clear()
        self._frame_for = None

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
        *others: Any,
    ) -> Strip:
        top, _, bottom, _ = styles.gutter
        if not top <= y < min(size.height - bottom, top + content_size.height):
            return super().render_line(
                styles, y, size, content_size, padding, base_background, background, render_content_line, *others
            )

        def framed(render: Callable[[int], Strip]) -> Strip:
            return super(FramedLines, self).render_line(
                styles, y, size, content_size, padding, base_background, background, render, *others
            )

        frame_for = (size.width, content_size.width, base_background, background)
        if frame_for != self._frame_for:
            self._frame_for, self._frame = frame_for, _frame(framed, content_size.width)
            self._framed.clear()
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


def _frame(framed: Callable[[Callable[[int], Strip]], Strip], width: int) -> Frame | None:
    """What stands around a line; None where its own characters are changed too, and nothing can be put together."""
    probe = Segment(" " * width)
    whole = list(framed(lambda y: Strip([probe], width)))
    at = next((index for index, segment in enumerate(whole) if segment is probe), None)
    return None if at is None else (whole[:at], whole[at + 1 :])
