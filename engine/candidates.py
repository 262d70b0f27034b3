"""The tokens that could have been drawn, with what each step of the sampler made of them."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple, Protocol

from .protocol import Candidate, Cut
from .sampler_filters import Filters, Order
from .survey import Look


class Spelling(Protocol):
    """How tokens are shown: the tokenizer."""

    def piece(self, token: int, /) -> str: ...
    def token_bytes(self, token: int, /) -> bytes: ...


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


def candidates(
    drawing: Drawing, count: int, before: Look, after: Look, log_total: float, spelling: Spelling
) -> tuple[Candidate, ...]:
    """The `count` leading tokens after the edits, in order; then others: the drawn one, if it is not among them.

    Where the edits moved tokens, the others also hold the `count` leading tokens before them, banned ones last.
    Tokens that the model gave minus infinity are left out. `log_total` is ln of the sum of exp(raw logit). 0 is the
    probability after the filters where `cut` names the one that cut it; every number is finite.
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
    spelled = [spelling.piece(token) for token in ids], [spelling.token_bytes(token) for token in ids]
    logprobs = [logit - log_total for logit in logits]
    told = tuple(map(Candidate, ids, *spelled, logits, logprobs, *_leading(drawing, ids)))
    return (*told, *[_tell(drawing, other, log_total, spelling) for other in others]) if others else told


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


def _tell(drawing: Drawing, other: _Other, log_total: float, spelling: Spelling) -> Candidate:
    token, logit, weight, place, banned = other
    model = token, spelling.piece(token), spelling.token_bytes(token), logit, logit - log_total
    if banned:
        return Candidate(*model, 0.0, 0.0, "banned")
    order, filters = drawing.order, drawing.filters
    if order is None or filters is None:
        share = float(token == drawing.token)
        return Candidate(*model, share, share, "" if share else "greedy")
    cut = filters.cut(place, weight)
    return Candidate(*model, weight / order.total, 0.0 if cut else weight / filters.mass, cut)
