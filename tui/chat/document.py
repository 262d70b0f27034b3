"""A message's text as parts that turn into lines; growing it costs the same however long it is. No Textual.

Only the last block can still change while text arrives, so only it is read again. A code block that is still open
is not read again at all: its new lines are added plain, and it is highlighted once, when it closes. `finish` reads
the whole once more, so that a streamed reply and a saved one look the same.
"""

from __future__ import annotations

import re

from .code import code_line, code_lines
from .markdown import Block, line_starts, parse
from .styled import Line, Styled

_FENCE = re.compile(r" {0,3}(?P<mark>`{3,}|~{3,})(?P<info>[^\n]*)\n?")
_AVERAGE = 0.8  # of a line's width that wrapped prose fills


class Part:
    """Some source [start, end) that becomes lines of its own; `lines` are kept for one width."""

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self._width = 0
        self._lines: list[Line] = []

    def lines(self, width: int) -> list[Line]:
        if width != self._width:
            self._lines = self._make(width)
            self._width = width
        return self._lines

    def exact(self, width: int) -> bool:
        """Its height at this width has been measured."""
        return width == self._width

    def height(self, width: int) -> int:
        """Lines at this width: measured, or else guessed from the length."""
        if width == self._width:
            return len(self._lines)
        return max(1, round((self.end - self.start) / max(1, width * _AVERAGE)))

    def code(self) -> str | None:
        """The code, where the part is a code block."""
        return None

    def _make(self, width: int) -> list[Line]:
        raise NotImplementedError


class BlockPart(Part):
    """A block of markdown."""

    def __init__(self, block: Block) -> None:
        super().__init__(block.start, block.end)
        self.block = block

    def code(self) -> str | None:
        return self.block.code()

    def _make(self, width: int) -> list[Line]:
        return self.block.lines(width)


class PlainPart(Part):
    """Text exactly as it is, no markdown read."""

    def __init__(self, text: str, start: int) -> None:
        super().__init__(start, start + len(text))
        self.text = text

    def _make(self, width: int) -> list[Line]:
        lines: list[Line] = []
        for at, text in zip(line_starts(self.text), self.text.split("\n"), strict=True):
            styled = Styled()
            styled.foreign(text, "", list(range(self.start + at, self.start + at + len(text))))
            lines.extend(part.line() for part in styled.wrap(width))
        return lines


class OpenFence(Part):
    """A code block whose end has not come yet: grows by whole lines, plain."""

    def __init__(self, text: str, start: int, match: re.Match[str]) -> None:
        super().__init__(start, len(text))
        self.mark = match["mark"]
        self.language = match["info"].strip().split(" ")[0]
        self.body = start + match.end()
        self.text = text
        self._done = self.body  # source up to here is in `_fixed`
        self._fixed: list[Line] = []

    def code(self) -> str:
        return self.text[self.body :]

    def grow(self, text: str) -> bool:
        """Take the longer text; True if the block closes in it, and it has to be read as a whole."""
        look_from = max(self.body, self.text.rfind("\n") + 1)
        self.text, self.end = text, len(text)
        closing = re.compile(rf"^ {{0,3}}{self.mark[0]}{{{len(self.mark)},}}[ \t]*(?:\n|\Z)", re.MULTILINE)
        if closing.search(text, look_from):
            return True
        if self._width:
            self._extend(self._width)
        return False

    def _make(self, width: int) -> list[Line]:
        self._fixed = code_lines("", (), width, self.language)[:-1]
        self._done = self.body
        self._lines = []
        self._extend(width)
        return self._lines

    def _extend(self, width: int) -> None:
        fixed = len(self._fixed)
        while (end := self.text.find("\n", self._done)) >= 0:
            self._fixed.extend(code_line(self.text[self._done : end], range(self._done, end), width))
            self._done = end + 1
        last = code_line(self.text[self._done :], range(self._done, len(self.text)), width)
        self._lines[fixed if self._lines else 0 :] = self._fixed[fixed if self._lines else 0 :] + last


class Document:
    """The parts of one message.

    `changed_from` is the first part that is new or may have changed; who has taken the parts over sets it to their
    number.
    """

    def __init__(self, text: str = "", plain: bool = False) -> None:
        self.plain = plain
        self.text = ""
        self.parts: list[Part] = []
        self.changed_from = 0
        self.replace(text)

    def replace(self, text: str) -> None:
        """Read the whole text."""
        self.text = text
        self.changed_from = 0
        self.parts = self._read(text, 0) if text else []

    def finish(self) -> None:
        """Read everything once more, now that nothing more will come."""
        self.replace(self.text)

    def grow(self, text: str) -> None:
        """Take `text`, which begins with the text there is; only the last part is read again."""
        if not text.startswith(self.text):
            self.replace(text)
            return
        if text == self.text:
            return
        self.text = text
        last = self.parts[-1] if self.parts else None
        self.changed_from = min(self.changed_from, max(0, len(self.parts) - 1))
        if isinstance(last, OpenFence) and not last.grow(text):
            return
        self.parts[-1:] = self._read(text, last.start if last is not None else 0)

    def _read(self, text: str, start: int) -> list[Part]:
        if self.plain:
            return _plain_parts(text, start)
        if (match := _FENCE.match(text, start)) and not _closed(text, match):
            return [OpenFence(text, start, match)]
        tail = text[start:]
        parts: list[Part] = []
        for block in parse(tail):
            opening = _FENCE.match(tail, block.start) if block.kind == "fence" else None
            if opening and not _closed(tail, opening):
                moved = _FENCE.match(text, start + block.start)
                assert moved is not None
                parts.append(OpenFence(text, start + block.start, moved))
                break
            parts.append(BlockPart(block) if start == 0 else _Shifted(block, start))
        return parts


class _Shifted(BlockPart):
    """A block read from the tail of the text: its origins moved to where the tail begins."""

    def __init__(self, block: Block, by: int) -> None:
        super().__init__(block)
        self.start, self.end = block.start + by, block.end + by
        self.by = by

    def _make(self, width: int) -> list[Line]:
        by = self.by
        return [Line(line.runs, tuple(o + by if o >= 0 else o for o in line.origins)) for line in super()._make(width)]


def _closed(text: str, opening: re.Match[str]) -> bool:
    mark = opening["mark"]
    closing = re.compile(rf"^ {{0,3}}{mark[0]}{{{len(mark)},}}[ \t]*$", re.MULTILINE)
    return closing.search(text, opening.end()) is not None


def _plain_parts(text: str, start: int) -> list[Part]:
    """Parts of some twenty lines, so that a long text is drawn piece by piece."""
    parts: list[Part] = []
    while start < len(text):
        end = start
        for _ in range(20):
            found = text.find("\n", end)
            end = found + 1 if found >= 0 else len(text)
            if end >= len(text):
                break
        parts.append(PlainPart(text[start:end].removesuffix("\n"), start))
        start = end
    return parts
