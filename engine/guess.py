"""Which tokens a device says will be drawn, so that the next step can start from them before the host has drawn.

The host draws again, from the same logits and the same random numbers, and has the last word (`sampler_filters.py`):
a guess that misses costs the work that was started from it and changes no reply. It misses where a draw needs more
than the leading tokens, or where a sum in another order falls on the other side of a border.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from .sampler_filters import SMALLEST
from .transfers import to_device


@dataclasses.dataclass(frozen=True, slots=True)
class Wish:
    """How the token of one row will be drawn: the row, the settings, the uniform number in [0, 1).

    `column` is the row's mass at this temperature among `totals`; not looked at where min-p or top-k bound the row.
    """

    row: int
    temperature: float = 0.0
    min_p: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    number: float = 0.0
    column: int = 0


def guess(ids: Tensor, logits: Tensor, totals: Tensor, wishes: Sequence[Wish]) -> Tensor:
    """A token for each wish, [W] like `ids`; never waits for the device.

    `ids` [R, K] and `logits` [R, K] are the leading tokens in descending order, `totals` [R, D] the masses of whole
    rows. Min-p, top-k, top-p and the draw in the order of `Filters`.
    """
    rows = to_device([wish.row for wish in wishes], torch.int64, ids.device)  # [W]
    ids = ids[rows]  # [W, K]
    if all(wish.temperature == 0.0 for wish in wishes):
        return ids[:, 0]
    told = to_device(
        [
            (w.temperature or 1.0, w.min_p, w.top_k or torch.inf, w.top_p, w.number, w.temperature > 0.0, w.column)
            for w in wishes
        ],
        torch.float64,
        ids.device,
    )
    temperature, min_p, top_k, top_p, number, random, column = told.split(1, dim=1)  # [W, 1] each
    leading = logits[rows].double()  # [W, K]
    weights = ((leading - leading[:, :1]) / temperature).clamp_min(SMALLEST).exp()
    sums = weights.cumsum(1)
    places = torch.arange(ids.shape[1], device=ids.device)

    kept = _at_least_one(((weights >= min_p) & (places < top_k)).sum(1, keepdim=True))
    cut = (min_p > 0.0) | torch.isfinite(top_k)
    whole = totals[rows].double().gather(1, column.long()) if totals.shape[1] else sums[:, -1:]
    mass = torch.where(cut, sums.gather(1, kept - 1), whole)
    reached = _at_least_one((sums < top_p * mass).sum(1, keepdim=True) + 1).clamp_max(ids.shape[1])
    kept = torch.where(top_p < 1.0, torch.minimum(kept, reached), kept)
    mass = torch.where(cut | (top_p < 1.0), sums.gather(1, kept - 1), mass)
    drawn = torch.minimum((sums <= number * mass).sum(1, keepdim=True), kept - 1)
    return ids.gather(1, torch.where(random > 0.0, drawn, 0))[:, 0]


def _at_least_one(count: Tensor) -> Tensor:
    # Rows of NaN keep nothing; they are refused by the host and must not make the device stop before.
    return count.clamp_min(1)


def resolve(ids: Tensor, guesses: Tensor) -> Tensor:
    """`ids` [T] of a plan made ahead: where one is `~row`, the guess of that row of the step before."""
    return torch.where(ids < 0, guesses[(~ids).clamp_min(0).long()].to(ids.dtype), ids)
