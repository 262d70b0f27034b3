"""The rows of the Next token panel, as functions of the numbers they show."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...engine.distribution import Derived
from ...engine.protocol import Candidate, Cut, Sampled, SamplingSettings
from .glyphs import bar
from .line import Line, spread
from .token_text import quoted
from .units import percent

CUTS: dict[Cut, str] = {
    "": "",
    "banned": "not allowed",
    "min_p": "cut by min-p",
    "top_k": "cut by top-k",
    "top_p": "cut by top-p",
    "greedy": "greedy takes the top",
}
ALL_FACTS = 72  # cells that the facts of a token seldom need more of


class Columns:
    """Widths of the columns; what does not fit is left out from the right, the bar last."""

    def __init__(self, width: int) -> None:
        self.token = max(4, min(20, width // 4))
        self.now = 7 if width >= 16 else 0
        self.plain = 9 if width >= 36 else 0
        self.logit = 8 if width >= 48 else 0
        self.cut = 16 if width >= 64 else 0
        self.bar = max(0, width - 2 - self.token - 1 - self.now - self.plain - self.logit - self.cut - 1)


def at_one(candidate: Candidate) -> float:
    """Its probability at temperature 1, before everything."""
    return 0.0 if candidate.logprob is None else math.exp(min(0.0, candidate.logprob))


def between(derived: Derived) -> str:
    """A derived probability: one figure if the unseen tokens can't change it, else its bounds in whole percent."""
    if derived.high - derived.low < 0.002:
        return percent(derived.middle)
    return f"{math.floor(derived.low * 100)}–{math.ceil(derived.high * 100)}%"


def same_token(candidate: Candidate, token: Sampled) -> bool:
    """Whether a candidate is the token that was drawn; by its text where a server tells no ids."""
    if candidate.id >= 0 and token.id >= 0:
        return candidate.id == token.id
    return (candidate.piece, candidate.bytes) == (token.piece, token.bytes)


def told_sentence(token: Sampled) -> str:
    """What is known of a token that a server drew, and what is not."""
    shares = [at_one(candidate) for candidate in token.candidates]
    mass = sum(shares)
    spread = -sum(share / mass * math.log(share / mass) for share in shares if share > 0) if mass > 0 else 0.0
    return (
        f"Told by the server: log-probabilities of {len(shares)} tokens, {percent(min(1.0, mass))} of all; the entropy "
        f"of these alone is {spread:.2f} nats. Not told: logits, what its sampler cut, the draw."
    )


def header_line(width: int, what_if: float | None, told: bool = False) -> Line:
    columns = Columns(width)
    if told and what_if is None:
        line = Line().fit("", 2).fit("token", columns.token, "dim").add(" ").fit("", columns.bar)
        return line.fit("told", columns.now, "dim", right=True).fit("ln p", columns.plain, "dim", right=True)
    now = "now" if what_if is None else f"T={what_if:.2f}"
    line = Line().fit("", 2).fit("token", columns.token, "dim").add(" ").fit("", columns.bar)
    line.fit(now, columns.now, "dim", right=True).fit("T=1", columns.plain, "dim", right=True)
    return line.fit("logit", columns.logit, "dim", right=True)


def candidate_line(
    candidate: Candidate, drawn: bool, chosen: bool, width: int, derived: Derived | None, told: bool = False
) -> Line:
    """▸ the drawn one, ✂ what a filter cut: its bar shows what it had before the cut. `told`: by a server.

    With `derived`, what another temperature would have made of it: temperature alone, so nothing is cut.
    """
    columns = Columns(width)
    cut = bool(candidate.cut) and (derived is None or candidate.cut == "banned")
    style = "good strong" if drawn else "dim" if cut else ""
    if chosen:
        style += " cursor"
    line = Line("▸ " if drawn else "✂ " if cut else "  ", style)
    line.fit(quoted(candidate.piece, candidate.bytes), columns.token, style).add(" ")
    share = derived.middle if derived else candidate.tempered if cut else candidate.prob
    shown = bar(share, columns.bar)
    if cut and not columns.cut and columns.bar >= 9:
        cutter = candidate.cut.replace("_", "-")  # behind the bar, where there is no room for a column
        shown = f"{shown.rstrip()[: columns.bar - len(cutter) - 1]} {cutter}"
    line.fit(shown, columns.bar, "dim" if cut else "user")
    now = percent(candidate.prob) if derived is None else between(derived)
    line.fit(now, columns.now, style, right=True)
    if told and derived is None:
        log = "" if candidate.logprob is None else f"{candidate.logprob:.3f}"
        return line.fit(log, columns.plain, "dim", right=True)
    line.fit(percent(at_one(candidate)), columns.plain, "dim", right=True)
    if told:
        return line
    line.fit(f"{candidate.logit:.2f}", columns.logit, "dim", right=True)
    if columns.cut:
        line.add("  ").fit(CUTS[candidate.cut] if cut else "", columns.cut - 2, "warn")
    return line


