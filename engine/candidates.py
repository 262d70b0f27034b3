"""The tokens that could have been drawn, with what each step of the sampler made of them."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import msgspec

from .protocol import Cut
from .sampler_filters import Filters, Order
from .survey import Look


class CandidateRow(msgspec.Struct, frozen=True, gc=False):
    """One candidate. `logit` and `logprob` are the model's own; every number is finite.

    `tempered` is its probability after the edits and temperature, `prob` after the filters: 0 where `cut` names the
    one that cut it.
    """

    id: int
    logit: float
    logprob: float | None
    tempered: float
    prob: float
    cut: Cut


@dataclasses.dataclass(slots=True)
class Drawing:
    """How a row's token was drawn; `order` and `filters` are None where it was greedy."""

    token: int
    logit: float  # raw
    place: int  # in the order
    temperature: float
    order: Order | None = None
    filters: Filters | None = None


class _Other(NamedTuple):
    """A candidate that is not among the leading ones."""

    id: int
    logit: float
    weight: float
    place: int | None
    banned: bool = False


def candidate_rows(
    drawing: Drawing, count: int, before: Look, after: Look, log_total: float
) -> tuple[CandidateRow, ...]:
    """The `count` leading tokens after the edits, in order; then others: the drawn one, if it is not among them.

    Where the edits moved tokens, the others also hold the `count` leading tokens before them, banned ones last.
    Tokens that the model gave minus infinity are left out. `log_total` is ln of the sum of exp(raw logit).
    """
    if not count:
        return ()
    ids = after.ids[:count].tolist()
    logits = (after.logits if before is after else after.partner)[:count].tolist()
    others = _displaced(drawing, count, before, after, set(ids)) if before is not after else []
    if drawing.token not in ids and all(other.id != drawing.token for other in others):
        others.append(_Other(drawing.token, drawing.logit, _weight(drawing, drawing.place), drawing.place))
    others.sort(key=lambda other: (other.banned, -other.weight, -other.logit, other.id))
    # By columns: a call for each candidate of each token would be most of what showing them costs.
    rows = tuple(map(CandidateRow, ids, logits, [logit - log_total for logit in logits], *_leading(drawing, ids)))
    return (*rows, *[_row(drawing, other, log_total) for other in others]) if others else rows


def _leading(drawing: Drawing, ids: list[int]) -> tuple[list[float], list[float], list[Cut]]:
    """What temperature and filters made of the leading tokens: `tempered`, `prob` and `cut` of each."""
    order, filters = drawing.order, drawing.filters
    if order is None or filters is None:
        shares = [float(token == drawing.token) for token in ids]
        greedy: list[Cut] = ["" if share else "greedy" for share in shares]
        return shares, shares, greedy
    weights, total, mass = order.weights[: len(ids)].tolist(), order.total, filters.mass
    kept = len(ids) if filters.kept is None else min(filters.kept, len(ids))
    probs = [weight / mass for weight in weights[:kept]] + [0.0] * (len(ids) - kept)
    passed: list[Cut] = [""]
    cuts = passed * kept + [filters.cut(place, weights[place]) for place in range(kept, len(ids))]
    return [weight / total for weight in weights], probs, cuts


def _weight(drawing: Drawing, place: int) -> float:
    return 0.0 if drawing.order is None else float(drawing.order.weights[place])


def _displaced(drawing: Drawing, count: int, before: Look, after: Look, known: set[int]) -> list[_Other]:
    """Those leading before the edits that `known` lacks."""
    others: list[_Other] = []
    ids, logits, edited = (values[:count].tolist() for values in (before.ids, before.logits, before.partner))
    for token, logit, value in zip(ids, logits, edited, strict=True):
        if token in known:
            continue
        if value == -math.inf:
            others.append(_Other(token, logit, 0.0, None, banned=True))
            continue
        place = drawing.order.find(token) if drawing.order else None
        if place is not None or drawing.order is None:
            weight = _weight(drawing, place or 0)
        else:
            weight = math.exp((value - after.top) / drawing.temperature)
        others.append(_Other(token, logit, weight, place))
    return others


def _row(drawing: Drawing, other: _Other, log_total: float) -> CandidateRow:
    token, logit, weight, place, banned = other
    logprob = logit - log_total
    if banned:
        return CandidateRow(token, logit, logprob, 0.0, 0.0, "banned")
    order, filters = drawing.order, drawing.filters
    if order is None or filters is None:
        share = float(token == drawing.token)
        return CandidateRow(token, logit, logprob, share, share, "" if share else "greedy")
    cut = filters.cut(place, weight)
    return CandidateRow(token, logit, logprob, weight / order.total, 0.0 if cut else weight / filters.mass, cut)
