"""The tokens that could have been drawn, with what each step of the sampler made of them."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import msgspec

from .protocol import Cut
from .sampler_filters import Filters, Order
from .survey import Look


class CandidateRow(msgspec.Struct, frozen=True):
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


class _Entry(NamedTuple):
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
    entries = _leading(drawing, count, before, after)
    others = _displaced(drawing, count, before, after, {entry.id for entry in entries}) if before is not after else []
    if all(entry.id != drawing.token for entry in (*entries, *others)):
        others.append(_Entry(drawing.token, drawing.logit, _weight(drawing, drawing.place), drawing.place))
    others.sort(key=lambda entry: (entry.banned, -entry.weight, -entry.logit, entry.id))
    mass = drawing.filters.mass if drawing.filters is not None else 1.0
    return tuple([_row(drawing, entry, log_total, mass) for entry in (*entries, *others)])


def _weight(drawing: Drawing, place: int) -> float:
    return 0.0 if drawing.order is None else float(drawing.order.weights[place])


def _leading(drawing: Drawing, count: int, before: Look, after: Look) -> list[_Entry]:
    ids = after.ids[:count].tolist()
    logits = (after.logits if before is after else after.partner)[:count].tolist()
    weights = [0.0] * len(ids) if drawing.order is None else drawing.order.weights[:count].tolist()
    return list(map(_Entry, ids, logits, weights, range(len(ids))))


def _displaced(drawing: Drawing, count: int, before: Look, after: Look, known: set[int]) -> list[_Entry]:
    """Those leading before the edits that `known` lacks."""
    entries: list[_Entry] = []
    ids, logits, edited = (values[:count].tolist() for values in (before.ids, before.logits, before.partner))
    for token, logit, value in zip(ids, logits, edited, strict=True):
        if token in known:
            continue
        if value == -math.inf:
            entries.append(_Entry(token, logit, 0.0, None, banned=True))
            continue
        place = drawing.order.find(token) if drawing.order else None
        if place is not None or drawing.order is None:
            weight = _weight(drawing, place or 0)
        else:
            weight = math.exp((value - after.top) / drawing.temperature)
        entries.append(_Entry(token, logit, weight, place))
    return entries


def _row(drawing: Drawing, entry: _Entry, log_total: float, mass: float) -> CandidateRow:
    token, logit, weight, place, banned = entry
    logprob = logit - log_total
    if banned:
        return CandidateRow(token, logit, logprob, 0.0, 0.0, "banned")
    order, filters = drawing.order, drawing.filters
    if order is None or filters is None:
        chosen = token == drawing.token
        share = 1.0 if chosen else 0.0
        return CandidateRow(token, logit, logprob, share, share, "" if chosen else "greedy")
    cut = "" if filters.kept is None else filters.cut(place, weight)
    return CandidateRow(token, logit, logprob, weight / order.total, 0.0 if cut else weight / mass, cut)