def facts_lines(token: Sampled, position: int, width: int, roomy: bool) -> list[Line]:
    """What was drawn, from how much uncertainty, and with which random number.

    One row, or two of a narrow panel that is `roomy`: as many for every token, or the rows below would jump.
    """
    rows = 2 if roomy and width < ALL_FACTS else 1
    parts = [f"#{position} {quoted(token.piece, token.bytes, 16)}"]
    if token.told:
        parts += [] if token.logprob is None else [f"ln p {token.logprob:.3f} told"]
        return spread([*parts, *([f"rank {token.rank}"] if token.rank else [])], width, rows, fill=True)
    parts.append(f"H {token.entropy:.2f} nats" + ("" if token.forced else f" ▸ {token.entropy_after:.2f} drawn from"))
    if token.rank:
        parts.append(f"rank {token.rank}")
    if token.draw is not None:
        parts.append(f"draw {token.draw:.3f}")
    else:
        parts.append("forced" if token.forced else "greedy")
    return spread(parts, width, rows, fill=True)


def cumulative_line(candidates: Sequence[Candidate], draw: float, width: int) -> Line:
    """The probabilities end to end, from 0 to 1; ▼ is where the random number fell. The rest is unnamed tokens."""
    line = Line("draw ", "dim")
    cells = max(1, width - line.width)
    glyphs = ["·"] * cells
    below = 0.0
    for at, candidate in enumerate(candidate for candidate in candidates if candidate.prob > 0):
        first, below = round(below * cells), below + candidate.prob
        for cell in range(first, min(cells, round(below * cells))):
            glyphs[cell] = "▒" if at % 2 else "▓"
    glyphs[min(cells - 1, max(0, int(draw * cells)))] = "▼"
    return line.add("".join(glyphs))


def filter_line(settings: SamplingSettings, what_if: float | None, width: int = 1_000) -> Line:
    """The order in which the settings work; what is off is dim, and left out where there is no room for all."""
    temperature = settings.temperature if what_if is None else what_if
    penalties = settings.repetition_penalty != 1 or settings.presence_penalty or settings.frequency_penalty
    biased = settings.logit_bias or settings.allowed_ids is not None or settings.min_tokens
    steps = [
        ("bias", bool(biased)),
        ("penalties", bool(penalties)),
        ("greedy" if temperature == 0 else f"T {temperature:.2f}", temperature != 1),
        (f"min-p {settings.min_p:g}" if settings.min_p else "min-p", settings.min_p > 0 and temperature != 0),
        (f"top-k {settings.top_k}" if settings.top_k else "top-k", settings.top_k > 0 and temperature != 0),
        (f"top-p {settings.top_p:g}" if settings.top_p < 1 else "top-p", settings.top_p < 1 and temperature != 0),
        ("draw" if settings.seed is None else f"draw, seed {settings.seed}", temperature != 0),
    ]
    line = _chain(steps)
    return line if line.width <= width else _chain([step for step in steps if step[1]])


def _chain(steps: list[tuple[str, bool]]) -> Line:
    line = Line()
    for name, on in steps:
        if line.parts:
            line.add(" ▸ ", "dim")
        line.add(name if on else f"({name})", "strong" if on else "dim")
    return line
