"""A step on its way. A device computes by itself, so the step after this one is launched before this one is drawn:

    host    launch N | sample N | plan, launch N+1 | wait, draw, report N | sample N+1 | plan, launch N+2 | …
    device            forward N, look at its logits | forward N+1 ……………………… | look at its logits | forward N+2 …

N+1 is planned as if every reply of N went on (`Scheduler.ahead`), and reads the tokens that the device guesses where
it has not drawn yet (`guess.py`). The host then draws N; work of N+1 that started from a wrong token, or whose reply
has ended, was for nothing: it is shown as padding, and what is still wanted of it is planned again. So replies are
those of one step after the other. Where the runner does not run ahead, as on a CPU, that is what happens.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .plan import StepPlan, Work
from .report import Clock
from .runner import runs_ahead
from .sampler import Draw, SampleRow, Sampling
from .transfers import to_device

if TYPE_CHECKING:
    from .core import EngineCore


@dataclasses.dataclass(slots=True)
class Launched:
    """A step whose forward pass has been launched, or has failed with `error`."""

    plan: StepPlan
    clock: Clock
    logits: Tensor | None = None  # [R, vocabulary] of the plan's sampling works, as it was launched
    error: Exception | None = None
    sampling: Sampling | None = None
    drawn: Sequence[int | None] | None = None  # by the step before, if this one was launched ahead (`confirmed`)

    @property
    def guesses(self) -> Tensor | None:
        """The tokens that the device says will be drawn, [R] on the device, once it has been asked."""
        return self.sampling.guesses if self.sampling is not None else None

    def sample(self, core: EngineCore) -> None:
        """Launch what is to be found out about the logits, by the settings as they are now."""
        began = time.monotonic_ns()
        wanted, logits = self.plan.sampling, self.logits
        if self.plan.ahead:
            self.clock.elsewhere = began - self.clock.ran
            kept = self._settle()
            if logits is not None and wanted and len(kept) < len(wanted):
                logits = logits[to_device(kept, torch.int64, logits.device)] if kept else None
        wanted = self.plan.sampling
        if logits is None or not wanted:
            return
        try:
            rows = [row_of(core, work) for work in wanted]
            self.sampling = core.sampler.start(logits, rows, core.switches.inspect, runs_ahead(core.runner))
        except Exception as error:
            self.error = error
        self.logits = None

    def _settle(self) -> list[int]:
        """Make padding of what was for nothing. Returns the rows of the logits that are still wanted."""
        before = self.plan.work
        self.plan = self.plan.settled(self.drawn)
        now = [new.samples for old, new in zip(before, self.plan.work, strict=True) if old.samples]
        return [row for row, wanted in enumerate(now) if wanted]

    def draws(self) -> list[Draw]:
        """A draw for each sampling work; waits for the device. Raises what went wrong since the launch."""
        if self.error is not None:
            raise self.error
        if self.sampling is None:
            return []
        began = time.monotonic_ns()
        self.sampling.wait()
        self.clock.waited += time.monotonic_ns() - began
        return self.sampling.draws()

    def confirmed(self, draws: Sequence[Draw]) -> list[int | None] | None:
        """What the step after this one is settled by: the drawn tokens, None where the device guessed another.

        None instead of a list where this step has failed: what was launched after it started from nothing.
        """
        if self.error is not None:
            return None
        guessed = self.sampling.guessed() if self.sampling is not None else []
        return [draw.id if draw.id == guess else None for draw, guess in zip(draws, guessed, strict=True)]


def launch(core: EngineCore, plan: StepPlan, clock: Clock, guesses: Tensor | None = None) -> Launched:
    """Start a plan's forward pass; with `guesses` [R] for its placeholders, after the step before."""
    launched = Launched(plan, clock)
    try:
        if guesses is not None and runs_ahead(core.runner):
            launched.logits = core.runner.run_ahead(plan, guesses)
        else:
            launched.logits = core.runner.run(plan)
    except Exception as error:
        launched.error = error
    clock.ran = time.monotonic_ns()
    return launched


def row_of(core: EngineCore, work: Work) -> SampleRow:
    """What the sampler has to know of a sampling work's sample."""
    sample = core.sample_of(work.sequence.request, work.sequence.sample)
    settings, row = sample.request.settings, sample.row
    candidates = settings.candidates if core.switches.inspect else 0
    if row is None or row.settings is not settings or row.candidates != candidates:
        row = sample.row = SampleRow(
            settings=settings,
            prompt_ids=sample.prompt_ids,
            generated=sample.generated,
            end_ids=sample.request.end_ids,
            generator=sample.random,
            spelling=core.replies.tokenizer,
            candidates=candidates,
            history=sample.history,
        )
    return row
