"""Finding words in a chat: where they are in its messages, and where those places are on the screen. No Textual."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from ..state.conversation import Node
from .column import Column
from .sections import Body, Whole
from .styled import Line

MOST = 10_000  # matches of one search
_MARKUP = r"[*_~`\\]*"  # may stand between the letters of a word that is shown without it


class Match(msgspec.Struct, frozen=True):
    """Characters [start, end) of a message's text."""

    node: Node
    start: int
    end: int


def find(nodes: Sequence[Node], words: str) -> list[Match]:
    """Every place of `words` in these messages, in order, small and capital letters alike.

    Any white space in `words` stands for any other, and Markdown's signs in a message need not be typed.
    """
    pattern = _pattern(words)
    found: list[Match] = []
    for node in nodes if pattern is not None else ():
        assert pattern is not None
        for match in pattern.finditer(node.text):
            found.append(Match(node, match.start(), match.end()))
            if len(found) >= MOST:
                return found
    return found


def _pattern(words: str) -> re.Pattern[str] | None:
    parts = words.split()
    if not parts:
        return None
    spelled = [_MARKUP.join(re.escape(letter) for letter in part) for part in parts]
    return re.compile(rf"(?:{_MARKUP}\s+{_MARKUP})".join(spelled), re.IGNORECASE)


class Finder:
    """The words looked for in the messages shown, their places, and which of them is the current one."""

    def __init__(self) -> None:
        self.words = ""
        self.matches: list[Match] = []
        self.at = -1
        self._by_node: dict[int, list[int]] = {}

    @property
    def current(self) -> Match | None:
        return self.matches[self.at] if 0 <= self.at < len(self.matches) else None

    def look(self, nodes: Sequence[Node], words: str) -> None:
        """Look for other words, or again; the current match stays where that can be."""
        before = self.current
        self.words = words
        self.matches = find(nodes, words)
        self._by_node = {}
        for index, match in enumerate(self.matches):
            self._by_node.setdefault(id(match.node), []).append(index)
        if not self.matches:
            self.at = -1
        elif before is not None:
            order = {id(node): place for place, node in enumerate(nodes)}
            place = (order.get(id(before.node), 0), before.start)
            later = (i for i, m in enumerate(self.matches) if (order[id(m.node)], m.start) >= place)
            self.at = next(later, len(self.matches) - 1)
        else:
            self.at = len(self.matches) - 1

    def turn(self, by: int) -> None:
        """Go to another match; after the last comes the first."""
        if self.matches:
            self.at = (self.at + by) % len(self.matches)

    def told(self) -> str:
        """ "3 of 12", or that there is none."""
        if not self.words.strip():
            return ""
        many = f"{len(self.matches):,}{'+' if len(self.matches) >= MOST else ''}"
        return f"{self.at + 1:,} of {many}" if self.matches else "not found"

    def spans(self, node: Node, line: Line) -> list[tuple[int, int, bool]]:
        """What of a line of this message is found: [start, end) in its characters, and whether it is the current."""
        indexes = self._by_node.get(id(node))
        if not indexes or not any(origin >= 0 for origin in line.origins):
            return []
        low, high = min(o for o in line.origins if o >= 0), max(line.origins) + 1
        spans: list[tuple[int, int, bool]] = []
        for index in indexes:
            match = self.matches[index]
            if match.end > low and match.start < high:
                hit = [i for i, origin in enumerate(line.origins) if match.start <= origin < match.end]
                if hit:
                    spans.append((hit[0], hit[-1] + 1, index == self.at))
        return spans


def place(column: Column, match: Match) -> tuple[int, int] | None:
    """The section and the line in it where a match begins; draws the section. None: it is not shown."""
    for index, section in enumerate(column.sections):
        if section.node is not match.node or not isinstance(section, Body | Whole):
            continue
        if isinstance(section, Body) and not section.part.start <= match.start <= section.part.end:
            continue
        for number, line in enumerate(section.lines(column.width)):
            if any(match.start <= origin < match.end for origin in line.origins):
                return index, number
    return None
