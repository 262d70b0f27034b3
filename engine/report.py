"""The step event, derived from the plan that ran: no panel is told anything the scheduler did not do."""

from __future__ import annotations

import dataclasses

from .pages import PagePool
from .plan import StepPlan, Work
from .protocol import Lane, Sampled, Step


@dataclasses.dataclass(slots=True)
class Clock:
    """Time stamps of one iteration, in ns: taken between the four calls."""

    started: int = 0
    scheduled: int = 0
    ran: int = 0
    sampled: int = 0
    elsewhere: int = 0  # duration, between `ran` and `sampled`, spent on other iterations
    waited: int = 0  # duration, in the same span, of waiting for a device that still ran


def _table_changed(work: Work, page_size: int) -> bool:
    # A decode in the middle of a page leaves the table as the last event told it: not worth sending again.
    return work.admitted or work.count > 1 or work.start % page_size == 0


def step_event(plan: StepPlan, pool: PagePool, sampled: list[Sampled], clock: Clock, now: int, inspect: bool) -> Step:
    """One iteration as an event. Without `inspect` it leaves out what only panels need."""
    lanes = tuple(
        Lane(
            lane=work.lane,
            request=work.sequence.request,
            sample=work.sequence.sample,
            phase=work.phase,
            start=work.start,
            count=work.count,
            length=len(work.sequence),
            prompt=work.sequence.prompt_length,
            cached=work.sequence.cached,
            reuse_needs=work.reuse_needs,
            admitted=work.admitted,
            block_table=work.block_table if inspect and _table_changed(work, pool.page_size) else (),
        )
        for work in plan.work
    )
    useful = [work for work in plan.work if work.phase != "padding"]
    return Step(
        iteration=plan.iteration,
        started_ns=clock.started,
        schedule_ns=clock.scheduled - clock.started,
        run_ns=clock.ran - clock.scheduled + clock.waited,
        sample_ns=clock.sampled - clock.ran - clock.elsewhere - clock.waited,
        finish_ns=now - clock.sampled,
        lanes=lanes,
        waits=plan.waits,
        pages=pool.drain_changes() if inspect else (),
        sampled=tuple(sampled),
        preempted=plan.preempted,
        computed=plan.computed,
        padding=plan.computed - sum(work.count for work in useful),
        reuse_needs=sum(work.reuse_needs for work in useful),
        recompute_needs=sum(work.end for work in useful),
        spared=sum(work.spared for work in useful),
        pool=pool.totals(),
        policy=plan.policy,
        ahead=plan.ahead,
        not_ahead=plan.not_ahead,
    )
