"""A column of sections on screen that follows its end until the reader scrolls up."""

from __future__ import annotations

from textual.geometry import Region, Size
from textual.message import Message

from ..scrolling import LineView, resize_virtual
from .column import Column
from .sections import Section
from .styled import Line


class FollowingView(LineView):
    """Keeps the reader's place, the end or the line at the top, while sections come, grow and go."""

    class FollowChanged(Message):
        """Following the end began or ended, or text came in below."""

        def __init__(self, following: bool, unread: bool) -> None:
            super().__init__()
            self.following = following
            self.unread = unread

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.following = True
        self.unread = False
        self._column = Column()
        self._anchor = (0, 0)
        self._placing = False
        self._place = Size(), -1  # size of the view, and the line at its top
        self._in_sight: list[tuple[Section, Line] | None] = []  # at that place, from top to bottom

    def show_sections(self, sections: list[Section]) -> None:
        """Take these sections and settle at the reader's place."""
        self._column.set(sections, self.scrollable_content_region.width)
        self._settle()

    def bring_into_sight(self, index: int, offset: int) -> None:
        """Bring a line of a section into sight; where it had to move, the end is not followed any more."""
        self._column.measure()
        top = self._column.top(index) + offset
        if not self.scroll_offset.y <= top < self.scroll_offset.y + self.size.height:
            self.following = False
            self._anchor = max(self._column.at(max(0, top - self.size.height // 3)), (0, 0))
            self.post_message(self.FollowChanged(False, self.unread))
            self._settle()

    def mark_unread(self) -> None:
        """Tell, once, that text came in below a reader who does not follow the end."""
        if not self.following and not self.unread:
            self.unread = True
            self.post_message(self.FollowChanged(False, True))

    def _settle(self) -> None:
        """Draw what is in sight and keep the reader's place: the end, or the line at the top."""
        column, height = self._column, max(1, self.size.height)
        if self.following:
            if column.draw_to(len(column.sections) - 1, 2 * height):
                column.measure()
            target = max(0, column.height - height)
        else:
            index, offset = min(self._anchor, (len(column.sections) - 1, 0)) if column.sections else (0, 0)
            above = column.draw_to(index - 1, height)
            if column.draw_from(index, 2 * height + offset) or above:
                column.measure()
            target = column.top(index) + offset if column.sections else 0
        self._placing = True
        try:
            resize_virtual(self, Size(column.width, column.height))
            if target != self.scroll_y:
                # Set here and not by `scroll_to`, which would stop an animation that may be calling us.
                self.scroll_target_y = self.scroll_y = target
        finally:
            self._placing = False
        self._refresh_changed_rows()

    def _refresh_changed_rows(self) -> None:
        """Have only those rows painted that are not on the screen already."""
        size, offset = self.size, round(self.scroll_y)
        was, before = self._place, self._in_sight
        self._place = size, offset
        self._in_sight = [self._column.line(y + offset) for y in range(size.height)]
        if self._place != was:
            self.refresh()
        elif rows := [y for y, pair in enumerate(zip(self._in_sight, before, strict=True)) if _differ(*pair)]:
            self.refresh(*[Region(0, y, size.width, 1) for y in rows])

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self._placing or round(old_value) == round(new_value):
            return
        at_end = new_value >= self.max_scroll_y
        # Clamping after the text shrank only ever lowers the value: it must not start following.
        following = at_end if new_value > old_value else self.following and at_end
        self._anchor = max(self._column.at(round(new_value)), (0, 0))
        if following != self.following:
            self.following = following
            if following:
                self.unread = False
            self.post_message(self.FollowChanged(self.following, self.unread))
        self._settle()

    def clear_unread(self) -> None:
        if self.unread or not self.following:
            self.unread = False
            self.post_message(self.FollowChanged(True, False))

    def follow(self) -> None:
        """Go to the end and follow it again."""
        self.clear_unread()
        self.following = True
        self._settle()

    def action_scroll_end(self) -> None:
        self.follow()


def _differ(now: tuple[Section, Line] | None, before: tuple[Section, Line] | None) -> bool:
    if now is None or before is None:
        return now is not before
    return now[1] is not before[1] and now[1] != before[1]
