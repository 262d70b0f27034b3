"""Markdown to blocks and blocks to lines, at any width from one cell up. No Textual, no markup parsing.

HTML is shown as it is written, links show where they lead, and nothing in the text can start an action.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .code import code_lines
from .styled import Line, Styled

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_BULLETS = "•◦▪"
_NESTING_LIMIT = 12  # levels of quotes and lists that are indented; deeper ones keep the last indent


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """One top-level block: its tokens and the part [start, end) of the source it was made from."""

    tokens: tuple[Token, ...]
    start: int
    end: int
    source: str = dataclasses.field(repr=False)
    line_starts: tuple[int, ...] = dataclasses.field(repr=False)

    @property
    def kind(self) -> str:
        return self.tokens[0].type

    def code(self) -> str | None:
        """The code of a code block, exactly as written; None for other blocks."""
        return self.tokens[0].content.removesuffix("\n") if self.kind in ("fence", "code_block") else None

    def lines(self, width: int) -> list[Line]:
        """The block's lines, each at most `width` cells (a wide character in one cell excepted)."""
        return _Renderer(self).render(max(1, width))


@functools.cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def prepare() -> None:
    """Import the parser and use it once: the first text read does not have to wait for that."""
    for block in parse("# A\n*b* `c`\n- d\n\n```\ne\n```\n"):
        block.lines(20)


def line_starts(text: str) -> tuple[int, ...]:
    """Offset of each line's first character, lines being ended by \\n alone."""
    starts = [0]
    at = text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    return tuple(starts)


def parse(text: str) -> list[Block]:
    """Split `text` into top-level blocks. Never raises for any text."""
    # The parser takes \r and NUL for something else; both are one character, so that offsets stay.
    text_to_parse = text.replace("\r", " ").replace("\0", "\ufffd")
    starts = line_starts(text)
    blocks: list[Block] = []
    pending: list[Token] = []
    for token in _parser().parse(text_to_parse):
        pending.append(token)
        if token.level == 0 and token.nesting <= 0:
            first, last = pending[0].map or (0, 0)
            end = starts[last] if last < len(starts) else len(text)
            blocks.append(Block(tuple(pending), starts[min(first, len(starts) - 1)], end, text, starts))
            pending = []
    return blocks


class _Renderer:
    """Walks a block's tokens, with what stands before each line kept on a stack."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.lines: list[Line] = []
        self.prefixes: list[tuple[Styled, Styled]] = []  # for the first line and for the following ones
        self.fresh: list[bool] = []
        self.width = 1

    def render(self, width: int) -> list[Line]:
        from .inline import Aligner

        self.width = width
        self.aligner = Aligner(self.block.source, self.block.start, self.block.end)
        self._walk(self.block.tokens)
        return self.lines or [Line((), ())]

    def _walk(self, tokens: Sequence[Token]) -> None:
        index = 0
        counters: list[tuple[str, int]] = []
        heading = ""
        while index < len(tokens):
            token = tokens[index]
            kind = token.type
            if kind == "heading_open":
                heading = token.tag
            elif kind == "heading_close":
                heading = ""
            elif kind == "inline":
                self._text(token, heading)
            elif kind == "fence" or kind == "code_block":
                self._code(token)
            elif kind == "hr":
                self._emit(Styled("─" * self._room(), "frame").line())
            elif kind == "html_block":
                self._literal(token)
            elif kind == "bullet_list_open":
                counters.append((_BULLETS[min(len(counters), 2)], 0))
            elif kind == "ordered_list_open":
                counters.append(("", int(token.attrs.get("start", 1))))
            elif kind in ("bullet_list_close", "ordered_list_close"):
                counters.pop()
            elif kind == "list_item_open":
                bullet, number = counters[-1]
                label = f"{bullet} " if bullet else f"{number}. "
                counters[-1] = (bullet, number + 1)
                self._push(Styled(label, "bullet"), Styled(" " * len(label)))
            elif kind == "blockquote_open":
                self._push(Styled("▌ ", "quote"), Styled("▌ ", "quote"))
            elif kind in ("list_item_close", "blockquote_close"):
                self._pop()
            elif kind == "paragraph_open" and not token.hidden:
                self._gap()
            elif kind == "table_open":
                index = self._table(tokens, index)
            index += 1

    def _text(self, token: Token, heading: str) -> None:
        from .inline import inline

        self._seek(token)
        for part in inline(token.children or (), self.aligner, heading):
            for line in part.wrap(self._room()):
                self._emit_styled(line)

    def _literal(self, token: Token) -> None:
        self._seek(token)
        for text in token.content.rstrip("\n").split("\n"):
            styled = Styled()
            styled.foreign(text, "", self.aligner.take(text))
            for line in styled.wrap(self._room()):
                self._emit_styled(line)

    def _code(self, token: Token) -> None:
        self._gap()
        self._seek(token)
        code = token.content.removesuffix("\n")
        language = token.info.split()[0] if token.info.strip() else ""
        if self.aligner.source.startswith(token.markup or " ", self.aligner.at) and token.type == "fence":
            after = self.aligner.source.find("\n", self.aligner.at)
            self.aligner.at = after + 1 if after >= 0 else self.aligner.end
        for line in code_lines(code, self.aligner.take(code), self._room(), language):
            self._emit(line)

    def _table(self, tokens: Sequence[Token], index: int) -> int:
        from .inline import inline
        from .tables import table_lines

        rows: list[list[Styled]] = []
        header = False
        while tokens[index].type != "table_close":
            token = tokens[index]
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "th_open":
                header = True
            elif token.type == "td_open":
                header = False
            elif token.type == "inline":
                cell = Styled()
                for part in inline(token.children or (), self.aligner, "strong" if header else ""):
                    cell.append(part)
                rows[-1].append(cell)
            index += 1
        for line in table_lines(rows, self._room()):
            self._emit(line)
        return index

    def _seek(self, token: Token) -> None:
        """Take up the source where this token's lines begin."""
        if token.map is not None and token.map[0] < len(self.block.line_starts):
            self.aligner.at = max(self.aligner.at, self.block.line_starts[token.map[0]])

    def _push(self, first: Styled, rest: Styled) -> None:
        deep = len(self.prefixes) >= _NESTING_LIMIT or self._room() - len(first) < min(4, self.width)
        self.prefixes.append((Styled(), Styled()) if deep else (first, rest))
        self.fresh.append(True)

    def _pop(self) -> None:
        if self.fresh[-1]:
            self._emit_styled(Styled())
        self.prefixes.pop()
        self.fresh.pop()

    def _room(self) -> int:
        return max(1, self.width - sum(len(first) for first, _ in self.prefixes))

    def _gap(self) -> None:
        """An empty line between the blocks of one item, not before its first."""
        if self.lines and not (self.fresh and self.fresh[-1]):
            self._emit_styled(Styled())

    def _prefix(self) -> Styled:
        prefix = Styled()
        for index, (first, rest) in enumerate(self.prefixes):
            prefix.append(first if self.fresh[index] else rest)
            self.fresh[index] = False
        return prefix

    def _emit_styled(self, styled: Styled) -> None:
        self.lines.append(styled.line(self._prefix()))

    def _emit(self, line: Line) -> None:
        before = self._prefix().line()
        self.lines.append(Line(before.runs + line.runs, before.origins + line.origins))
