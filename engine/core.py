"""The engine's heart: `schedule() -> run() -> sample() -> report()`, and the commands that change its course.

On a device that runs by itself, the next iteration's first two are done between this one's last two.
"""

from __future__ import annotations

import collections
import dataclasses
import time
from collections.abc import Callable

import msgspec

from .endings import abort, end
from .errors import CutawayError, PromptError, SettingError
from .forks import fork_request, fork_siblings
from .inspection import metrics, page_changes, page_detail
from .intake import Intake
from .isolation import Outcome, outcomes
from .launched import Launched, launch
from .metrics import Totals
from .plan import StepPlan
from .protocol import (
    Abort,
    AnyCommand,
    AnyEvent,
    ClearCache,
    Configure,
    Configured,
    Failed,
    Finished,
    Fork,
    Inspect,
    ModelCard,
    Pause,
    Ready,
    Rejected,
    Resume,
    Sampled,
    StepOnce,
    Submit,
    Switches,
)
from .replies import Replies
from .report import Clock, step_event
from .request import Request, Sample
from .runner import Runner, runs_ahead
from .sampler import Sampler
from .scheduler import Scheduler
from .switchboard import configure
from .takeover import Takeover, take_over
from .tokenizer import Tokenizer


class EngineCore:
    """One loaded model, serving. Single-threaded: `handle` and `step` are called in turn by one loop."""

    def __init__(
        self,
        card: ModelCard,
        tokenizer: Tokenizer,
        intake: Intake,
        scheduler: Scheduler,
        runner: Runner,
        emit: Callable[[AnyEvent], None],
    ) -> None:
        self.card = card
        self.tokenizer = tokenizer
        self.intake = intake
        self.scheduler = scheduler
        self.runner = runner
        self.emit = emit
        self.sampler = Sampler()
        self.replies = Replies(tokenizer, emit)
        self.totals = Totals()
        self.switches = Switches(token_budget=scheduler.token_budget, max_lanes=scheduler.max_lanes)
        self.credit = 0  # iterations a paused engine may still run
        self.takeover: Takeover | None = None  # our own kernels, on their way
        self.requests: dict[str, Request] = {}
        self.finished: collections.OrderedDict[str, Request] = collections.OrderedDict()
        self._following: Launched | None = None  # launched while the iteration before it ran
        self._not_ahead = ""  # why the next iteration is not

    def start(self, wake: Callable[[], None] = lambda: None) -> None:
        """Tell that the model serves, and how the switches stand; `wake` as in `loading.Core`.

        To be called by the thread that will step.
        """
        self.runner.use_threads(self.card.threads)
        self.emit(Ready(self.card))
        self.emit(Configured(self.switches))
        if self.takeover is not None:
            self.takeover.begin(wake)

    def close(self) -> None:
        """Serve no more."""
        if self.takeover is not None:
            self.takeover.close()

    @property
    def has_work(self) -> bool:
        """Whether `step` would do something now."""
        runs = bool(self.requests or self._following) and (not self.switches.paused or self.credit > 0)
        return runs or (self.takeover is not None and self.takeover.ready)

    # ------------------------------------------------------------------------------------------- one iteration

    def step(self) -> None:
        """Complete one iteration, if there is one to run; where the runner runs ahead, launch the next one before."""
        if self.takeover is not None and self.takeover.ready:
            take_over(self, self.takeover)
        if self.has_work:
            self._iterate(go_on=True)

    def _iterate(self, go_on: bool) -> None:
        launched, self._following = self._following or self._begin(), None
        if launched is not None:
            launched.sample(self)
            self._following = self._launch_after(launched) if go_on else None
            self._complete(launched)

    def _begin(self) -> Launched | None:
        """Plan and launch an iteration; None if there is nothing to compute."""
        clock = Clock(started=time.monotonic_ns())
        plan = self.scheduler.schedule()
        if plan is None:
            return None
        clock.scheduled = time.monotonic_ns()
        if self._not_ahead:
            plan, self._not_ahead = dataclasses.replace(plan, not_ahead=self._not_ahead), ""
        return launch(self, plan, clock)

    def _launch_after(self, launched: Launched) -> Launched | None:
        """Plan and launch the iteration after one that still runs, where that can be done (see `launched.py`)."""
        guesses = launched.guesses
        needed = bool(launched.plan.sampling)
        if not runs_ahead(self.runner) or launched.error is not None or (needed and guesses is None):
            return None
        clock = Clock(started=time.monotonic_ns())
        plan = "the engine is paused" if self.switches.paused else self.scheduler.ahead(launched.plan)
        clock.scheduled = time.monotonic_ns()
        if isinstance(plan, str):
            self._not_ahead = plan
            return None
        following = launch(self, plan, clock, guesses)
        launched.clock.elsewhere += clock.ran - clock.started
        return following

    def _complete(self, launched: Launched) -> None:
        """Draw, append, stop, free, and tell it all."""
        found = outcomes(self, launched)
        plan, clock = launched.plan, launched.clock
        self.credit = max(0, self.credit - 1)
        if self._following is not None:
            self._following.drawn = launched.confirmed([draw for _, draw, _ in found if draw is not None])
        for work, _, error in found:
            if error is not None:  # before the commit, or pages that nobody filled could be matched
                self.scheduler.abort(work.sequence)
        self.scheduler.commit(plan)
        now = clock.sampled = time.monotonic_ns()
        self._stamp(plan, clock)
        sampled, endings = self._take(found, now)
        step = step_event(plan, self.scheduler.pool, sampled, clock, time.monotonic_ns(), self.switches.inspect)
        self.totals.step(step)
        self.totals.prefix_cache_hits += step.spared
        self.emit(step)
        for ending in endings:
            self.emit(ending)

    def sample_of(self, request: str, index: int) -> Sample:
        """The running sample that a piece of work belongs to."""
        return next(s for s in self.requests[request].samples if s.sequence.sample == index)

    def _stamp(self, plan: StepPlan, clock: Clock) -> None:
        for work in plan.work:
            if work.phase == "padding" or work.sequence.request not in self.requests:
                continue
            sample = self.sample_of(work.sequence.request, work.sequence.sample)
            if not sample.stamps.scheduled_ns:
                sample.stamps.scheduled_ns = clock.started
                self.totals.prefix_cache_queries += len(work.sequence)
            if work.phase != "decode":
                sample.stamps.prefill.append((work.start, work.count, clock.scheduled, clock.ran))

    def _take(self, outcomes: list[Outcome], now: int) -> tuple[list[Sampled], list[Finished]]:
        sampled: list[Sampled] = []
        endings: list[Finished] = []
        for work, draw, error in outcomes:
            sample = self.sample_of(work.sequence.request, work.sequence.sample)
            if error is not None:
                endings += end(self, sample, "failed", str(error), now)
                continue
            if draw is None:
                continue
            fork_siblings(self, sample)
            event, reason, detail = self.replies.take(sample, draw, now)
            sampled.append(event)
            if reason is not None:
                endings += end(self, sample, reason, detail, now)
        return sampled, endings

    # ------------------------------------------------------------------------------------------------ commands

    def handle(self, command: AnyCommand) -> None:
        """Carry out one command. What is wrong with it becomes an event, never an exception."""
        if self._following is not None and not isinstance(command, (Submit, Abort, Inspect)):
            self._iterate(go_on=False)  # what may change the course finds nothing on its way
        try:
            self._carry_out(command)
        except CutawayError as error:
            name = getattr(command, "request", None)
            if isinstance(command, (Submit, Fork)):
                field = error.field if isinstance(error, SettingError) else ""
                self.emit(Rejected(command.request, error.message, error.action, field))
            else:
                self.emit(Failed(error.message, error.action, error.kind, request=name or ""))
        iteration = self.scheduler.iteration - (self._following is not None)  # the last one that is complete
        if (changes := page_changes(self, iteration)) is not None:
            self.emit(changes)

    def _carry_out(self, command: AnyCommand) -> None:
        match command:
            case Submit():
                self._submit(command)
            case Fork():
                fork_request(self, command)
            case Abort(request=name):
                abort(self, name)
            case Configure():
                configure(self, command)
            case Pause():
                self.switch(paused=True)
            case StepOnce(count=count):
                self.credit += max(0, count)
            case Resume():
                self.credit = 0
                self.switch(paused=False)
            case Inspect(page=None, memory=memory):
                self.emit(metrics(self, memory))
            case Inspect(page=page):
                self.emit(page_detail(self, page if page is not None else -1))
            case ClearCache():
                self.scheduler.pool.clear_cache()
            case _:
                raise PromptError(f"The engine's core does not know the command {type(command).__name__}.")

    def _submit(self, command: Submit) -> None:
        self.refuse_taken(command.request)
        request, event = self.intake.accept(command, self.scheduler, self.switches.delivery)
        self.totals.prompt_tokens += len(event.tokens)
        self.emit(event)
        self.enqueue(request, request.samples[0])

    def refuse_taken(self, name: str) -> None:
        """Raise if a running request has this name."""
        if not name or name in self.requests:
            raise SettingError("request", f"The request name {name!r} is taken or empty.", "Use another.")

    def enqueue(self, request: Request, sample: Sample) -> None:
        """Hand a new request's first sample to the scheduler."""
        self.requests[request.name] = request
        self.finished.pop(request.name, None)
        sample.stamps.queued_ns = time.monotonic_ns()
        self.scheduler.add(sample.sequence)

    def idle_check(self) -> None:
        """Check the integrity of pool and scheduler; raises where an invariant is broken."""
        self.scheduler.check()

    def switch(self, **changes: object) -> None:
        """Record switches that have changed, and tell how all of them stand."""
        self.switches = msgspec.structs.replace(self.switches, **changes)
        self.emit(Configured(self.switches))
