"""What another temperature would have made of a token: derived from its candidates, never measured. No torch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from .protocol import Candidate

DOUBT = 2e-6  # log-probabilities come from a float32 sum: so much of the tail's mass is not known


class Derived(msgspec.Struct, frozen=True):
    """A probability that lies from `low` to `high`: the tail's tokens are known by their total alone."""

    id: int
    low: float
    high: float

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2


def at_temperature(
    candidates: Sequence[Candidate], temperature: float, vocabulary: int, leading: int | None = None
) -> tuple[Derived, ...]:
    """Probabilities of `candidates`, in their order, at `temperature` (0: greedy), before any filter.

    From the model's own log-probabilities: bans count, bias and penalties do not. `vocabulary` is the number of
    tokens. `leading` says how many of the candidates are the most probable tokens (the setting `candidates`); None:
    all of them. Every tail token is at most as probable as the last of these, and together they have what the
    candidates leave; between an even spread and as few tokens as possible lie the bounds.
    """
    ours = [c for c in candidates if c.logprob is not None]
    logs = {c.id: c.logprob for c in ours if c.logprob is not None and c.cut != "banned"}
    if not logs:
        return tuple(Derived(c.id, 0.0, 0.0) for c in candidates)
    top = max(logs.values())
    if temperature <= 0.0:
        first = min(token for token, log in logs.items() if log == top)
        return tuple(Derived(c.id, share := float(c.id == first), share) for c in candidates)
    power = 1.0 / temperature
    weights = {token: math.exp((log - top) * power) for token, log in logs.items()}
    total = sum(weights.values())
    every = sorted((c.logprob for c in ours if c.logprob is not None), reverse=True)
    cap = every[min(leading or len(every), len(every)) - 1] - top
    least, most = _tail(1.0 - sum(map(math.exp, every)), top, cap, vocabulary - len(candidates), power)
    return tuple(
        Derived(c.id, weights.get(c.id, 0.0) / (total + most), weights.get(c.id, 0.0) / (total + least))
        for c in candidates
    )


def _tail(mass: float, top: float, cap: float, tokens: int, power: float) -> tuple[float, float]:
    """Bounds of the sum of (p / exp(top)) ** power over `tokens` tokens of total probability `mass`.

    No p is above exp(top + cap). For power above 1 the function is convex: an even spread is the least and
    p <= cap gives the most; below 1 it is the other way round.
    """
    if tokens <= 0:
        return 0.0, 0.0

    def even(part: float) -> float:
        return tokens * (part / tokens) ** power

    def narrow(part: float) -> float:
        return part * math.exp(min(cap * (power - 1.0), 700.0))

    room = tokens * math.exp(cap)
    low, high = (min(max(mass + doubt, 0.0) * math.exp(min(-top, 700.0)), room) for doubt in (-DOUBT, DOUBT))
    if power >= 1.0:
        return even(low), narrow(high)
    return narrow(low), even(high)
