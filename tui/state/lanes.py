"""What the batch's lanes did, iteration by iteration, and what each policy made of the same queue."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence

import msgspec

from ...engine.protocol import Phase, Policy, Step, Wait
from .limits import Limits
from .timing import percentile


class LaneCell(msgspec.Struct, frozen=True, gc=False):
    """One lane in one iteration."""

    lane: int
    request: str
    sample: int
    phase: Phase
    start: int
    count: int
    admitted: bool
    useful: bool  # it brought its sequence further


class IterationRecord(msgspec.Struct, frozen=True, gc=False):
    """One iteration without the pages and candidates of its step event. Durations in nanoseconds."""

    iteration: int
    started_ns: int
    took_ns: int
    policy: Policy
    cells: tuple[LaneCell, ...]
    waits: tuple[Wait, ...]
    preempted: tuple[str, ...]
    computed: int  # positions, padding included
    padding: int  # positions
    reuse_needs: int  # positions
    recompute_needs: int  # positions
    spared: int  # positions
    tokens: int  # drawn
    merged: int  # earlier iterations whose lanes are not known
    useful_steps: int  # lanes that brought their sequence further
    ahead: bool = False  # launched while the iteration before ran

    def lane_steps(self, max_lanes: int) -> int:
        """Lanes that worked, plus lanes that stood idle while somebody waited for one."""
        idle = max(0, max_lanes - len(self.cells))
        return len(self.cells) + min(idle, len(self.waits))


class FinishRecord(msgspec.Struct, frozen=True):
    """When one sample was done, counted from its submission, and under which policy it ended."""

    key: str  # same key: same work, so the policies can be compared
    label: str
    request: str
    sample: int
    policy: Policy
    prompt: int  # tokens
    generated: int  # tokens
    total_ns: int  # duration: submission to end
    finished_ns: int
    cached: int = 0  # tokens of the prompt that the prefix cache spared


class PolicySummary(msgspec.Struct, frozen=True):
    """The finish times under one policy. Durations in nanoseconds, counted from each submission."""

    policy: Policy
    count: int
    p50_ns: int
    p95_ns: int
    last_ns: int
    cached: int  # tokens of the prompts that the prefix cache spared


def is_useful(phase: Phase, reuse_needs: int) -> bool:
    """Whether a lane brought its sequence further: padding does not, nor recomputing what was there already."""
    return phase in ("prefill", "decode") or (phase == "recompute" and reuse_needs > 0)


class LaneHistory:
    """A ring of iterations, the queue as it stands, and finish times by policy."""

    def __init__(self, limits: Limits) -> None:
        self.version = 0
        self.records: deque[IterationRecord] = deque(maxlen=limits.iterations)
        self.waits: tuple[Wait, ...] = ()
        self.finishes: deque[FinishRecord] = deque(maxlen=limits.finishes)
        self.max_lanes = 0  # from the switches
        self.lanes_seen = 0  # highest lane number met, plus one
        self.merged = 0  # iterations known in sum only

    def clear(self) -> None:
        """Forget everything: another model has another batch."""
        self.records.clear()
        self.finishes.clear()
        self.waits = ()
        self.lanes_seen = 0
        self.merged = 0
        self.version += 1

    def empty(self) -> None:
        """Nobody waits any more."""
        self.waits = ()
        self.version += 1

    def add(self, step: Step) -> None:
        """Take one step event."""
        cells = tuple(
            [
                LaneCell(
                    lane=lane.lane,
                    request=lane.request,
                    sample=lane.sample,
                    phase=lane.phase,
                    start=lane.start,
                    count=lane.count,
                    admitted=lane.admitted,
                    useful=is_useful(lane.phase, lane.reuse_needs),
                )
                for lane in step.lanes[:1024]
            ]
        )
        self.records.append(
            IterationRecord(
                iteration=step.iteration,
                started_ns=step.started_ns,
                took_ns=step.schedule_ns + step.run_ns + step.sample_ns + step.finish_ns,
                policy=step.policy,
                cells=cells,
                waits=step.waits[:64],
                preempted=step.preempted[:64],
                computed=step.computed,
                padding=step.padding,
                reuse_needs=step.reuse_needs,
                recompute_needs=step.recompute_needs,
                spared=step.spared,
                tokens=len(step.sampled),
                merged=step.merged,
                useful_steps=sum([cell.useful for cell in cells]),
                ahead=step.ahead,
            )
        )
        self.waits = step.waits
        self.merged += step.merged
        for cell in cells:
            if cell.lane >= self.lanes_seen:
                self.lanes_seen = min(cell.lane, 1023) + 1
        self.version += 1

    def finished(self, record: FinishRecord) -> None:
        self.finishes.append(record)
        self.version += 1

    def newest(self, count: int) -> list[IterationRecord]:
        """The last `count` iterations, oldest first."""
        return list(itertools.islice(reversed(self.records), max(0, count)))[::-1]

    def useful_share(self, last: int = 256, policy: Policy | None = None) -> float | None:
        """Useful share of lane-steps over the newest iterations (of one policy, if given), 0 to 1; None: no step.

        A lane-step is useful when it brings its sequence further. Padding, recomputation after a preemption, and a
        lane that stands idle while somebody waits for one are not.
        """
        useful = steps = 0
        for record in self.newest(last):
            if policy is None or record.policy == policy:
                useful += record.useful_steps
                steps += record.lane_steps(self.max_lanes)
        return useful / steps if steps else None

    def compare(self) -> list[tuple[str, FinishRecord | None, FinishRecord | None]]:
        """(label, under continuous, under static) for the same work, newest first; the newest finish of each counts."""
        rows: dict[str, dict[Policy, FinishRecord]] = {}
        for record in reversed(self.finishes):
            rows.setdefault(record.key, {}).setdefault(record.policy, record)
        return [(next(iter(row.values())).label, row.get("continuous"), row.get("static")) for row in rows.values()]

    def summary(self, policy: Policy, records: Sequence[FinishRecord] | None = None) -> PolicySummary | None:
        """Finish times under a policy, of the given records or of all; None: nothing finished under it."""
        chosen = self.finishes if records is None else records
        under = [record for record in chosen if record.policy == policy]
        if not under:
            return None
        times = [record.total_ns for record in under]
        p50, p95 = int(percentile(times, 50)), int(percentile(times, 95))
        return PolicySummary(policy, len(times), p50, p95, max(times), sum(record.cached for record in under))
