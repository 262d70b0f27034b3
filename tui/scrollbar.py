"""A scroll bar that costs little where a view grows with every line that is written."""

from __future__ import annotations

from collections.abc import Hashable

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.strip import Strip


class RowScrollBar(ScrollBar):
    """Drawn anew only where it looks different, and then without a console's detour. Vertical, one cell wide."""

    _drawn: Hashable = None
    _strips: list[Strip] = []

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        # It holds nothing that would have to be laid out once more, which Textual does whenever a bar comes.
        return super()._size_updated(size, virtual_size, container_size, layout=False)

    def render_lines(self, crop: Region) -> list[Strip]:
        bar = self.render()
        if not isinstance(bar, ScrollBarRender) or not isinstance(bar.style, Style) or self.outer_size != self.size:
            return super().render_lines(crop)
        if bar.style.bgcolor is None or bar.style.color is None:
            return super().render_lines(crop)
        filters, background = self.get_line_filters(), self.background_colors[1]
        drawn = (self.size, bar.virtual_size, bar.window_size, bar.position, bar.style, background, tuple(filters))
        if drawn != self._drawn:
            self._drawn = drawn
            made: dict[int, Strip] = {}  # a bar is a few different cells
            self._strips = []
            below = self.visual_style.rich_style
            for segment in self._cells(bar, bar.style.bgcolor, bar.style.color):
                if id(segment) not in made:
                    strip = Strip([Segment(segment.text, below + segment.style)], self.size.width)
                    for line_filter in filters:
                        strip = strip.apply_filter(line_filter, background)
                    made[id(segment)] = strip
                self._strips.append(made[id(segment)])
        strips = self._strips[crop.y : crop.bottom]
        return strips if crop.column_span == (0, self.size.width) else [s.crop(*crop.column_span) for s in strips]

    def _cells(self, bar: ScrollBarRender, back: Color, front: Color) -> list[Segment]:
        """One segment a row, the same object where it is the same."""
        return list(
            bar.render_bar(
                size=self.size.height,
                virtual_size=bar.virtual_size,
                window_size=bar.window_size,
                position=bar.position,
                thickness=self.size.width,
                vertical=True,
                back_color=back,
                bar_color=front,
            ).segments
        )
