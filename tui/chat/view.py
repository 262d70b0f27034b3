"""The conversation on screen: its messages as sections of a column, drawn line by line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.selection import Selection
from textual.strip import Strip

from ..keymap import STANDARD, Keymap
from ..state.conversation import Conversation, Node
from .finding import Finder, place
from .following import FollowingView
from .overlay import STYLES, lit
from .picking import selected_source, source_at
from .sections import MessageSections, Notice, Section
from .status import OFFERED
from .styled import Line

STRIPS = 1024  # drawn lines that are kept


class ConversationView(FollowingView, can_focus=True):
    """Shows the path of one conversation.

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
        self.notice: list[tuple[str, str]] = []  # (text, style names) below the messages
        self.marked: tuple[Node, int, int] | None = None  # a selected token: source [start, end) of a message
        self.finder = Finder()
        self._cursor: Node | None = None
        self._messages: list[MessageSections] = []
        self._styles: dict[str, Style] = {}
        self._selection: Selection | None = None
        self._strips: dict[int, tuple[Line, int, Strip]] = {}  # by row of the column: made from, at which width, made

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

    def use_keys(self, keymap: Keymap, asks: bool) -> None:
        """Name these keys; where nothing answers (not `asks`), none that would ask."""
        self.keymap = keymap if asks else keymap.without(*OFFERED)
        self.redraw_all()

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
        self.mark_unread()
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
            self.bring_into_sight(*found)
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
        self._refresh_changed_rows()
        self.post_message(self.CursorMoved(node))

    def _refill(self) -> None:
        sections: list[Section] = [section for message in self._messages for section in message.all()]
        if self.notice:
            sections.append(Notice(self.notice))
        self.show_sections(sections)

    def on_resize(self, _: events.Resize) -> None:
        self._refill()

    # -------------------------------------------------------------------------------------------- drawing

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._styles.clear()
        self._strips.clear()

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
        # Textual reads off the cells where the mouse selects; only to be looked at they need not say it.
        strip, offset = self.painted(y), self._place[1]
        return strip.apply_offsets(0, y + offset) if self._line_at(y) is not None else strip

    def _line_at(self, y: int) -> tuple[Section, Line] | None:
        return self._in_sight[y] if y < self._place[0].height else None

    def painted(self, y: int) -> Strip:
        offset, width = self._place[1], self._place[0].width
        found = self._line_at(y)
        if found is None:
            return Strip.blank(width, self._style(""))
        section, line = found
        y += offset
        known = self._strips.get(y)
        if known is None or known[1] != width or (known[0] is not line and known[0] != line):
            if len(self._strips) >= STRIPS:
                self._strips.clear()
            known = self._strips[y] = line, width, self._fit(self._strip(line))
        spans = self._lights(section, line, y)
        return self._fit(lit(self._strip(line), spans)) if spans else known[2]

    def _strip(self, line: Line) -> Strip:
        return Strip([Segment(text, self._style(names)) for text, names in line.runs])

    def _fit(self, strip: Strip) -> Strip:
        """As wide as the view."""
        return strip.crop_extend(0, self._place[0].width, self._style(""))

    def _lights(self, section: Section, line: Line, y: int) -> list[tuple[int, int, Style]]:
        """What lights up in a line: the selected token, what was found, the selected text."""
        if self.marked is None and not self.finder.words and self._selection is None:
            return []
        spans: list[tuple[int, int, Style]] = []
        if self.marked is not None and self.marked[0] is section.node:
            _, start, end = self.marked
            hit = [i for i, origin in enumerate(line.origins) if start <= origin < end]
            if hit:
                spans.append((hit[0], hit[-1] + 1, self.get_component_rich_style("chat--token", partial=True)))
        for start, end, current in self.finder.spans(section.node, line):
            name = "chat--match-current" if current else "chat--match"
            spans.append((start, end, self.get_component_rich_style(name, partial=True)))
        selection = self._selection
        if selection is not None and (span := selection.get_span(y)) is not None:
            start, end = span
            length = len(line.origins)
            style = self.screen.get_component_rich_style("screen--selection", partial=True)
            spans.append((min(start, length), length if end == -1 else min(end, length), style))
        return spans

    # ------------------------------------------------------------------------------------------ selecting

    def selection_updated(self, selection: Selection | None) -> None:
        self._selection = selection
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
