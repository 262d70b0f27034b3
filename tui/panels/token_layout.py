"""Where each token of a long row stands. Append-only, so a growing reply costs its new tokens alone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from rich.cells import cell_len

from ...engine.protocol import PromptToken, Sampled
from .token_text import crop, token_text

Token = PromptToken | Sampled | None
WIDEST = 32  # cells of one token
NARROWEST = 2  # a mark for the role, and one more


class TokenLayout:
    """Tokens wrapped into rows of `width` cells, one separator after each."""

    def __init__(self, width: int, show_ids: bool) -> None:
        self.width = max(1, width)
        self.show_ids = show_ids
        self.texts: list[str] = []
        self.widths: list[int] = []
        self.starts: list[int] = []  # first token of each row
        self._used = 0  # cells of the last row

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def rows(self) -> int:
        return len(self.starts)

    def extend(self, token_at: Callable[[int], Token], total: int, budget: int) -> bool:
        """Lay out tokens up to `total`, at most `budget` of them; says whether all are laid out."""
        stop = min(total, len(self.texts) + budget)
        widest = max(1, min(WIDEST, self.width - 1))
        for position in range(len(self.texts), stop):
            token = token_at(position)
            text = "?" if token is None else crop(token_text(token.piece, token.bytes), widest)
            width = max(cell_len(text), NARROWEST)
            if self.show_ids and token is not None:
                width = max(width, len(str(token.id)))
            width = min(width, self.width)
            if not self.starts or self._used + width + 1 > self.width:
                self.starts.append(position)
                self._used = 0
            self._used += width + 1
            self.texts.append(text)
            self.widths.append(width)
        return stop == total

    def row_of(self, position: int) -> int:
        """The row of a token that is laid out."""
        return max(0, bisect_right(self.starts, position) - 1)

    def tokens_of(self, row: int) -> range:
        """Positions in a row."""
        if not 0 <= row < len(self.starts):
            return range(0)
        end = self.starts[row + 1] if row + 1 < len(self.starts) else len(self.texts)
        return range(self.starts[row], end)

    def column(self, position: int) -> int:
        """First cell of a token in its row."""
        return sum(self.widths[at] + 1 for at in range(self.starts[self.row_of(position)], position))

    def at(self, row: int, column: int) -> int | None:
        """The token nearest to a cell of a row; None for a row that is not there."""
        found = None
        used = 0
        for position in self.tokens_of(row):
            found = position
            used += self.widths[position] + 1
            if column < used:
                break
        return found
