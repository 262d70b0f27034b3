"""Engine totals since the load."""

from __future__ import annotations

import collections
import dataclasses
import itertools

import psutil

from .protocol import Metrics, PoolTotals, Step, Timeline

KEPT = 2000  # latencies kept for the percentiles


def percentiles(values: collections.deque[int]) -> tuple[int, int]:
    """p50 and p95 (nearest rank) of durations in ns; (0, 0) of none."""
    if not values:
        return (0, 0)
    ordered = sorted(values)
    last = len(ordered) - 1
    return ordered[round(0.5 * last)], ordered[round(0.95 * last)]


@dataclasses.dataclass(slots=True)
class Totals:
    """Counters fed by what happened; `event` turns them into the metrics event."""

    prefix_cache_queries: int = 0
    prefix_cache_hits: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    num_preemptions: int = 0
    requests_finished: int = 0
    iterations: int = 0
    positions_computed: int = 0
    positions_padding: int = 0
    busy_ns: int = 0
    first_token: collections.deque[int] = dataclasses.field(default_factory=lambda: collections.deque(maxlen=KEPT))
    inter_token: collections.deque[int] = dataclasses.field(default_factory=lambda: collections.deque(maxlen=KEPT))

    def step(self, step: Step) -> None:
        """Count one iteration."""
        self.iterations += 1
        self.positions_computed += step.computed
        self.positions_padding += step.padding
        self.num_preemptions += len(step.preempted)
        self.generation_tokens += len(step.sampled)
        self.busy_ns += step.schedule_ns + step.run_ns + step.sample_ns + step.finish_ns

    def finished(self, timeline: Timeline) -> None:
        """Count one finished sample's latencies."""
        self.requests_finished += 1
        if timeline.first_token_ns:
            self.first_token.append(timeline.first_token_ns - timeline.submitted_ns)
        times = timeline.tokens_ns[-KEPT:]
        self.inter_token.extend(b - a for a, b in itertools.pairwise(times))

    def event(self, pool: PoolTotals, running: int, waiting: int) -> Metrics:
        """The totals as an event."""
        counters = {
            f.name: getattr(self, f.name)
            for f in dataclasses.fields(self)
            if f.name not in ("first_token", "inter_token")
        }
        return Metrics(
            num_requests_running=running,
            num_requests_waiting=waiting,
            kv_cache_usage_perc=pool.used / pool.total if pool.total else 0.0,
            time_to_first_token_ns=percentiles(self.first_token),
            inter_token_latency_ns=percentiles(self.inter_token),
            resident_bytes=psutil.Process().memory_info().rss,
            **counters,
        )
