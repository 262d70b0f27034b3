"""What one iteration will do: made by the scheduler, run by the runner, turned into the step event. No torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence as Items

from .protocol import Phase, Policy, Wait
from .sequence import Sequence, Status


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """Positions [start, start + count) of one sequence, computed in this iteration.

    `token_ids` and `slots` have length `count`; `slots[i]` is where the key and value of position `start + i` go:
    page * page_size + offset. `samples` tells whether the last position's logits are needed. Padding work
    rewrites the last position of a finished sequence: real arithmetic, no use.

    In a plan made ahead a token may not be drawn yet: `~row` stands for the one that the row-th sampling work of the
    step before will give.
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
    ahead: bool = False  # made while the step before ran
    not_ahead: str = ""  # why it was not, where the runner would have allowed it

    @property
    def computed(self) -> int:
        return sum(work.count for work in self.work)

    @property
    def sampling(self) -> list[Work]:
        """The works whose logits are wanted, in order."""
        return [work for work in self.work if work.samples]

    def settled(self, drawn: Items[int | None] | None) -> StepPlan:
        """This plan, made ahead, as things turned out.

        `drawn[row]` is what the step before drew, None where another token was guessed; without any, it failed. Work
        of a sequence that has ended, or that started from a wrong token, is padding.
        """
        return dataclasses.replace(self, work=tuple([_settled(work, drawn) for work in self.work]))


def _settled(work: Work, drawn: Items[int | None] | None) -> Work:
    row = ~work.token_ids[0]
    token = drawn[row] if drawn is not None and row >= 0 else None
    if drawn is None or work.sequence.status is not Status.RUNNING or (row >= 0 and token is None):
        return dataclasses.replace(work, phase="padding", samples=False, block_table=(), reuse_needs=0, spared=0)
    return work if token is None else dataclasses.replace(work, token_ids=(token,))
