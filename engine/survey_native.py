"""Looking at rows of logits by our own kernels: one call a step, whatever is to be found out about them.

Between two steps all of the weights pass through the processor's caches, so every line of Python costs several times
what it seems to; this writes only what differs from the step before.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from . import kernels
from .survey import LEADING, NO_IDS, NO_LOGITS, Ask, Look, Mass, factor

MOST_MASSES = 4
_TASK = struct.Struct("@6Pdqiiiif4f8d")  # `struct Look` of kernels_survey.h
_ROWS = struct.Struct("@2P")  # how it begins: the row and its partner
_FOUND_AT = struct.calcsize("@6Pdqi")
_FOUND = struct.Struct("=i8xf20x8d")  # what is answered, from there on


class NativeSurvey:
    """Looks at rows in host memory, each by itself. Twin of `HostSurvey`. Not for use by several threads at once."""

    def __init__(self, library: kernels.Library) -> None:
        self._library = library
        self._make_room(1)

    def _make_room(self, rows: int) -> None:
        self._ids = np.empty((rows, LEADING), dtype=np.int64)
        self._logits = np.empty((rows, 2, LEADING), dtype=np.float32)
        self._weighed = np.empty((rows, 3, LEADING))
        self._tasks = (ctypes.c_double * (rows * _TASK.size // 8))()  # aligned as the struct is
        self._told: list[tuple[Ask, int] | None] = [None] * rows  # what each task says, but for its addresses

    def look(self, tables: Sequence[Tensor], asks: Sequence[Ask]) -> list[Look]:
        """One look a row of `tables` (float32 [R, V] each, numbered through), as `asks` wants it.

        At most `LEADING` tokens and `MOST_MASSES` temperatures each.
        """
        if len(asks) > len(self._told):
            self._make_room(len(asks))
        vocabulary = tables[0].shape[1]
        tables = [table if table.is_contiguous() else table.contiguous() for table in tables]
        rows = [table.data_ptr() + 4 * vocabulary * n for table in tables for n in range(len(table))]
        for number, ask in enumerate(asks):
            told = self._told[number]
            if told is None or told[0] is not ask or told[1] != vocabulary:
                self._tell(number, ask, vocabulary)
            partner = rows[ask.partner] if ask.partner >= 0 else 0
            _ROWS.pack_into(self._tasks, number * _TASK.size, rows[number], partner)
        self._library.look(self._tasks, len(asks), torch.get_num_threads() if len(asks) > 1 else 1)
        return [self._found(number, ask, vocabulary) for number, ask in enumerate(asks)]

    def _tell(self, number: int, ask: Ask, vocabulary: int) -> None:
        logits, partners = self._logits[number]
        places = (self._ids[number].ctypes.data, logits.ctypes.data, partners.ctypes.data)
        factors = [*map(factor, ask.temperatures), *(0.0,) * (MOST_MASSES - len(ask.temperatures))]
        count, masses, room = min(ask.lead, vocabulary), len(ask.temperatures), LEADING
        weighed = self._weighed[number].ctypes.data
        numbers = (ask.drawn_at, vocabulary, count, 0, masses, room, 0.0, *factors, *(0.0,) * 2 * MOST_MASSES)
        _TASK.pack_into(self._tasks, number * _TASK.size, 0, 0, *places, weighed, *numbers)
        self._told[number] = (ask, vocabulary)

    def _found(self, number: int, ask: Ask, vocabulary: int) -> Look:
        found, top, *sums = _FOUND.unpack_from(self._tasks, number * _TASK.size + _FOUND_AT)
        if not math.isfinite(top):
            return Look(top, NO_IDS, NO_LOGITS, True, {}, NO_LOGITS)
        count, logits = min(ask.lead, vocabulary), self._logits[number, :, :found].copy()
        masses = {t: Mass(sums[n], sums[n + MOST_MASSES]) for n, t in enumerate(ask.temperatures)}
        ids = self._ids[number, :found].copy()
        partner = logits[1] if ask.partner >= 0 else NO_LOGITS
        weighed = self._weighed[number, :, :found].copy() if ask.drawn_at else None
        return Look(top, ids, logits[0], found < count or count == vocabulary, masses, partner, weighed)
