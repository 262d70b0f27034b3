"""A server's totals over the last minutes, as often as they were asked for."""

from __future__ import annotations

from collections import deque

from ...engine.protocol import Metrics

KEPT = 240  # readings


class ServerLoad:
    """Readings of a server's metrics, oldest first. `version` grows with each."""

    def __init__(self) -> None:
        self.version = 0
        self.readings: deque[tuple[int, Metrics]] = deque(maxlen=KEPT)  # our clock, totals

    def add(self, metrics: Metrics, now_ns: int) -> None:
        self.readings.append((now_ns, metrics))
        self.version += 1

    @property
    def newest(self) -> Metrics | None:
        return self.readings[-1][1] if self.readings else None

    def history(self, field: str) -> list[float]:
        """Every reading of a field that the server tells."""
        return [float(getattr(metrics, field)) for _, metrics in self.readings if field not in metrics.untold]

    def rate(self, field: str, over_ns: int = 10_000_000_000) -> float | None:
        """By how much a total grows a second, over the newest `over_ns`; None: not told, or told only once."""
        told = [(at, getattr(metrics, field)) for at, metrics in self.readings if field not in metrics.untold]
        if len(told) < 2:
            return None
        last_ns, last = told[-1]
        first_ns, first = next(reading for reading in told if last_ns - reading[0] <= over_ns or reading is told[-2])
        return (last - first) * 1e9 / (last_ns - first_ns) if last_ns > first_ns and last >= first else None
