"""Clocks, waiting times and rates, over all requests."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

import msgspec

from ...engine.protocol import Delivery
from .limits import Limits

SAME_HOST_NS = 1_000_000_000


def percentile(values: Iterable[float], percent: float) -> float:
    """Nearest-rank percentile: the smallest value that `percent` of all are not above. 0.0 for no values."""
    return _at(sorted(values), percent)


def _at(ordered: list[float], percent: float) -> float:
    if not ordered:
        return 0.0
    rank = math.ceil(percent / 100 * len(ordered))
    return ordered[min(len(ordered), max(1, rank)) - 1]


class Clock(msgspec.Struct):
    """Lines the engine's monotonic clock up with ours.

    On one host both are the same clock and `offset_ns` is 0. On another host (or in a replay) the offset is the
    smallest difference met so far: the fastest message is taken to have needed no time, so transport is `derived`.
    """

    offset_ns: int = 0
    derived: bool = False

    def welcome(self, clock_ns: int, received_ns: int) -> None:
        difference = received_ns - clock_ns
        self.derived = not 0 <= difference < SAME_HOST_NS
        self.offset_ns = difference if self.derived else 0

    def transport_ns(self, time_ns: int, received_ns: int) -> int:
        """Duration from the engine's time stamp to its arrival here, never negative."""
        difference = received_ns - time_ns - self.offset_ns
        if difference < 0:
            self.derived = True
            self.offset_ns += difference
            return 0
        return difference

    def here(self, time_ns: int) -> int:
        """An engine's time stamp on our clock; 0 stays 0 ("did not happen")."""
        return time_ns + self.offset_ns if time_ns else 0


class Shown(msgspec.Struct, frozen=True):
    """What waiting felt like: durations from submission to the first painted text and to the end."""

    request: str
    first_paint_ns: int  # 0: not painted yet
    completion_ns: int
    tokens: int


class Timings:
    """Bounded measurements over all requests. Durations in nanoseconds."""

    def __init__(self, limits: Limits) -> None:
        self.version = 0
        size = limits.measurements
        self.ttft_ns: deque[int] = deque(maxlen=size)  # submission to first token, in the engine
        self.itl_ns: deque[int] = deque(maxlen=size)  # between neighbouring tokens of a sample
        self.total_ns: deque[int] = deque(maxlen=size)  # submission to end
        self.queue_ns: deque[int] = deque(maxlen=size)
        self.prefill_ns: deque[int] = deque(maxlen=size)
        self.transport_ns: deque[int] = deque(maxlen=size)
        self.paint_ns: deque[int] = deque(maxlen=size)  # first text received to first text painted
        self.rates: deque[float] = deque(maxlen=size)  # tok/s of each finished sample
        self.shown: dict[Delivery, Shown] = {}  # the newest reply of each delivery
        self._recent: deque[int] = deque(maxlen=1024)  # time stamps of the newest tokens of all requests

    def token(self, time_ns: int, previous_ns: int) -> None:
        """Take a generated token and the time of its sample's one before (0: it is the first)."""
        if previous_ns:
            self.itl_ns.append(max(0, time_ns - previous_ns))
        self._recent.append(time_ns)
        self.version += 1

    def throughput(self, window_ns: int = 2_000_000_000) -> float:
        """Tokens a second of all requests together, over the newest `window_ns` that had tokens."""
        if len(self._recent) < 2:
            return 0.0
        newest = self._recent[-1]
        inside = [time for time in self._recent if newest - window_ns <= time <= newest]
        span = newest - min(inside)
        return (len(inside) - 1) * 1e9 / span if span > 0 else 0.0

    def p50_p95(self, values: Iterable[float]) -> tuple[float, float]:
        ordered = sorted(values)
        return _at(ordered, 50), _at(ordered, 95)
