"""Looking at rows of logits: the leading tokens and the mass of the whole, without sorting the vocabulary.

On a CPU each row is looked at by itself while it lies in the cache: numpy's selection there is some twenty times
faster than torch's, and no other row can touch the result. Elsewhere the rows are looked at together on the device
and everything is copied to the host once. Both give the same tokens in the same order.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from . import kernels

FLOOR = -87.0  # exp of it is the last normal float32: nothing a sum would notice, and no slow denormals
COLDEST, HOTTEST = 1e-30, 1e30  # temperatures beyond would leave float32's range
COLUMNS = 768
CHUNK = 32000  # below torch's 32768, at which it would wake its other threads for microseconds of work
NATIVE_LEAD = 32  # leading tokens up to which our own kernels find them faster than numpy
DOT = 8192  # below BLAS's 10000, for the same reason


class Mass(NamedTuple):
    """Of weights w = exp((logit - top) / temperature): their sum, and the sum of w * ln w."""

    total: float
    weighted: float

    @property
    def entropy(self) -> float:
        """Nats."""
        return max(0.0, math.log(self.total) - self.weighted / self.total)


@dataclasses.dataclass(slots=True)
class Ask:
    """What to find out about a row: this many leading tokens, and its mass at these temperatures.

    `partner` is another row whose logits of the same leading tokens are wanted; -1 for none.
    """

    lead: int
    temperatures: tuple[float, ...] = ()
    partner: int = -1


@dataclasses.dataclass(slots=True)
class Look:
    """What was found. `ids` [n] and `logits` [n] are the leading tokens, descending, equal ones by lower id.

    Tokens of minus infinity are left out; `complete` says that no other token is left. `top` is the largest logit,
    and not finite where the row is no good. `partner` [n] holds the other row's logits, empty if not asked for.
    """

    top: float
    ids: NDArray[np.int64]
    logits: NDArray[np.float32]
    complete: bool
    masses: dict[float, Mass]
    partner: NDArray[np.float32]


Wanted: TypeAlias = tuple[NDArray[np.float32], Look, float]  # a row, what is known of it, a temperature

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

    def __init__(self, vocabulary: int, library: kernels.Library | None = None) -> None:
        self._library = library
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
            if self._library is not None and 1 < max(ask.lead for ask in asks) <= NATIVE_LEAD:
                found = _lead_natively(self._library, rows, asks)
            else:
                found = [_lead(row, ask.lead) for row, ask in zip(rows, asks, strict=True)]
            looks = [self._look(rows, number, asks[number], *at) for number, at in enumerate(found)]
            wanted = [
                (row, look, temperature)
                for row, look, ask in zip(rows, looks, asks, strict=True)
                for temperature in ask.temperatures
                if math.isfinite(look.top)
            ]
            if not wanted:
                return looks
            masses = self._weigh(wanted) if self._library is None else _weigh_natively(self._library, wanted)
            for (_, look, temperature), mass in zip(wanted, masses, strict=True):
                look.masses[temperature] = mass
        return looks

    @staticmethod
    def _look(rows: Sequence[NDArray[np.float32]], number: int, ask: Ask, top: float, ids: NDArray[np.int64]) -> Look:
        if not math.isfinite(top):
            return Look(top, NO_IDS, NO_LOGITS, True, {}, NO_LOGITS)
        logits, count = rows[number], min(ask.lead, len(rows[number]))
        partner = rows[ask.partner][ids] if ask.partner >= 0 else NO_LOGITS
        return Look(top, ids, logits[ids], len(ids) < count or count == len(logits), {}, partner)

    def _weigh(self, wanted: Sequence[Wanted]) -> list[Mass]:
        return [self._mass(logits, look.top, temperature) for logits, look, temperature in wanted]

    def _mass(self, logits: NDArray[np.float32], top: float, temperature: float) -> Mass:
        np.subtract(logits, np.float32(top), out=self._scaled)
        factor = _factor(temperature)
        if factor != 1.0:
            np.multiply(self._scaled, np.float32(factor), out=self._scaled)
        deep = float(self._scaled.min()) < FLOOR
        for scaled, weights in self._chunks:
            if deep:
                scaled.clamp_(min=FLOOR)
            torch.exp(scaled, out=weights)
        total = float(np.vecdot(self._weight_blocks, self._ones).sum())
        weighted = float(np.vecdot(self._weight_blocks, self._scaled_blocks).sum())
        return Mass(total, weighted)


def _factor(temperature: float) -> float:
    return 1.0 / min(max(temperature, COLDEST), HOTTEST)


def _lead(logits: NDArray[np.float32], lead: int) -> tuple[float, NDArray[np.int64]]:
    """The largest of `logits` [V], and the ids of the `lead` largest; none where it is not finite."""
    count = min(lead, len(logits))
    if count == 1:
        ids = np.array([logits.argmax()])
        return float(logits[ids[0]]), ids
    maxima = _column_maxima(logits) if count < COLUMNS // 2 and len(logits) > 2 * COLUMNS else None
    top = float((logits if maxima is None else maxima).max())
    return top, _at_least(logits, _threshold(logits, count, maxima), count) if math.isfinite(top) else NO_IDS


def _lead_natively(
    library: kernels.Library, rows: Sequence[NDArray[np.float32]], asks: Sequence[Ask]
) -> list[tuple[float, NDArray[np.int64]]]:
    """The same by our own kernels, on several threads."""
    counts = [min(ask.lead, len(row)) for row, ask in zip(rows, asks, strict=True)]
    ids = np.empty((len(rows), max(counts)), dtype=np.int64)
    start, stride = ids.ctypes.data, ids.strides[0]
    tasks = (kernels.Lead * len(rows))(
        *((row.ctypes.data, len(row), start + n * stride, counts[n], 0, 0.0) for n, row in enumerate(rows))
    )
    library.lead(tasks, len(rows), torch.get_num_threads())
    return [(task.top, ids[n, : task.found]) for n, task in enumerate(tasks)]


def _weigh_natively(library: kernels.Library, wanted: Sequence[Wanted]) -> list[Mass]:
    """The same by our own kernels, on several threads: some ten times faster."""
    tasks = (kernels.Mass * len(wanted))(
        *((row.ctypes.data, len(row), look.top, _factor(temperature)) for row, look, temperature in wanted)
    )
    library.weigh(tasks, len(wanted), torch.get_num_threads())
    return [Mass(task.total, task.weighted) for task in tasks]
