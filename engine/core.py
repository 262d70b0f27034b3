"""The engine's heart: `schedule() -> run() -> sample() -> report()`, and the commands that change its course."""

from __future__ import annotations

import collections
import time
from collections.abc import Callable

import msgspec
import torch

from .errors import CutawayError, PromptError, SettingError
from .forks import fork_request, fork_siblings
from .intake import Intake
from .isolation import Outcome, run_and_sample
from .memory_speed import bytes_per_second
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
    FinishReason,
    Fork,
    Inspect,
    ModelCard,
    PageDetail,
    Pause,
    Ready,
    Rejected,
    Resume,
    Sampled,
    Step,
    StepOnce,
    Submit,
    Switches,
)
from .replies import Replies
from .report import Clock, step_event
from .request import Request, Sample
from .runner import Runner
from .sampler import Sampler
from .scheduler import Scheduler
from .switchboard import configure
from .tokenizer import Tokenizer

REMEMBERED = 64  # finished requests that can still be forked


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
        self.requests: dict[str, Request] = {}
        self.finished: collections.OrderedDict[str, Request] = collections.OrderedDict()

    def start(self) -> None:
        """Tell that the model serves, and how the switches stand. To be called by the thread that will step."""
        self.runner.use_threads(self.card.threads)
        self.emit(Ready(self.card))
        self.emit(Configured(self.switches))

    @property
    def has_work(self) -> bool:
        """Whether `step` would run something now."""
        return bool(self.requests) and (not self.switches.paused or self.credit > 0)

    # ------------------------------------------------------------------------------------------- one iteration

    def step(self) -> None:
        """Run one iteration, if there is one to run."""
        if not self.has_work:
            return
        clock = Clock(started=time.monotonic_ns())
        plan = self.scheduler.schedule()
        if plan is None:
            return
        self.credit = max(0, self.credit - 1)
        clock.scheduled = time.monotonic_ns()
        outcomes = run_and_sample(self, plan, clock)
        for work, _, error in outcomes:
            if error is not None:  # before the commit, or pages that nobody filled could be matched
                self.scheduler.abort(work.sequence)
        self.scheduler.commit(plan)
        now = clock.sampled = time.monotonic_ns()
        self._stamp(plan, clock)
        sampled, endings = self._take(outcomes, now)
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
                endings.append(self._end(sample, "failed", str(error), now))
                endings += self._never_started(sample.request, "failed", str(error))
                continue
            if draw is None:
                continue
            fork_siblings(self, sample)
            event, reason, detail = self.replies.take(sample, draw, now)
            sampled.append(event)
            if reason is not None:
                endings.append(self._end(sample, reason, detail, now))
        return sampled, endings

    def _end(self, sample: Sample, reason: FinishReason, detail: str, now: int) -> Finished:
        """End one sample: pages back, text flushed, totals counted. The caller emits the event."""
        if reason in ("aborted", "failed"):
            self.scheduler.abort(sample.sequence)
        else:
            self.scheduler.finish(sample.sequence)
        self.runner.release(sample.key)
        ending = self.replies.finish(sample, reason, detail, now)
        self.totals.finished(ending.timeline)
        request = sample.request
        if reason in ("aborted", "failed"):
            request.never_started = range(len(request.samples), request.wanted)
            request.wanted = len(request.samples)
        if request.done:
            self.requests.pop(request.name, None)
            self.finished[request.name] = request
            while len(self.finished) > REMEMBERED:
                self.finished.popitem(last=False)
        return ending

    def _never_started(self, request: Request, reason: FinishReason, detail: str) -> list[Finished]:
        """Endings of samples that were asked for and never forked, because the first one ended too soon."""
        missing, request.never_started = request.never_started, range(0)
        return [Finished(request.name, number, reason, detail) for number in missing]

    def end_now(self, sample: Sample, reason: FinishReason, detail: str) -> None:
        """End a sample outside an iteration and say so."""
        self.emit(self._end(sample, reason, detail, time.monotonic_ns()))

    # ------------------------------------------------------------------------------------------------ commands

    def handle(self, command: AnyCommand) -> None:
        """Carry out one command. What is wrong with it becomes an event, never an exception."""
        try:
            self._carry_out(command)
        except CutawayError as error:
            name = getattr(command, "request", None)
            if isinstance(command, (Submit, Fork)):
                field = error.field if isinstance(error, SettingError) else ""
                self.emit(Rejected(command.request, error.message, error.action, field))
            else:
                self.emit(Failed(error.message, error.action, error.kind, request=name or ""))
        self._tell_page_changes()

    def _carry_out(self, command: AnyCommand) -> None:
        match command:
            case Submit():
                self._submit(command)
            case Fork():
                fork_request(self, command)
            case Abort(request=name):
                self.abort(name)
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
                running = sum(s.sequence.lane >= 0 for r in self.requests.values() for s in r.samples)
                alive = sum(s.reason is None for r in self.requests.values() for s in r.samples)
                totals = self.totals.event(self.scheduler.pool.totals(), running, max(0, alive - running))
                speed = bytes_per_second(self.card.step_bytes, torch.device(self.card.device)) if memory else 0
                self.emit(msgspec.structs.replace(totals, memory_bytes_per_s=speed))
            case Inspect(page=page):
                self.emit(self._page_detail(page if page is not None else -1))
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

    def abort(self, name: str) -> None:
        """Stop a request wherever it is. An unknown or finished one is left alone: the abort came too late."""
        request = self.requests.get(name)
        if request is None:
            return
        now = time.monotonic_ns()
        endings = [self._end(s, "aborted", "", now) for s in request.samples if s.reason is None]
        for ending in (*endings, *self._never_started(request, "aborted", "")):
            self.emit(ending)

    def idle_check(self) -> None:
        """Check the integrity of pool and scheduler; raises where an invariant is broken."""
        self.scheduler.check()

    def switch(self, **changes: object) -> None:
        """Record switches that have changed, and tell how all of them stand."""
        self.switches = msgspec.structs.replace(self.switches, **changes)
        self.emit(Configured(self.switches))

    def _page_detail(self, page: int) -> PageDetail:
        pool = self.scheduler.pool
        if not 0 <= page < pool.pages:
            raise SettingError("page", f"page must be from 0 to {pool.pages - 1}, not {page}.")
        detail = pool.detail(page)
        pieces = tuple(self.tokenizer.piece(token) for token in detail.token_ids)
        return msgspec.structs.replace(detail, pieces=pieces)

    def _tell_page_changes(self) -> None:
        """Pages that a command freed or forgot, as an iteration without lanes: nothing ran."""
        changes = self.scheduler.pool.drain_changes() if self.switches.inspect else ()
        if changes:
            self.emit(
                Step(
                    iteration=self.scheduler.iteration,
                    started_ns=time.monotonic_ns(),
                    pages=changes,
                    pool=self.scheduler.pool.totals(),
                    policy=self.scheduler.policy,
                )
            )
