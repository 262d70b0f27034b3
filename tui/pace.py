"""How often to paint: as often as is pleasant, as long as the processor is left to the engine.

On two cores that both compute, every bit of time that painting takes is taken from the reply being painted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

FRAME = 1 / 15  # seconds between paints at least
SLOWEST = 0.3  # and at most
SOON = 0.02  # after a pause, so that what comes together is painted together
GATHER = 0.05  # the same for what an engine tells: a short prompt and the first text after it make one paint
SHARE = 0.02  # of all cores together, for this whole process


class Pace:
    """Tells how long to wait before the next paint. Clocks in seconds; `cores` 0 means this machine's."""

    def __init__(
        self,
        used: Callable[[], float] = time.process_time,
        now: Callable[[], float] = time.monotonic,
        cores: int = 0,
    ) -> None:
        self._used, self._now = used, now
        self._budget = SHARE * (cores or os.cpu_count() or 1)  # processor seconds a second
        self._last = used(), now()
        self._pause = FRAME

    def pause(self) -> float:
        """Seconds until the next paint: as long as the time used since the last one takes to earn."""
        used, now = self._used(), self._now()
        spent, passed = used - self._last[0], now - self._last[1]
        self._last = used, now
        self._pause = min(SLOWEST, max(FRAME, spent / self._budget - max(0.0, passed - SLOWEST)))
        return self._pause

    def hurry(self) -> None:
        """What comes now is waited for: the pause is over."""
        self._pause = 0.0

    def left(self, soon: float = SOON) -> float:
        """Seconds of that pause that are not over yet: what comes after a while of nothing is shown `soon`."""
        return max(soon, self._last[1] + self._pause - self._now())
