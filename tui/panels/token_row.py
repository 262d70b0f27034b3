"""Every token of the templated prompt and of the reply."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from textual.binding import Binding, BindingType

from ...engine.protocol import PromptToken, Sampled
from ..state import RequestState
from .glyphs import ramp
from .line import Line, facts_rows, spread
from .panel import Panel
from .token_layout import TokenLayout
from .token_text import hexadecimal, quoted, role_of
from .units import count, percent

ROLE_MARKS = {"system": "S", "user": "U", "assistant": "A", "tool": "T", "raw": "R", "control": "◆"}
LEGEND = ("◆ control", "≡ spared by the prefix cache", "▁▂▅█ surprise, −ln p", "! forced", "■ end")
MOST_SURPRISED = 8.0  # nats: where the ramp ends
MOST_MADE = 512  # rows
BUDGET = 4_096  # tokens laid out in one repaint; a longer prompt takes several


class TokenRow(Panel):
    """Two rows of text a row of tokens: the pieces, and under each its marks (with `i`, its id in a third).

    Marks of the prompt: the role's letter, ◆ for control tokens, ≡ where the prefix cache spared it. Marks of the
    reply: how surprising the token was (−ln p at temperature 1), ! for a forced one, ■ for an end token.
    """

    TITLE = "tokens"
    CAPABILITY = "tokens"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1)", "Previous token", show=False, id="tokens.left"),
        Binding("right", "move(1)", "Next token", show=False, id="tokens.right"),
        Binding("up", "move_row(-1)", "Row up", show=False, id="tokens.up"),
        Binding("down", "move_row(1)", "Row down", show=False, id="tokens.down"),
        Binding("pageup", "move_row(-5)", "Rows up", show=False, id="tokens.page-up"),
        Binding("pagedown", "move_row(5)", "Rows down", show=False, id="tokens.page-down"),
        Binding("home", "first", "First token", show=False, id="tokens.first"),
        Binding("end", "live", "Newest token", show=False, id="tokens.live"),
        Binding("i", "ids", "Token ids", id="tokens.ids"),
    ]

    # The bar's column is always there: nearly every reply outgrows the panel, and a bar that comes has the whole screen
    # laid out anew, just when the reply begins.
    DEFAULT_CSS = "TokenRow { overflow-y: scroll; }"

    show_ids = False
    _key: Hashable = None
    _complete = True

    def depends_on(self) -> Hashable:
        request = self.current
        return (
            request and (request.request, request.version),
            self.selection.version,
            self.show_ids,
            None if self._complete else len(self._layout),
        )

    def on_mount(self) -> None:
        super().on_mount()
        self._layout = TokenLayout(1, False)
        self._made: dict[Hashable, Line] = {}  # rows of a long prompt are made once

    # ------------------------------------------------------------------------------------------------- drawing

    def measure(self, width: int, height: int) -> int:
        found = self.resolved()
        request = found.request
        if request is None:
            return 0
        number = found.sample.sample if found.sample else 0
        revised = found.sample.revised if found.sample else 0
        key = (request.request, number, width, self.show_ids, id(request.rendered), revised)
        if key != self._key:
            self._key = key
            self._layout = TokenLayout(width, self.show_ids)
        tokens = found.sample.tokens if found.sample else []
        total = request.prompt_length + len(tokens)
        self._complete = self._layout.extend(lambda at: request.token_at(number, at), total, BUDGET)
        if not self._complete:
            # The rest is laid out even if no event comes that makes the app poll.
            self.set_timer(0.08, self.refresh_if_changed)
        self._found, self._number = found, number
        return self._layout.rows * self._height

    def laid_out(self) -> None:
        self._show_cursor()

    def _show_cursor(self) -> None:
        if 0 <= self._found.position < len(self._layout):
            y = self._layout.row_of(self._found.position) * self._height
            self.keep_visible(y, self._height, following=self.selection.follow_live)

    @property
    def _height(self) -> int:
        return 3 if self.show_ids else 2

    def row(self, y: int, width: int) -> Line:
        row, sub = divmod(y, self._height)
        tokens = self._layout.tokens_of(row)
        cursor = self._found.position if self._found.position in tokens else -1
        cached = self._found.sample.cached if self._found.sample else 0
        key = (self._key, y, tokens.stop, cursor, cached)
        line = self._made.get(key)
        if line is None:
            if len(self._made) >= MOST_MADE:
                self._made.clear()
            line = self._made[key] = self._draw(row, sub)
        return line

    def _draw(self, row: int, sub: int) -> Line:
        line = Line()
        request = self._found.request
        if request is None:
            return line
        for position in self._layout.tokens_of(row):
            token = request.token_at(self._number, position)
            style = role_of(token)
            if position == self._found.position:
                style += " cursor"
            wide = self._layout.widths[position]
            if sub == 0:
                line.fit(self._layout.texts[position], wide, style).add("│", "dim")
            elif sub == 1:
                line.fit(self._marks(request, position, wide), wide, style).add(" ")
            else:
                line.fit("" if token is None or token.id < 0 else str(token.id), wide, style).add(" ")
        return line

    def _marks(self, request: RequestState, position: int, width: int) -> str:
        token = request.token_at(self._number, position)
        if token is None:
            return "?"
        if isinstance(token, PromptToken):
            cached = self._found.sample.cached if self._found.sample else request.cached
            return ROLE_MARKS[role_of(token)] + ("≡" * (width - 1) if position < cached else "")
        first = "■" if token.end else "!" if token.forced else ""
        if token.logprob is None:
            return first or "A"
        surprise = ramp(max(0.0, -token.logprob) / MOST_SURPRISED)
        return first + surprise * (width - len(first))

    def pinned(self, width: int, height: int) -> list[Line]:
        rows: list[Line] = []
        if height >= 4 and self._found.token is not None:
            rows += spread(self._describe(), width, facts_rows(height), fill=True)
        if height >= 7:
            rows += spread(LEGEND, width, facts_rows(height), "dim", "  ")
        return rows

    def _describe(self) -> list[str]:
        found, token = self._found, self._found.token
        if token is None:
            return []
        named = f"id {token.id}" if token.id >= 0 else "id not told"
        parts = [f"#{found.position} {quoted(token.piece, token.bytes, 24)}", named, role_of(token)]
        if isinstance(token, Sampled):
            if token.logprob is not None:
                parts.append(f"−ln p {max(0.0, -token.logprob):.2f}")
            if token.rank:
                parts.append(f"rank {token.rank}")
            drawn = "told by the server" if token.told else f"drawn at {percent(token.prob)}"
            parts.append("forced" if token.forced else drawn)
        if token.bytes:
            parts.append(f"bytes {hexadecimal(token.bytes[:12])}{'…' if len(token.bytes) > 12 else ''}")
        if found.slot >= 0:
            parts.append(f"page {found.page} slot {found.slot}" + ("" if found.written else " (not written yet)"))
        if found.iteration >= 0:
            parts.append(f"step {found.iteration} lane {found.lane}")
        return parts

    def titles(self) -> tuple[str, str]:
        request = self._found.request
        if request is None:
            return self.TITLE, ""
        parts = [request.name, f"{count(request.length(self._number))} tokens"]
        cached = self._found.sample.cached if self._found.sample else 0
        if cached:
            parts.append(f"{count(cached)} cached")
        if not self._complete:
            parts.append("…")
        return self.TITLE, " · ".join(parts)

    # ------------------------------------------------------------------------------------------------- choosing

    def _go(self, position: int) -> None:
        found = self.resolved()
        if found.request is None:
            return
        total = found.request.length(self._number) if found.sample else found.request.prompt_length
        self.selection.select_token(found.request.request, self._number, min(max(0, position), max(0, total - 1)))
        self.selected()

    def clicked(self, x: int, y: int) -> None:
        position = self._layout.at(y // self._height, x)
        if position is not None:
            self._go(position)

    def action_move(self, by: int) -> None:
        """Move the cursor along the tokens."""
        self._go(self.resolved().position + by)

    def action_move_row(self, by: int) -> None:
        """Move the cursor to the token above or below."""
        position = self.resolved().position
        if not 0 <= position < len(self._layout):
            return
        row = min(max(0, self._layout.row_of(position) + by), self._layout.rows - 1)
        target = self._layout.at(row, self._layout.column(position))
        if target is not None:
            self._go(target)

    def action_first(self) -> None:
        """Go to the first token."""
        self._go(0)

    def action_live(self) -> None:
        """Follow the newest token."""
        self.selection.live()
        self.selected()

    def action_ids(self) -> None:
        """Show or hide token ids."""
        self.show_ids = not self.show_ids
        self.repaint()
