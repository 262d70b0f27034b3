"""The conversation on screen: one Line-API widget over a column of sections."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from ..keymap import STANDARD
from ..scrolling import resize_virtual
from ..state.conversation import Conversation, Node
from .column import Column
from .finding import Finder, place
from .overlay import STYLES, lit
from .picking import selected_source, source_at
from .sections import MessageSections, Notice, Section
from .styled import Line


class ConversationView(ScrollView, can_focus=True):
    """Shows the path of one conversation; follows its end until the reader scrolls up.

    Text is drawn from `Line`s whose characters know their place in the source, so copying a selection gives the
    source back, without wraps and borders.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"chat--{name}" for name in STYLES}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("end,G", "scroll_end", "End of the chat: follow new text", show=False),
        Binding("home", "scroll_home", "Beginning of the chat", show=False),
        Binding("o", "thoughts", "Open or close what the model thought", show=False),
        Binding("left_square_bracket", "message(-1)", "Message above", show=False),
        Binding("right_square_bracket", "message(1)", "Message below", show=False),
    ]

    class FollowChanged(Message):
        """Following the end began or ended, or text came in below."""

        def __init__(self, following: bool, unread: bool) -> None:
            super().__init__()
            self.following = following
            self.unread = unread

    class TextClicked(Message):
        """A character of a message was clicked: `offset` is its place in the message's text."""

        def __init__(self, node: Node, offset: int) -> None:
            super().__init__()
            self.node = node
            self.offset = offset

    class FoundChanged(Message):
        """What is looked for is found at other places, since text has come in."""

    class CursorMoved(Message):
        """Another message is the current one."""

        def __init__(self, node: Node | None) -> None:
            super().__init__()
            self.node = node

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.conversation: Conversation | None = None
        self.speaker = "model"
        self.plain = False
        self.keymap = STANDARD
        self.following = True
        self.unread = False
        self.notice: list[tuple[str, str]] = []  # (text, style names) below the messages
        self.marked: tuple[Node, int, int] | None = None  # a selected token: source [start, end) of a message
        self.finder = Finder()
        self._cursor: Node | None = None
        self._messages: list[MessageSections] = []
        self._column = Column()
        self._anchor = (0, 0)
        self._placing = False
        self._painted: tuple[tuple[Size, int], list[Line]] = ((Size(), -1), [])
        self._styles: dict[str, Style] = {}

    # ------------------------------------------------------------------------------------------------ content

    def show(self, conversation: Conversation) -> None:
        """Show another conversation, from its end."""
        self.conversation = conversation
        self._messages = []
        self._cursor = None
        self.marked = None
        self.finder = Finder()
        self.clear_unread()
        self.following = True
        self.rebuild()

    def rebuild(self) -> None:
        """Take over the path shown, keeping what was drawn of messages that stay."""
        path = self.conversation.path() if self.conversation is not None else []
        known = {id(message.node): message for message in self._messages}
        self._messages = [
            known.get(id(node)) or MessageSections(node, self.speaker, self.plain, self.keymap) for node in path
        ]
        if self._cursor is not None and self._cursor not in path:
            self._cursor = None
        for message in self._messages:
            message.update()
        self._refill()

    def redraw_all(self) -> None:
        """Forget what was drawn: the speaker's name or the way of drawing has changed."""
        self._messages = []
        self.rebuild()

    def update_nodes(self, nodes: Iterable[Node]) -> None:
        """Draw what changed in these messages, if they are shown."""
        changed = {id(node) for node in nodes}
        dirty = [message for message in self._messages if id(message.node) in changed and message.update()]
        if not dirty:
            return
        if self.finder.words:
            self.finder.look([message.node for message in self._messages], self.finder.words)
            self.post_message(self.FoundChanged())
        if not self.following and not self.unread:
            self.unread = True
            self.post_message(self.FollowChanged(False, True))
        self._refill()

    def say(self, notice: list[tuple[str, str]]) -> None:
        """Show something below the messages, or nothing more."""
        if notice != self.notice:
            self.notice = notice
            self._refill()

    def mark(self, node: Node | None, start: int = 0, end: int = 0) -> None:
        """Light up the source [start, end) of a message: the selected token."""
        marked = (node, start, end) if node is not None else None
        if marked != self.marked:
            self.marked = marked
            self.refresh()

    def look(self, words: str) -> None:
        """Find words in the messages shown and go to the current match; empty: nothing is looked for any more."""
        self.finder.look([message.node for message in self._messages], words)
        self.turn(0)

    def turn(self, by: int) -> None:
        """Go to another match."""
        self.finder.turn(by)
        match = self.finder.current
        found = place(self._column, match) if match is not None else None
        if found is not None:
            self._column.measure()
            top = self._column.top(found[0]) + found[1]
            if not self.scroll_offset.y <= top < self.scroll_offset.y + self.size.height:
                self.following = False
                self._anchor = max(self._column.at(max(0, top - self.size.height // 3)), (0, 0))
                self.post_message(self.FollowChanged(False, self.unread))
                self._settle()
        self.refresh()

    def action_thoughts(self) -> None:
        """Open or close what the model thought."""
        message = next((message for message in self._messages if message.node is self.cursor), None)
        if message is not None:
            message.thought.opened = not message.thought.opened
            self._refill()

    @property
    def cursor(self) -> Node | None:
        """The current message: what edit, copy and regenerate act on. The last one, unless another was chosen."""
        if self._cursor is not None:
            return self._cursor
        return self._messages[-1].node if self._messages else None

    def action_message(self, by: int) -> None:
        """Make the message above or below the current one."""
        nodes = [message.node for message in self._messages]
        if not nodes or self.cursor is None:
            return
        index = max(0, min(len(nodes) - 1, nodes.index(self.cursor) + by))
        self.choose(nodes[index])

    def choose(self, node: Node | None) -> None:
        """Make a message the current one and bring its head into sight."""
        self._cursor = node
        for message in self._messages:
            message.head.current = message.node is node
        if node is not None:
            head = next((m.head for m in self._messages if m.node is node), None)
            if head is not None:
                top = self._column.top(self._column.sections.index(head))
                if not self.scroll_offset.y <= top < self.scroll_offset.y + self.size.height:
                    self.scroll_to(y=max(0, top - 1), animate=False)
        self.refresh()
        self.post_message(self.CursorMoved(node))

    # -------------------------------------------------------------------------------------------- placing

    def _refill(self) -> None:
        sections: list[Section] = [section for message in self._messages for section in message.all()]
        if self.notice:
            sections.append(Notice(self.notice))
        self._column.set(sections, self.scrollable_content_region.width)
        self._settle()

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
        place = (self.size, self.scroll_offset.y)
        found = [self._column.line(y + place[1]) for y in range(self.size.height)]
        now = [line for _, line in filter(None, found)]
        before_place, before = self._painted
        self._painted = (place, now)
        if place != before_place:
            self.refresh()
            return
        rows = [y for y, pair in enumerate(zip_longest(now, before)) if pair[0] != pair[1]]
        if rows:
            self.refresh(*[Region(0, y, self.size.width, 1) for y in rows])

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

    def on_resize(self, _: events.Resize) -> None:
        self._refill()

    # -------------------------------------------------------------------------------------------- drawing

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._styles.clear()

    def _style(self, names: str) -> Style:
        """The style of space-separated names, the later ones on top."""
        found = self._styles.get(names)
        if found is None:
            found = self.rich_style
            for name in names.split():
                found += self.get_component_rich_style(f"chat--{name}", partial=True)
            self._styles[names] = found
        return found

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        y += self.scroll_offset.y
        found = self._column.line(y)
        if found is None:
            return Strip.blank(width, self.rich_style)
        section, line = found
        segments = [Segment(text, self._style(names)) for text, names in line.runs]
        strip = Strip(segments)
        strip = self._overlay(strip, section, line, y)
        return strip.crop_extend(0, width, self.rich_style).apply_offsets(0, y)

    def _overlay(self, strip: Strip, section: Section, line: Line, y: int) -> Strip:
        """Light up the selected token and the selected text."""
        spans: list[tuple[int, int, Style]] = []
        if self.marked is not None and self.marked[0] is section.node:
            _, start, end = self.marked
            hit = [i for i, origin in enumerate(line.origins) if start <= origin < end]
            if hit:
                spans.append((hit[0], hit[-1] + 1, self.get_component_rich_style("chat--token", partial=True)))
        for start, end, current in self.finder.spans(section.node, line):
            name = "chat--match-current" if current else "chat--match"
            spans.append((start, end, self.get_component_rich_style(name, partial=True)))
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(y)) is not None:
            start, end = span
            length = len(line.origins)
            style = self.screen.get_component_rich_style("screen--selection", partial=True)
            spans.append((min(start, length), length if end == -1 else min(end, length), style))
        return lit(strip, spans)

    # ------------------------------------------------------------------------------------------ selecting

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The source text under the selection."""
        text = selected_source(self._column, selection)
        return (text, "\n") if text else None

    def on_click(self, event: events.Click) -> None:
        place = event.get_content_offset(self)
        found = self._column.line(place.y + self.scroll_offset.y) if place is not None else None
        if place is None or found is None:
            return
        section, line = found
        if any(section is message.head for message in self._messages):
            self.choose(section.node)
            return
        offset = source_at(line, place.x)
        if offset is not None:
            self.post_message(self.TextClicked(section.node, offset))
