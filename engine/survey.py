"""Looking at rows of logits: the leading tokens and the mass of the whole, without sorting the vocabulary.

On a CPU each row is looked at by itself while it lies in the cache, so that no other row can touch the result: by our
own kernels where they are at hand (`survey_native.py`), else here, where numpy's selection is some twenty times faster
than torch's. Elsewhere the rows are looked at together on the device and everything is copied to the host once
(`survey_device.py`). All give the same tokens in the same order.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

LEADING = 128  # tokens looked at first when drawing; a row whose mass reaches further looks further
FLOOR = -87.0  # exp of it is the last normal float32: nothing a sum would notice, and no slow denormals
COLDEST, HOTTEST = 1e-30, 1e30  # temperatures beyond would leave float32's range
COLUMNS = 768
CHUNK = 32000  # below torch's 32768, at which it would wake its other threads for microseconds of work
DOT = 8192  # below BLAS's 10000, for the same reason


class Mass(NamedTuple):
    """Of weights w = exp((logit - top) / temperature): their sum, and the sum of w * ln w."""

    total: float
    weighted: float

    @property
    def entropy(self) -> float:
        """Nats."""
        return max(0.0, math.log(self.total) - self.weighted / self.total)


@dataclasses.dataclass(frozen=True, slots=True)
class Ask:
    """What to find out about a row: this many leading tokens, and its mass at these temperatures.

    `partner` is another row whose logits of the same leading tokens are wanted; -1 for none. `drawn_at` is the
    temperature that one of the leading tokens will be drawn at; 0 for none.
    """

    lead: int
    temperatures: tuple[float, ...] = ()
    partner: int = -1
    drawn_at: float = 0.0


@dataclasses.dataclass(slots=True)
class Look:
    """What was found. `ids` [n] and `logits` [n] are the leading tokens, descending, equal ones by lower id.

    Tokens of minus infinity are left out; `complete` says that no other token is left. `top` is the largest logit,
    and not finite where the row is no good. `partner` [n] holds the other row's logits, empty if not asked for.
    `weighed` [3, n] float64 is what `Order` makes of them at `drawn_at`, where it was made along with the rest.
    """

    top: float
    ids: NDArray[np.int64]
    logits: NDArray[np.float32]
    complete: bool
    masses: dict[float, Mass]
    partner: NDArray[np.float32]
    weighed: NDArray[np.float64] | None = None


NO_IDS = np.empty(0, dtype=np.int64)
NO_LOGITS = np.empty(0, dtype=np.float32)


def leading(logits: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Ids of the `count` largest of `logits` [V], descending, equal ones by lower id; minus infinity left out."""
    return _at_least(logits, _threshold(logits, count), count)


def _column_maxima(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Largest of each of COLUMNS interleaved parts of `logits` [V]."""
    whole = len(logits) // COLUMNS * COLUMNS
    maxima = np.maximum.reduce(logits[:whole].reshape(-1, COLUMNS))
    rest = logits[whole:]
    np.maximum(maxima[: len(rest)], rest, out=maxima[: len(rest)])
    return maxima


def _threshold(logits: NDArray[np.float32], count: int, maxima: NDArray[np.float32] | None = None) -> float:
    """A logit that at least `count` tokens reach, and few more."""
    among = logits if maxima is None else maxima
    if count >= len(among):
        return -math.inf
    return float(np.partition(among, len(among) - count)[len(among) - count])


def _at_least(logits: NDArray[np.float32], threshold: float, count: int) -> NDArray[np.int64]:
    if threshold == -math.inf:
        picked = np.flatnonzero(logits > threshold)
    else:
        picked = np.flatnonzero(logits >= threshold)
        if len(picked) > 4 * count + 1024:  # many equal logits: only the first of them can be among the leading
            above = np.flatnonzero(logits > threshold)
            ties = np.flatnonzero(logits == threshold)[: max(count - len(above), 0)]
            picked = np.concatenate([above, ties])
    bits = (logits[picked] + np.float32(0.0)).view(np.int32)  # adding 0 makes 0.0 of -0.0
    ascending = np.where(bits < 0, bits ^ 0x7FFFFFFF, bits).astype(np.int64)  # orders as the floats do
    keys = (~ascending << 32) | picked
    keys.sort()
    return keys[:count] & 0xFFFFFFFF


class HostSurvey:
    """Looks at rows in host memory, one after the other."""

    def __init__(self, vocabulary: int) -> None:
        padded = -(-vocabulary // DOT) * DOT
        chunk = -(-vocabulary // -(-vocabulary // CHUNK))
        scaled, weights = torch.zeros(padded), torch.zeros(padded)  # what lies past the vocabulary stays 0
        self._chunks = list(zip(scaled[:vocabulary].split(chunk), weights[:vocabulary].split(chunk), strict=True))
        self._scaled = scaled.numpy()[:vocabulary]
        self._scaled_blocks = scaled.numpy().reshape(-1, DOT)
        self._weight_blocks = weights.numpy().reshape(-1, DOT)
        self._ones = np.ones(DOT, dtype=np.float32)

    def look(self, tables: Sequence[Tensor], asks: Sequence[Ask]) -> list[Look]:
        """One look a row of `tables` (float32 [R, V] each, numbered through), as `asks` wants it."""
        rows: list[NDArray[np.float32]] = [row for table in tables for row in table.numpy()]
        with np.errstate(over="ignore"):
            return [self._look(rows, number, ask) for number, ask in enumerate(asks)]

    def _look(self, rows: Sequence[NDArray[np.float32]], number: int, ask: Ask) -> Look:
        logits, count = rows[number], min(ask.lead, len(rows[number]))
        top, ids = _lead(logits, count)
        if not math.isfinite(top):
            return Look(top, NO_IDS, NO_LOGITS, True, {}, NO_LOGITS)
        masses = {temperature: self._mass(logits, top, temperature) for temperature in ask.temperatures}
        partner = rows[ask.partner][ids] if ask.partner >= 0 else NO_LOGITS
        return Look(top, ids, logits[ids], len(ids) < count or count == len(logits), masses, partner)

    def _mass(self, logits: NDArray[np.float32], top: float, temperature: float) -> Mass:
        np.subtract(logits, np.float32(top), out=self._scaled)
        scale = factor(temperature)
        if scale != 1.0:
            np.multiply(self._scaled, np.float32(scale), out=self._scaled)
        deep = float(self._scaled.min()) < FLOOR
        for scaled, weights in self._chunks:
            if deep:
                scaled.clamp_(min=FLOOR)
            torch.exp(scaled, out=weights)
        total = float(np.vecdot(self._weight_blocks, self._ones).sum())
        weighted = float(np.vecdot(self._weight_blocks, self._scaled_blocks).sum())
        return Mass(total, weighted)


def factor(temperature: float) -> float:
    """What logits are multiplied by, within the range of float32."""
    return 1.0 / min(max(temperature, COLDEST), HOTTEST)


def _lead(logits: NDArray[np.float32], count: int) -> tuple[float, NDArray[np.int64]]:
    """The largest of `logits` [V], and the ids of the `count` largest; none where it is not finite."""
    if count == 1:
        ids = np.array([logits.argmax()])
        return float(logits[ids[0]]), ids
    maxima = _column_maxima(logits) if count < COLUMNS // 2 and len(logits) > 2 * COLUMNS else None
    top = float((logits if maxima is None else maxima).max())
    return top, _at_least(logits, _threshold(logits, count, maxima), count) if math.isfinite(top) else NO_IDS
