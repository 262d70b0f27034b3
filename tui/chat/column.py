"""Where in a column of sections a line is: heights summed up, drawn near the window only. No Textual."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from .sections import Section
from .styled import Line


class Column:
    """Sections one below the other at one width.

    A position is (section index, line in it); it stays true when sections above change their height, which a line
    number does not.
    """

    def __init__(self) -> None:
        self.sections: list[Section] = []
        self.width = 1
        self._tops: list[int] = [0]

    def set(self, sections: list[Section], width: int) -> None:
        self.sections = sections
        self.width = max(1, width)
        self.measure()

    def measure(self) -> None:
        """Sum the heights up again."""
        self._tops = list(accumulate((s.height(self.width) for s in self.sections), initial=0))

    @property
    def height(self) -> int:
        return self._tops[-1]

    def top(self, index: int) -> int:
        return self._tops[index]

    def at(self, y: int) -> tuple[int, int]:
        """The position of line `y`; (-1, 0) outside."""
        if not 0 <= y < self.height:
            return -1, 0
        index = bisect_right(self._tops, y) - 1
        return index, y - self._tops[index]

    def line(self, y: int) -> tuple[Section, Line] | None:
        """The line at `y` with its section; drawn now if it was not yet."""
        index, offset = self.at(y)
        if index < 0:
            return None
        section = self.sections[index]
        lines = section.lines(self.width)
        return (section, lines[offset]) if offset < len(lines) else (section, Line((), ()))

    def draw_from(self, index: int, lines: int) -> bool:
        """Draw sections downward from `index` until `lines` lines are exact; True if a height changed."""
        changed = False
        while lines > 0 and index < len(self.sections):
            changed |= self._draw(index)
            lines -= self.sections[index].height(self.width)
            index += 1
        return changed

    def draw_to(self, index: int, lines: int) -> bool:
        """Draw sections upward from `index` until `lines` lines are exact; True if a height changed."""
        changed = False
        while lines > 0 and index >= 0:
            changed |= self._draw(index)
            lines -= self.sections[index].height(self.width)
            index -= 1
        return changed

    def _draw(self, index: int) -> bool:
        section = self.sections[index]
        if section.exact(self.width):
            return False
        before = section.height(self.width)
        section.lines(self.width)
        return section.height(self.width) != before
