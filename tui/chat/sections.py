"""A conversation as a column of sections: each message's head, its parts, its ending. No Textual.

The view asks sections for their height (guessed until it is drawn) and lines (drawn only near the window), so a
conversation of any length costs the same to show.
"""

from __future__ import annotations

from ..keymap import STANDARD, Keymap
from ..state.conversation import Node
from .document import Document, Part
from .status import ending
from .styled import Line, Styled

SHORT = 20_000  # characters; a longer message is kept in parts, so that only those in sight are drawn
_NAMES = {"user": "you", "system": "system", "tool": "tool"}


class Section:
    """Lines of one kind of one message. Offsets in its lines are into the message's own text."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def height(self, width: int) -> int:
        return len(self.lines(width))

    def exact(self, width: int) -> bool:
        return True

    def lines(self, width: int) -> list[Line]:
        raise NotImplementedError


class Head(Section):
    """Who speaks, which branch this is, and whether the reader's cursor is on it."""

    def __init__(self, node: Node, speaker: str) -> None:
        super().__init__(node)
        self.speaker = speaker
        self.current = False

    def height(self, width: int) -> int:
        return 1

    def lines(self, width: int) -> list[Line]:
        styled = Styled()
        style = "head-current" if self.current else f"head-{self.node.role}"
        wrote = self.node.reply.model if self.node.reply is not None else ""
        name = _NAMES.get(self.node.role, wrote or self.speaker)
        styled.add("▶ " if self.current else "", style)
        styled.foreign(name, style, [-1] * len(name))
        at, of = self.node.place
        if of > 1:
            styled.add(f"  ‹ {at}/{of} ›", "dim")
        if self.node.reply is not None and self.node.reply.forked_from and not self.node.running:
            styled.add("  ⑂", "dim")
        return [next(styled.chop(width)).line()]


class Body(Section):
    """One part of the text, and an empty line below it."""

    def __init__(self, node: Node, part: Part) -> None:
        super().__init__(node)
        self.part = part
        self._width = 0
        self._lines: list[Line] = []

    def height(self, width: int) -> int:
        return self.part.height(width) + 1

    def exact(self, width: int) -> bool:
        return self.part.exact(width)

    def lines(self, width: int) -> list[Line]:
        if width != self._width:
            self._width, self._lines = width, [*self.part.lines(width), Line((), ())]
        return self._lines


class Thought(Section):
    """What the model thought before it answered: a line that says so, or all of it."""

    opened = False

    def height(self, width: int) -> int:
        return len(self.lines(width))

    def lines(self, width: int) -> list[Line]:
        reasoning = self.node.reply.reasoning if self.node.reply is not None else ""
        if not reasoning:
            return []
        mark, key = ("▾", "o closes") if self.opened else ("▸", "o opens")
        label = f"{mark} thought, {len(reasoning):,} characters — {key}"
        lines = [part.line() for part in Styled(label, "state-note").wrap(width)]
        if self.opened:
            prefix = Styled("┊ " if width > 8 else "", "quote")
            for text in reasoning.strip("\n").split("\n"):
                styled = Styled()
                styled.foreign(text, "state-note", [-1] * len(text))
                lines.extend(part.line(prefix) for part in styled.wrap(width - len(prefix)))
        return [*lines, Line((), ())]


class Whole(Section):
    """All of a finished message's text: not even read as markdown before it is drawn."""

    def __init__(self, node: Node, plain: bool) -> None:
        super().__init__(node)
        self.plain = plain
        self.text = node.text
        self._width = 0
        self._lines: list[Line] = []

    def height(self, width: int) -> int:
        if width == self._width:
            return len(self._lines)
        breaks = self.text.count("\n", 0, SHORT)
        return 2 + breaks + round(len(self.text) / max(1, width * 0.8))

    def exact(self, width: int) -> bool:
        return width == self._width

    def lines(self, width: int) -> list[Line]:
        if width != self._width:
            self._lines = []
            for part in Document(self.text, self.plain).parts:
                self._lines.extend((*part.lines(width), Line((), ())))
            self._width = width
        return self._lines


class Foot(Section):
    """How the reply ended, or what it does now; and what was changed in its prompt."""

    def __init__(self, node: Node, keys: Keymap) -> None:
        super().__init__(node)
        self.keys = keys
        self._made_for = (-1, 0)
        self._lines: list[Line] = []

    def lines(self, width: int) -> list[Line]:
        if self._made_for != (self.node.revision, width):
            self._made_for, self._lines = (self.node.revision, width), self._make(width)
        return self._lines

    def _make(self, width: int) -> list[Line]:
        lines: list[Line] = []
        glyph, words, style = ending(self.node, self.keys)
        if glyph:
            styled = Styled(f"{glyph} ", style)
            styled.foreign(words, style, [-1] * len(words))
            lines.extend(part.line() for part in styled.wrap(width))
        note = self.node.reply.note if self.node.reply is not None else ""
        if note:
            styled = Styled("ⓘ ", "state-note")
            styled.foreign(note, "state-note", [-1] * len(note))
            lines.extend(part.line() for part in styled.wrap(width))
        return [*lines, Line((), ())] if lines else []


class Notice(Section):
    """Something the program says, below the messages."""

    def __init__(self, paragraphs: list[tuple[str, str]]) -> None:
        super().__init__(Node("notice", ""))
        self.paragraphs = paragraphs  # (text, style names)
        self._width = 0
        self._lines: list[Line] = []

    def lines(self, width: int) -> list[Line]:
        if width != self._width:
            self._lines = self._make(width)
            self._width = width
        return self._lines

    def _make(self, width: int) -> list[Line]:
        lines: list[Line] = []
        for text, style in self.paragraphs:
            styled = Styled()
            styled.foreign(text, style, [-1] * len(text))
            lines.extend(part.line() for part in styled.wrap(width))
        return lines


class MessageSections:
    """The sections of one message, renewed as little as its changes need."""

    def __init__(self, node: Node, speaker: str, plain: bool = False, keys: Keymap = STANDARD) -> None:
        self.node = node
        self.plain = plain
        self.head = Head(node, speaker)
        self.thought = Thought(node)
        self.foot = Foot(node, keys)
        self._bodies: list[Section] = []
        self._document: Document | None = None
        self._revision = -1
        self.update()

    def update(self) -> bool:
        """Take in the message's newest text and state; False if nothing had changed."""
        if self._revision == self.node.revision:
            return False
        self._revision = self.node.revision
        if self.node.running or len(self.node.text) > SHORT:
            self._grow()
        else:
            self._document = None
            self._bodies = [Whole(self.node, self.plain)] if self.node.text else []
        return True

    def _grow(self) -> None:
        if self._document is None:
            self._document = Document(plain=self.plain)
            self._bodies = []
        document = self._document
        if self.node.running:
            document.grow(self.node.text)
        else:
            document.replace(self.node.text)
        keep = min(document.changed_from, len(self._bodies))
        self._bodies[keep:] = [Body(self.node, part) for part in document.parts[keep:]]
        document.changed_from = len(document.parts)

    def all(self) -> list[Section]:
        return [self.head, self.thought, *self._bodies, self.foot]
