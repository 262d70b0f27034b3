"""One forward pass for all lanes; if it fails, each lane alone, so that only the one at fault ends.

Running work again is safe: it writes the same keys and values to the same slots.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING

from . import faults
from .errors import CutawayError
from .launched import Launched, launch
from .plan import StepPlan, Work
from .sampler import Draw

if TYPE_CHECKING:
    from .core import EngineCore

log = logging.getLogger(__name__)

Outcome = tuple[Work, Draw | None, CutawayError | None]


def outcomes(core: EngineCore, launched: Launched) -> list[Outcome]:
    """The draws of a launched step, one outcome for every work that samples (its draw) or fails (its error)."""
    plan = launched.plan
    works = [work for work in plan.work if work.phase != "padding"]
    try:
        return _drawn(launched)
    except Exception as error:
        log.exception("iteration %d failed", plan.iteration)
        launched.error, launched.clock.elsewhere = error, 0
        if len(works) == 1:
            return _failed(plan, error)
    found: list[Outcome] = []
    for number, work in enumerate(works):
        alone = dataclasses.replace(plan, work=(work,), copies=plan.copies if number == 0 else (), ahead=False)
        try:
            again = launch(core, alone, launched.clock)
            again.sample(core)
            found += _drawn(again)
        except Exception as error:
            log.exception("%s failed alone in iteration %d", work.sequence.key, plan.iteration)
            found += _failed(alone, error)
    return found


def _drawn(launched: Launched) -> list[Outcome]:
    return [(work, draw, None) for work, draw in zip(launched.plan.sampling, launched.draws(), strict=True)]


def _failed(plan: StepPlan, error: Exception) -> list[Outcome]:
    told = faults.as_error(error, "computing this reply")
    return [(work, None, told) for work in plan.work if work.phase != "padding"]
