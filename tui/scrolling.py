"""What scrolls and grows with every line that is written, at the cost of that line."""

from __future__ import annotations

from collections.abc import Iterable

from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.strip import Strip

from .framed import FramedLines, Part
from .scrollbar import RowScrollBar


class LineView(ScrollView):
    """A scroll view by lines whose frame and scroll bar cost little to paint."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._styles_cache = self._lines_framed = FramedLines()
        self.laid_again: Size | None = None  # asked for without a change of size, see `resize_virtual`

    def cut(self, size: Size, parts: Iterable[Part]) -> list[Strip]:
        """Parts of its rows, as `render_lines` would give them; `size` is its own."""
        return self._lines_framed.cut(self, size, parts)

    def painted(self, y: int) -> Strip:
        """What `render_line` gives, as far as it can be seen."""
        return self.render_line(y)

    @property
    def vertical_scrollbar(self) -> ScrollBar:
        if self._vertical_scrollbar is None:
            bar = RowScrollBar(vertical=True, name="vertical", thickness=self.scrollbar_size_vertical)
            self._vertical_scrollbar = bar
            bar.display = False
            self.app._start_widget(self, bar)
        return self._vertical_scrollbar


def resize_virtual(view: LineView, size: Size) -> None:
    """Set a scroll view's virtual size.

    Textual lays the screen out anew whenever it changes, and has every widget painted, which at a line a moment is
    most of the screen's work. Only a scroll bar that comes or goes needs that; else the bar is told.
    """
    overflow = view.styles.overflow_y
    bar = overflow == "scroll" or (overflow == "auto" and size.height > view.container_size.height)
    if bar != view.show_vertical_scrollbar or not view.is_attached:
        if size != view.virtual_size:
            view.virtual_size = size
        elif view.is_attached and view.laid_again != size:
            # It was told so in the middle of being laid out, when its bar had just come: so the bar would stay. Once
            # for a size, since rows that fit with a bar only would have it come and go for ever.
            view.laid_again = size
            view._refresh_scrollbars()
        return
    view.laid_again = None
    if size == view.virtual_size:
        return
    view.set_reactive(ScrollView.virtual_size, size)  # pyright: ignore[reportArgumentType] - the class has the reactive
    if bar:
        view.vertical_scrollbar.window_virtual_size = size.height
        view.vertical_scrollbar.window_size = view.container_size.height
        view.vertical_scrollbar.position = view.scroll_y  # it is not told of what was scrolled while it was away
    if view.scroll_y > view.max_scroll_y:
        view.scroll_to(y=view.max_scroll_y, animate=False)
