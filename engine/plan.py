"""What one iteration will do: made by the scheduler, run by the runner, turned into the step event. No torch."""

from __future__ import annotations

import dataclasses

from .protocol import Phase, Policy, Wait
from .sequence import Sequence


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """Positions [start, start + count) of one sequence, computed in this iteration.

    `token_ids` and `slots` have length `count`; `slots[i]` is where the key and value of position `start + i` go:
    page * page_size + offset. `samples` tells whether the last position's logits are needed. Padding work
    rewrites the last position of a finished sequence: real arithmetic, no use.
    """

    sequence: Sequence
    lane: int
    phase: Phase
    start: int
    count: int
    token_ids: tuple[int, ...]
    slots: tuple[int, ...]
    block_table: tuple[int, ...]
    samples: bool
    admitted: bool = False
    reuse_needs: int = 0  # positions that KV reuse would compute for the same result
    spared: int = 0  # positions the prefix cache spared at this admission

    @property
    def end(self) -> int:
        return self.start + self.count


@dataclasses.dataclass(frozen=True, slots=True)
class PageCopy:
    """Copy the first `fill` slots of page `source` to page `target` before the forward pass."""

    source: int
    target: int
    fill: int


@dataclasses.dataclass(frozen=True, slots=True)
class StepPlan:
    """One iteration. Decodes come first in `work`, so that the runner may treat them as one batch."""

    iteration: int
    policy: Policy
    work: tuple[Work, ...]
    waits: tuple[Wait, ...] = ()
    copies: tuple[PageCopy, ...] = ()
    preempted: tuple[str, ...] = ()

    @property
    def computed(self) -> int:
        return sum(work.count for work in self.work)
