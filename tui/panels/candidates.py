"""The tokens that could have come next: how likely each was, what cut it, and which one was drawn."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from textual.binding import Binding, BindingType

from ...engine.distribution import Derived, at_temperature
from ...engine.protocol import PromptToken, Sampled, SamplingSettings
from .candidate_lines import (
    candidate_line,
    cumulative_line,
    facts_lines,
    filter_line,
    header_line,
    same_token,
    told_sentence,
)
from .line import Line, wrap
from .messages import ForkRequested
from .panel import Panel
from .token_text import quoted

STEP = 0.1  # of the what-if temperature
HOTTEST = 5.0


class CandidatesPanel(Panel):
    """The newest token of the selected request, or the selected one. Enter goes on with another candidate.

    `[` and `]` ask what another temperature would have made of it: that is derived from the log-probabilities
    that the engine reported, and shown as bounds where the tokens it did not report could change it.
    """

    TITLE = "next token"
    CAPABILITY = "candidates"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Candidate up", show=False, id="candidates.up"),
        Binding("down", "move(1)", "Candidate down", show=False, id="candidates.down"),
        Binding("left", "token(-1)", "Previous token", show=False, id="candidates.left"),
        Binding("right", "token(1)", "Next token", show=False, id="candidates.right"),
        Binding("enter", "fork", "Fork here", id="candidates.fork"),
        Binding("left_square_bracket", f"temperature({-STEP})", "What if colder", key_display="[", id="whatif.colder"),
        Binding("right_square_bracket", f"temperature({STEP})", "What if hotter", key_display="]", id="whatif.hotter"),
        Binding("backspace", "as_drawn", "As it was drawn", id="whatif.off"),
    ]

    cursor = 0
    what_if: float | None = None  # temperature
    _top = 0  # rows above the first candidate
    _shown_token: Hashable = None

    def depends_on(self) -> Hashable:
        request = self.current
        return (
            request and (request.request, request.version),
            self.selection.version,
            self.cursor,
            self.what_if,
        )

    # ------------------------------------------------------------------------------------------------- drawing

    def draw(self, width: int, height: int) -> list[Line]:
        found = self.resolved()
        self._found = found
        token = found.token
        key = (found.request.request if found.request else "", self.selection.sample, found.position)
        if key != self._shown_token and not self.selection.follow_live:
            self.cursor = 0
        self._shown_token = key
        if not isinstance(token, Sampled):
            self._top = 1
            return [Line(self._why_nothing(token), "dim")]
        self.cursor = min(self.cursor, max(0, len(token.candidates) - 1))
        settings = found.request.settings if found.request else SamplingSettings()
        candidates = token.candidates
        derived = self._derived(token, settings)
        room = max(1, height - 1)
        spare = height - len(candidates) - 4  # beside the header, the draw and the filters
        rows = facts_lines(token, found.position, width, spare >= 1) if height >= 3 else []
        if height >= 5:
            rows.append(header_line(width, self.what_if, token.told))
        self._top = len(rows)
        for at, candidate in enumerate(candidates):
            drawn = same_token(candidate, token)
            chosen = at == self.cursor and self.has_focus
            line = candidate_line(candidate, drawn, chosen, width, derived[at] if derived else None, token.told)
            rows.append(line)
        if not candidates:
            rows += [Line(part, "dim") for part in (self._why_no_candidates(token),)]
        room -= len(rows)
        if candidates and room >= 1 and token.draw is not None and self.what_if is None:
            rows.append(cumulative_line(candidates, token.draw, width))
        if candidates and room >= 2 and token.told:
            rows += [Line(part, "dim") for part in wrap(told_sentence(token), width)[:room]]
        elif candidates and room >= 2:
            rows.append(filter_line(settings, self.what_if, width))
        return rows

    def _derived(self, token: Sampled, settings: SamplingSettings) -> tuple[Derived, ...]:
        """What the what-if temperature makes of the candidates; empty: nobody asked."""
        if self.what_if is None or not token.candidates:
            return ()
        leading = min(settings.candidates, len(token.candidates))
        vocabulary = self.state.card.vocabulary if self.state.card else len(token.candidates)
        return at_temperature(token.candidates, self.what_if, vocabulary, leading or None)

    def _why_nothing(self, token: PromptToken | None) -> str:
        if token is None and self.state.remote:
            return "no token told yet"
        if token is None:
            return "no token drawn yet"
        return f"{quoted(token.piece, token.bytes, 24)} is part of the prompt: given, not drawn"

    def _why_no_candidates(self, token: Sampled) -> str:
        if token.forced:
            return "forced by a fork, not drawn"
        if not self.state.switches.inspect:
            return "the engine is told not to report candidates (inspect is off)"
        settings = self._found.request.settings if self._found.request else None
        if settings is not None and settings.candidates == 0:
            return "this request reports no candidates (candidates is 0)"
        return f"no candidates: not reported, or older than the newest {self.state.limits.candidates:,} tokens"

    def titles(self) -> tuple[str, str]:
        found = self._found
        title = self.TITLE
        if self.has_focus:
            forks = "" if self.state.lacks("fork") else " · Enter forks"
            title += f"{forks} · [ ] change T"
        if self.what_if is not None:
            return title, f"what if T {self.what_if:.2f} · derived · ⌫ as drawn"
        if found.request is None:
            return self.TITLE, ""
        settings = found.request.settings
        parts = ["greedy" if settings.temperature == 0 else f"T {settings.temperature:.2f}"]
        if settings.top_p < 1:
            parts.append(f"top-p {settings.top_p:g}")
        if settings.top_k:
            parts.append(f"top-k {settings.top_k}")
        if settings.min_p:
            parts.append(f"min-p {settings.min_p:g}")
        parts.append("live" if self.selection.follow_live else "past token")
        return title, " · ".join(parts)

    # ------------------------------------------------------------------------------------------------- choosing

    def watch_has_focus(self, has_focus: bool) -> None:
        # Not in on_blur, which comes while the focus is still said to be here.
        super().watch_has_focus(has_focus)
        self.repaint()

    def clicked(self, x: int, y: int) -> None:
        token = self.resolved().token
        if isinstance(token, Sampled) and 0 <= y - self._top < len(token.candidates):
            self.cursor = y - self._top
            self._hold(token)

    def _hold(self, token: Sampled) -> None:
        """Stay on this token: a candidate of a token that runs away can't be chosen."""
        found = self.resolved()
        if self.selection.follow_live and found.request is not None:
            self.selection.select_token(found.request.request, token.sample, found.position)
            self._shown_token = (found.request.request, self.selection.sample, found.position)
            self.selected()
        else:
            self.repaint()

    def action_move(self, by: int) -> None:
        """Move to another candidate; the panel stays on this token."""
        token = self.resolved().token
        if isinstance(token, Sampled) and token.candidates:
            self.cursor = min(max(0, self.cursor + by), len(token.candidates) - 1)
            self._hold(token)
            self.keep_visible(self._top + self.cursor)

    def action_token(self, by: int) -> None:
        """Go to a neighbouring token."""
        found = self.resolved()
        if found.request is None or found.position < 0:
            return
        number = found.sample.sample if found.sample else 0
        position = min(max(0, found.position + by), max(0, found.request.length(number) - 1))
        self.selection.select_token(found.request.request, number, position)
        self.selected()

    def action_fork(self) -> None:
        """Go on from here with the chosen candidate, in a new branch."""
        found = self.resolved()
        token = found.token
        if reason := self.state.lacks("fork"):
            self.notify(reason, markup=False, severity="warning")
            return
        if found.request is not None and isinstance(token, Sampled) and self.cursor < len(token.candidates):
            candidate = token.candidates[self.cursor]
            if not same_token(candidate, token):
                sample = found.sample.sample if found.sample else token.sample
                self.post_message(ForkRequested(found.request.request, sample, token.index, candidate.id))

    def action_temperature(self, by: float) -> None:
        """Ask what a colder or hotter draw would have been."""
        found = self.resolved()
        token = found.token
        if found.request is None or not isinstance(token, Sampled) or not token.candidates:
            return
        vocabulary = self.state.card.vocabulary if self.state.card else 0
        if token.told and (not vocabulary or any(candidate.id < 0 for candidate in token.candidates)):
            reason = "What another temperature would do can't be derived: the server does not tell its tokens' ids."
            self.notify(reason, markup=False, severity="warning")
            return
        now = found.request.settings.temperature if self.what_if is None else self.what_if
        self.what_if = min(max(0.0, round(now + by, 2)), HOTTEST)
        self._hold(token)

    def action_as_drawn(self) -> None:
        """Back to the distribution it was drawn from."""
        self.what_if = None
        self.repaint()
