"""The base of all panels: one Line-API widget, drawn from state, repainted only when visible and changed."""

from __future__ import annotations

import time
from collections.abc import Hashable
from typing import ClassVar

from rich.style import Style
from textual.content import Content
from textual.events import Click, Resize, Show
from textual.geometry import Region, Size
from textual.strip import Strip

from ..scrolling import LineView, resize_virtual
from ..state import EngineState, RequestState, Resolved, Selection, resolve, selected_request
from .line import Line, safe, wrap
from .messages import SelectionChanged
from .styles import named

MIN_INTERVAL_NS = 60_000_000  # at most 15 repaints a second, with some slack for the timer that polls


class Panel(LineView, can_focus=True):
    """Draws `state` as rows of text.

    A panel says what it depends on (`depends_on`) and draws rows (`draw`), or, if it can have very many, measures
    them (`measure`) and draws the visible ones (`row`). `pinned` rows stay at the bottom while the rest scrolls.
    The app polls `refresh_if_changed` of all panels from one timer.
    """

    TITLE: ClassVar[str] = ""
    CAPABILITY: ClassVar[str] = ""  # without it in the model card, the panel says why it is empty
    TOTALS: ClassVar[bool] = False  # of a server it shows the totals
    SCROLLS: ClassVar[bool] = True  # False: rows that do not fit are cut

    DEFAULT_CSS = """
    Panel {
        border: round $border-blurred;
        border-title-color: $text;
        border-subtitle-color: $text-muted;
        scrollbar-size-vertical: 1;
        overflow-x: hidden;
        overflow-y: auto;
        height: 1fr;
        min-height: 1;
    }
    Panel:focus { border: round $border; }
    """

    def __init__(
        self, state: EngineState, selection: Selection, *, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.state = state
        self.selection = selection
        self._drawn: Hashable = None
        self._drawn_ns = 0
        self._lines: list[Line] = []
        self._built: dict[int, Line] = {}  # rows made since the last repaint
        self._painted: tuple[tuple[int, int], list[Line]] = ((0, 0), [])  # the viewport's size, and its rows
        self._rows = 0
        self._pinned: list[Line] = []
        self._looks: dict[str, Style] = {}
        self._titles: tuple[str, str] = ("", "")
        if self.TITLE:
            self.border_title = Content(self.TITLE)

    # ------------------------------------------------------------------------------- what a panel says of itself

    def depends_on(self) -> Hashable:
        """Versions and settings that the drawing is made from: equal means nothing to repaint."""
        return (self.state.version, self.selection.version)

    def draw(self, width: int, height: int) -> list[Line]:
        """All rows, for a content area of this size."""
        return []

    def measure(self, width: int, height: int) -> int:
        """Lay out for a content area of this size; returns the number of rows that scroll."""
        self._lines = self.draw(width, height)
        return len(self._lines)

    def row(self, y: int, width: int) -> Line:
        """One row of the layout made by `measure`."""
        return self._lines[y] if y < len(self._lines) else Line()

    def pinned(self, width: int, height: int) -> list[Line]:
        """Rows that stay at the bottom; called after `measure`."""
        return []

    def titles(self) -> tuple[str, str]:
        """Border title and subtitle, plain text."""
        return self.TITLE, ""

    def waiting(self) -> str:
        """A sentence to show instead of everything else, where there is nothing to draw yet; empty: draw."""
        return "" if self.state.requests else "no request yet"

    def instead(self, width: int) -> list[Line]:
        """What to draw where its capability is missing, before the sentence that says so: what a server does tell."""
        return []

    @property
    def shows_totals(self) -> bool:
        """Whether it shows a server's totals now."""
        return self.TOTALS and self._shows()

    def clicked(self, x: int, y: int) -> None:
        """The mouse was pressed on column `x` of row `y` of the layout (not of a pinned row)."""

    # ---------------------------------------------------------------------------------------------- repainting

    def refresh_if_changed(self, now_ns: int | None = None) -> bool:
        """Repaint if visible, changed, and the last repaint is a fifteenth of a second ago; says whether it did."""
        now = time.monotonic_ns() if now_ns is None else now_ns
        if now - self._drawn_ns < MIN_INTERVAL_NS or not self._shows():
            return False
        depends = self._depends()
        if depends == self._drawn:
            return False
        self._drawn_ns = now
        self.repaint(depends)
        return True

    def repaint(self, depends: Hashable = None) -> None:
        """Lay out and paint now."""
        self._drawn = self._depends() if depends is None else depends
        width, height = self.area
        lacking = self.state.lacks(self.CAPABILITY) if self.CAPABILITY else ""
        sentence = lacking or self.waiting()
        if sentence:
            told = self.instead(width) if lacking else []
            self._lines = told + [Line(part, "dim") for part in wrap(sentence, width)]
            self._rows, self._pinned = len(self._lines), []
        else:
            self._rows = self.measure(width, height)
            self._pinned = self.pinned(width, height)[: max(0, height - 1)]
        if bool(sentence) != self._sentence:
            self._sentence = bool(sentence)
            self.refresh_bindings()
        rows = self._rows + len(self._pinned)
        wanted = Size(width, rows if self.SCROLLS else min(rows, height))
        self._was_at_end = self.is_vertical_scroll_end
        self._built.clear()
        resize_virtual(self, wanted)
        self._put_titles((self.TITLE, "") if sentence else self.titles())
        if not sentence:
            self.laid_out()
        self._refresh_changed_rows()

    def laid_out(self) -> None:
        """Called when what is drawn is laid out anew, before it is painted: the moment to bring rows into sight."""

    def _refresh_changed_rows(self) -> None:
        """Have only those rows painted that are not on the screen already: painting costs more than drawing."""
        width, height = self.area
        offset, pinned_at = round(self.scroll_y), height - len(self._pinned)
        (was, before), now = self._painted, [self._line(y, offset, pinned_at, width) for y in range(height)]
        self._painted = (width, height), now
        if was != (width, height):
            self.refresh()
        elif dirty := [y for y in range(height) if now[y] is not before[y] and now[y].parts != before[y].parts]:
            self.refresh(*[Region(0, y, width, 1) for y in dirty])

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        # In the place of Textual's own, which has every row painted.
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.position = new_value
        if round(old_value) != round(new_value):
            self._refresh_changed_rows()

    def watch_show_vertical_scrollbar(self) -> None:
        # Textual sends no Resize for it, and what is laid out for the width without the bar loses its last column.
        if self._lines or self._rows:
            self.repaint()

    def _put_titles(self, titles: tuple[str, str]) -> None:
        if titles == self._titles:
            return
        self._titles = titles
        # Not through the public setters: they have the whole widget painted, and titles change with every token.
        self._border_title = Content(safe(titles[0])) if titles[0] else None
        self._border_subtitle = Content(safe(titles[1])) if titles[1] else None
        width, height = self.outer_size
        left, top = self.content_offset
        self.refresh(Region(-left, -top, width, 1), Region(-left, height - top - 1, width, 1))

    def _depends(self) -> Hashable:
        # Whether a panel applies at all is the model card's to say.
        return (id(self.state.card), self.depends_on())

    def _shows(self) -> bool:
        return self.is_attached and self.display and self.size.area > 0 and self.is_on_screen

    @property
    def area(self) -> Size:
        """The content area, without border and scrollbar."""
        return self.scrollable_content_region.size

    def on_resize(self, event: Resize) -> None:
        self.repaint()

    def on_show(self, event: Show) -> None:
        self.repaint()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._looks = {}
        self.refresh()

    def render_line(self, y: int) -> Strip:
        (width, _), lines = self._painted
        return (lines[y] if y < len(lines) else Line()).strip(width, self.look, self._looks)

    def _line(self, y: int, offset: int, pinned_at: int, width: int) -> Line:
        """The row at line `y` of the viewport, where what scrolls begins at row `offset` of the layout."""
        if y >= pinned_at > 0:
            return self._pinned[y - pinned_at]
        at = offset + y
        if at >= self._rows:
            return Line()
        if self._sentence:
            return self._lines[at]
        line = self._built.get(at)
        if line is None:
            line = self._built[at] = self.row(at, width)
        return line

    _sentence = True
    _was_at_end = True  # before the last repaint made it longer
    _left_at = 0  # where `keep_visible` scrolled to

    # -------------------------------------------------------------------------------------------------- styles

    def look(self, style: str) -> Style:
        """The style of space-separated names that `styles.py` knows."""
        found = self._looks.get(style)
        if found is None:
            found = self.rich_style
            for name in style.split():
                found += named(name, self.app.theme_variables)
            self._looks[style] = found
        return found

    # ----------------------------------------------------------------------------------------------- selection

    def resolved(self) -> Resolved:
        return resolve(self.selection, self.state)

    @property
    def current(self) -> RequestState | None:
        return selected_request(self.selection, self.state)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """No action of a panel has anything to act on while it shows a sentence instead of its drawing."""
        return not self._sentence

    def on_click(self, event: Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or self._sentence or offset.y >= self.area.height - len(self._pinned):
            return
        y = offset.y + self.scroll_offset.y
        if y < self._rows:
            self.clicked(offset.x, y)

    def selected(self) -> None:
        """Say that the selection was changed here, and show it at once."""
        self.post_message(SelectionChanged())
        self.repaint()

    def keep_visible(self, y: int, rows: int = 1, following: bool = False) -> None:
        """Scroll as little as needed so that rows [y, y + rows) show.

        While `following` the newest, a reader who scrolled away is left in peace until back at the end.
        """
        height = self.area.height - len(self._pinned)
        top = round(self.scroll_offset.y)
        if following and top != self._left_at and not self._was_at_end:
            return
        if y < top:
            top = y
        elif y + rows > top + height:
            top = y + rows - height
        self._left_at = max(0, min(top, round(self.max_scroll_y)))
        self.scroll_to(y=self._left_at, animate=False, force=True)
