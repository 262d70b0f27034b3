"""Which positions of which sequences an iteration computes, within its token budget. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Items

from .protocol import Phase
from .sequence import Sequence
from .shares import fair_shares, take_turns

Portion = tuple[Sequence, Phase, int, int]  # who, as what, from which position, how many


def with_reuse(running: Items[Sequence], padding: Items[Sequence], budget: int) -> list[Portion]:
    """A token for each that decodes; what is left of the budget, at least one position, to prompts in fair shares.

    Decodes come first, then padding, then prompts. Empty if there is nothing but padding to do.
    """
    decodes: list[Portion] = []
    prompts: list[Sequence] = []
    for sequence in running:
        left = len(sequence.tokens) - sequence.computed
        if left == 1 and sequence.computed >= sequence.prompt_length:
            decodes.append((sequence, "decode", sequence.computed, 1))
        elif left:
            prompts.append(sequence)
    if not decodes and not prompts:
        return []
    portions = decodes + _pads(padding)
    if prompts:
        shares = fair_shares([len(s.tokens) - s.computed for s in prompts], max(1, budget - len(portions)))
        portions.extend((s, "prefill", s.computed, n) for s, n in zip(prompts, shares, strict=True) if n)
    return portions


def whose_turn(running: Items[Sequence], turn: int, budget: int) -> list[Sequence]:
    """Those whose whole prefix is computed again in this iteration, the oldest first.

    Lanes take turns from lane `turn` on, as far as the budget goes; the first is served even if it exceeds it.
    """
    line = _line(running, turn)
    served = {line[i].lane for i in take_turns([len(s.tokens) for s in line], budget)}
    return [s for s in running if s.lane in served]


def next_turn(running: Items[Sequence], portions: Items[Portion], turn: int) -> int:
    """The lane to begin with in the next iteration: the first in line that was not served in this one."""
    served = {sequence.lane for sequence, *_ in portions}
    return next((s.lane for s in _line(running, turn) if s.lane not in served), 0)


def _line(running: Items[Sequence], turn: int) -> list[Sequence]:
    ready = [s for s in running if len(s.tokens) > s.computed]
    return sorted(ready, key=lambda s: (s.lane < turn, s.lane))


def without_reuse(
    served: Items[Sequence], fresh: Iterable[Sequence], padding: Items[Sequence], budget: int
) -> list[Portion]:
    """Whole prefixes of those `served`, and of `fresh` ones that fit into what is left."""
    chosen = list(served)
    left = budget - sum(len(s.tokens) for s in chosen)
    for sequence in fresh:
        if sequence not in chosen and (not chosen or len(sequence.tokens) <= left):
            chosen.append(sequence)
            left -= len(sequence.tokens)
    if not chosen:
        return []
    portions = _pads(padding)
    portions.extend((s, "recompute", 0, len(s.tokens)) for s in chosen)
    return portions


def _pads(padding: Items[Sequence]) -> list[Portion]:
    # A finished sequence's last token was never computed: its last position is the one before.
    return [(s, "padding", s.computed - 1, 1) for s in padding]
