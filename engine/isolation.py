"""One forward pass for all lanes; if it fails, each lane alone, so that only the one at fault ends.

Running work again is safe: it writes the same keys and values to the same slots.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from typing import TYPE_CHECKING

from . import faults
from .errors import CutawayError
from .plan import StepPlan, Work
from .report import Clock
from .sampler import Draw, SampleRow

if TYPE_CHECKING:
    from .core import EngineCore

log = logging.getLogger(__name__)

Outcome = tuple[Work, Draw | None, CutawayError | None]


def run_and_sample(core: EngineCore, plan: StepPlan, clock: Clock) -> list[Outcome]:
    """Run the plan and draw the tokens it asks for.

    One outcome for every work that samples (its draw) or fails (its error); `clock.ran` is set after the forward
    pass.
    """
    try:
        return _together(core, plan, clock)
    except Exception as error:
        log.exception("iteration %d failed", plan.iteration)
        if len(plan.work) == 1:
            return _failed(plan, error)
    outcomes: list[Outcome] = []
    for number, work in enumerate(plan.work):
        alone = dataclasses.replace(plan, work=(work,), copies=plan.copies if number == 0 else ())
        try:
            outcomes += _together(core, alone, clock)
        except Exception as error:
            log.exception("%s failed alone in iteration %d", work.sequence.key, plan.iteration)
            outcomes += _failed(alone, error)
    return outcomes


def _together(core: EngineCore, plan: StepPlan, clock: Clock) -> list[Outcome]:
    logits = core.runner.run(plan)
    clock.ran = time.monotonic_ns()
    wanted = [work for work in plan.work if work.samples]
    if not wanted:
        return []
    rows = [_row(core, work) for work in wanted]
    draws = core.sampler.sample(logits, rows, core.switches.inspect)
    return [(work, draw, None) for work, draw in zip(wanted, draws, strict=True)]


def _row(core: EngineCore, work: Work) -> SampleRow:
    sample = core.sample_of(work.sequence.request, work.sequence.sample)
    settings = sample.request.settings
    return SampleRow(
        settings=settings,
        prompt_ids=sample.prompt_ids,
        generated=sample.generated,
        end_ids=sample.request.end_ids,
        generator=sample.random,
        candidates=settings.candidates if core.switches.inspect else 0,
        history=sample.history,
    )


def _failed(plan: StepPlan, error: Exception) -> list[Outcome]:
    told = faults.as_error(error, "computing this reply")
    return [(work, None, told) for work in plan.work if work.phase != "padding"]
