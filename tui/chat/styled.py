"""Text in which every character knows its style and where in the source it came from. No Textual.

Origins make three things exact: copying a selection gives the source back (without the wraps, tabs and all), a
click finds the character that was clicked, and a selected token lights up wherever it was wrapped to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from rich.cells import cell_len, split_graphemes

from ..printable import printable

TAB = 8  # columns
DECORATION = -1  # the origin of characters that are not in the source


class Line(msgspec.Struct, frozen=True):
    """One line of cells: runs of (text, style names) and the source offset of each character."""

    runs: tuple[tuple[str, str], ...]
    origins: tuple[int, ...]

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.runs)


class Styled:
    """Characters, the style names of each, and the source offset of each; the three have one length."""

    __slots__ = ("origins", "styles", "text")

    def __init__(self, text: str = "", style: str = "", origin: int = DECORATION) -> None:
        self.text = ""
        self.styles: list[str] = []
        self.origins: list[int] = []
        if text:
            self.add(text, style, None if origin == DECORATION else range(origin, origin + len(text)))

    def __len__(self) -> int:
        return len(self.text)

    def add(self, text: str, style: str = "", origins: Iterable[int] | None = None) -> None:
        """Append characters that are safe to draw. Without `origins` they are decoration."""
        self.text += text
        self.styles.extend([style] * len(text))
        self.origins.extend([DECORATION] * len(text) if origins is None else origins)

    def foreign(self, text: str, style: str, origins: list[int]) -> None:
        """Append text from a model, a user or a file: made visible, each character keeping its origin."""
        shown = printable(text)
        if shown == text and text.isprintable():
            self.add(text, style, origins)
            return
        for character, origin in zip(text, origins, strict=True):
            piece = printable(character).replace("\n", "␊") if character != "\t" else " " * self._to_tab_stop()
            self.add(piece, style, [origin] * len(piece))

    def _to_tab_stop(self) -> int:
        return TAB - cell_len(self.text) % TAB

    def append(self, other: Styled) -> None:
        self.text += other.text
        self.styles.extend(other.styles)
        self.origins.extend(other.origins)

    def slice(self, start: int, end: int) -> Styled:
        part = Styled()
        part.text = self.text[start:end]
        part.styles = self.styles[start:end]
        part.origins = self.origins[start:end]
        return part

    def line(self, prefix: Styled | None = None) -> Line:
        """Freeze into a line, `prefix` before it."""
        whole = self
        if prefix is not None and len(prefix):
            whole = prefix.slice(0, len(prefix))
            whole.append(self)
        runs: list[tuple[str, str]] = []
        start = 0
        styles = whole.styles
        for index in range(1, len(styles) + 1):
            if index == len(styles) or styles[index] != styles[start]:
                runs.append((whole.text[start:index], styles[start]))
                start = index
        return Line(tuple(runs), tuple(whole.origins))

    def wrap(self, width: int) -> Iterator[Styled]:
        """Break at spaces into parts of at most `width` cells; a longer word is broken where it must be.

        Every character stays in exactly one part, the space at a break at the end of its line. A character wider
        than `width` gets a line of its own.
        """
        for start, end in breaks(self.text, max(1, width)):
            yield self.slice(start, end)

    def chop(self, width: int) -> Iterator[Styled]:
        """Break wherever `width` cells are full, as code is broken."""
        for start, end in breaks(self.text, max(1, width), words=False):
            yield self.slice(start, end)


def breaks(text: str, width: int, words: bool = True) -> list[tuple[int, int]]:
    """Where `text` is broken into lines of at most `width` cells; at least one, maybe empty, line."""
    if len(text) * 2 <= width or (text.isascii() and len(text) <= width):
        return [(0, len(text))]
    if text.isascii():
        cells: Iterable[tuple[int, int, int]] = ((i, i + 1, 1) for i in range(len(text)))
    else:
        cells = split_graphemes(text)[0]
    lines: list[tuple[int, int]] = []
    line_start = 0
    used = 0
    space_end = -1  # just after the last space of this line
    used_at_space = 0
    for start, end, size in cells:
        if used + size > width and start > line_start:
            if words and text[start] == " ":
                # a space at the edge hangs over it: drawn blank, kept for copying
                space_end, used_at_space = end, used
                continue
            if words and space_end > line_start:
                lines.append((line_start, space_end))
                line_start = space_end
                used -= used_at_space
            else:
                lines.append((line_start, start))
                line_start = start
                used = 0
            space_end = -1
            if used + size > width and start > line_start:
                lines.append((line_start, start))
                line_start, used = start, 0
        used += size
        if text[start] == " ":
            space_end, used_at_space = end, used
    lines.append((line_start, len(text)))
    return lines
