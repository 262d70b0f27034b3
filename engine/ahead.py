"""The step after one that still runs, planned as if everything that one samples went on. No torch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Items

from .pages import PagePool
from .plan import StepPlan, Work
from .portions import with_reuse
from .sequence import Sequence
from .work import lay_out


def works_after(
    plan: StepPlan,
    running: Items[Sequence],
    budget: int,
    pool: PagePool,
    grow: Callable[[Sequence], None],
    fresh: dict[Sequence, int],
) -> tuple[Work, ...] | str:
    """What the running sequences compute after `plan`, in free pages only; or why that must wait for its end.

    The sequences are as before afterwards but for their block tables, which `grow` has lengthened.
    """
    with _as_if_done(plan):
        portions = with_reuse([s for s in running if len(s.tokens) < s.max_length], (), budget)
        missing = sum(max(0, pool.pages_for(len(s)) - len(s.block_table)) for s, *_ in portions)
        if not portions:
            return "every reply ends"
        if missing > pool.available:
            return "pages must be taken from somebody"
        for sequence, *_ in portions:
            grow(sequence)
        return tuple([lay_out(*portion, pool.page_size, fresh.pop(portion[0], None)) for portion in portions])


@contextlib.contextmanager
def _as_if_done(plan: StepPlan) -> Iterator[None]:
    """In here `plan` has run, and each token that it samples is there, by its placeholder (see `Work`)."""
    before = [(work.sequence, work.sequence.computed) for work in plan.work if work.phase != "padding"]
    sampling = [work.sequence for work in plan.sampling]
    for work in plan.work:
        if work.phase != "padding":
            work.sequence.computed = work.end
    for row, sequence in enumerate(sampling):
        sequence.tokens.append(~row)
    try:
        yield
    finally:
        for sequence in sampling:
            sequence.tokens.pop()
        for sequence, computed in before:
            sequence.computed = computed
