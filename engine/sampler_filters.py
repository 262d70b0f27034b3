"""Min-p, top-k, top-p and the draw, over the tokens of one row in descending order. No torch.

In that order every filter keeps a leading part, so that a filter is a length and the draw a walk from the most
probable token down: the uniform number on the screen points into the same list that the panel shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from .protocol import Cut, SamplingSettings
from .survey import Look, leading

DEEPER = 4096  # tokens looked at when the leading ones do not reach; after that, all
SMALLEST = -740.0  # exp of it is the last float64 above zero


class Order:
    """The tokens of one row in descending order, equal ones by lower id, as far down as was needed so far.

    `ids` [n], their exponents (logit - top) / temperature [n], weights exp(exponent) [n] and running sums [n] are
    float64. `total` is the sum over the whole row: from a float32 pass, and exact once the order is `complete`.
    """

    def __init__(self, look: Look, temperature: float, total: float, fetch: Callable[[], NDArray[np.float32]]) -> None:
        self._top = look.top
        self._temperature = temperature
        self._fetch = fetch
        self.complete = look.complete
        self.total = total
        self._take(look.ids, self._weigh(look.logits) if look.weighed is None else look.weighed)

    def _weigh(self, logits: NDArray[np.float32]) -> tuple[NDArray[np.float64], ...]:
        with np.errstate(over="ignore"):
            exponents = (logits.astype(np.float64) - self._top) / self._temperature
        exponents = np.maximum(exponents, SMALLEST)
        weights = np.exp(exponents)
        return exponents, weights, weights.cumsum()

    def _take(self, ids: NDArray[np.int64], weighed: Iterable[NDArray[np.float64]]) -> None:
        self.ids = ids
        self.exponents, self.weights, self.sums = weighed
        if self.complete:
            self.total = float(self.sums[-1])

    @property
    def known(self) -> int:
        return len(self.ids)

    def grow(self) -> None:
        """Look further down: at the next few thousand tokens, then at all."""
        logits = self._fetch()
        count = DEEPER if self.known < DEEPER < len(logits) else len(logits)
        ids = leading(logits, count)
        self.complete = len(ids) < count or count == len(logits)
        self._take(ids, self._weigh(logits[ids]))

    def find(self, token: int) -> int | None:
        """Place of `token` from 0, or None where it is not among the known."""
        places = np.flatnonzero(self.ids == token)
        return int(places[0]) if len(places) else None


class Filters:
    """Min-p, then top-k, then top-p on one row: how many leading tokens stay, and their mass.

    min-p keeps tokens at least `min_p` times as probable as the first (arXiv:2407.01082); top-k the first `top_k`,
    exactly; top-p the fewest that reach `top_p` of what the two before left (arXiv:1904.09751), at least one.
    `kept` is None where nothing is cut.
    """

    def __init__(self, order: Order, settings: SamplingSettings) -> None:
        self._settings = settings
        self._order = order
        kept = self._after_min_p(settings.top_k or None)
        if settings.top_k and (kept is None or kept > settings.top_k):
            kept = settings.top_k
            while order.known < kept and not order.complete:
                order.grow()
            kept = min(kept, order.known)
        if settings.top_p < 1.0:
            kept = self._after_top_p(kept)
        self.kept = kept

    def _after_min_p(self, enough: int | None) -> int | None:
        """Tokens that min-p keeps; no need to look beyond `enough`."""
        order, least = self._order, self._settings.min_p
        if least <= 0.0:
            return None
        while order.weights[-1] >= least and not order.complete and (enough is None or order.known < enough):
            order.grow()
        return int(np.count_nonzero(order.weights >= least))

    def _after_top_p(self, kept: int | None) -> int:
        order = self._order
        while True:
            limit = self._settings.top_p * self.mass_of(kept)
            if order.sums[-1] >= limit or order.complete or (kept is not None and kept <= order.known):
                break
            order.grow()
        fewest = int(order.sums.searchsorted(limit, side="left")) + 1
        return min(fewest, order.known if kept is None else kept)

    def mass_of(self, kept: int | None) -> float:
        return self._order.total if kept is None else float(self._order.sums[kept - 1])

    @property
    def mass(self) -> float:
        """Sum of the weights that stay."""
        return self.mass_of(self.kept)

    def entropy(self) -> float | None:
        """Nats, of what stays; None where nothing is cut and the whole row's is meant."""
        if self.kept is None and not self._order.complete:
            return None
        kept = self.kept or self._order.known
        weights, exponents = self._order.weights[:kept], self._order.exponents[:kept]
        mass = float(self._order.sums[kept - 1])
        return max(0.0, math.log(mass) - float((weights * exponents).sum()) / mass)

    def cut(self, place: int | None, weight: float) -> Cut:
        """Which filter cut the token at `place` (None: below all that were looked at) with this weight."""
        settings = self._settings
        if self.kept is None or (place is not None and place < self.kept):
            return ""
        if weight < settings.min_p:
            return "min_p"
        if settings.top_k and (place is None or place >= settings.top_k):
            return "top_k"
        return "top_p"

    def draw(self, number: float) -> int:
        """Place of the token that `number` in [0, 1) falls on: the first whose running sum exceeds its share."""
        order = self._order
        while number * self.mass >= order.sums[-1] and self.kept is None and not order.complete:
            order.grow()
        end = order.sums[(self.kept or order.known) - 1]
        place = int(order.sums.searchsorted(number * self.mass, side="right"))
        return min(place, int(order.sums.searchsorted(end, side="left")))  # number * mass may round up to the end
