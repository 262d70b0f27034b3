"""All that is known of one engine: one entry, `EngineState.apply`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from ...engine.protocol import (
    CardChanged,
    Configured,
    Event,
    Failed,
    Finished,
    LoadProgress,
    Machine,
    Metrics,
    ModelCard,
    PageDetail,
    PromptRendered,
    Ready,
    Rejected,
    Sampled,
    SettingsChanged,
    Step,
    Switches,
    TextDelta,
    Welcome,
)
from .kept import KeptRequests
from .lanes import FinishRecord, LaneHistory
from .limits import Limits
from .pool import PoolState
from .request import RequestState
from .sample import SampleState
from .server_load import ServerLoad
from .timing import Clock, Shown, Timings


class EngineState:
    """The engine as its events have told it. `version` grows with every event; parts have their own.

    `apply` never raises for an event of the protocol, whatever its order; an event it does not know is ignored.
    """

    def __init__(self, limits: Limits | None = None, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.limits = limits or Limits()
        self.now_ns = now_ns  # our clock
        self.version = 0
        self.welcome: Welcome | None = None
        self.card: ModelCard | None = None
        self.card_ns = 0  # when the model was ready, on our clock
        self.switches = Switches()
        self.loading: LoadProgress | None = None
        self.kept = KeptRequests(self.limits)
        self.requests = self.kept.requests  # oldest first
        self.lanes = LaneHistory(self.limits)
        self.pool = PoolState(self.limits)
        self.timeline = Timings(self.limits)
        self.clock = Clock()
        self.metrics: Metrics | None = None
        self.machine: Machine | None = None
        self.load = ServerLoad()
        self.failure: Failed | Rejected | None = None
        self._request = self.kept.request
        self.letter_of, self.reserve_letter = self.kept.letter_of, self.kept.reserve_letter
        self._handlers: dict[type, Callable[[Any, int], None]] = {
            Welcome: self._welcome,
            LoadProgress: lambda event, _: setattr(self, "loading", event),
            Ready: self._ready,
            CardChanged: lambda event, _: setattr(self, "card", event.card),
            Configured: self._configured,
            PromptRendered: self._prompt_rendered,
            SettingsChanged: self._settings_changed,
            Step: self._step,
            TextDelta: self._text_delta,
            Finished: self._finished,
            Rejected: self._rejected,
            Failed: self._failed,
            PageDetail: lambda event, _: self.pool.inspected(event),
            Metrics: self._metrics,
            Machine: lambda event, _: setattr(self, "machine", event),
        }

    def apply(self, event: Event, received_ns: int | None = None) -> None:
        """Take one event; `received_ns` is when it came in, on our monotonic clock (now, if left out)."""
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event, self.now_ns() if received_ns is None else received_ns)
            self.version += 1

    def lost(self, why: str) -> None:
        """The engine is gone, and with it what was under way, whatever its newest step told."""
        self.kept.fail(why)
        self.lanes.empty()
        self.version += 1

    def left(self) -> None:
        """The engine was left for another one: nothing is loaded until that says so."""
        self.lost("another engine was chosen")
        self.card = self.loading = self.failure = self.metrics = None
        self.lanes.clear()
        self.load = ServerLoad()

    def mark_painted(self, request: str, ns: int, sample: int = 0) -> None:
        """Say that text of a sample reached the screen at `ns` (our clock); the first call sets the first paint."""
        state = self.requests.get(request)
        found = state.samples.get(sample) if state else None
        if state is None or found is None:
            return
        found.last_painted_ns = ns
        if not found.first_painted_ns:
            found.first_painted_ns = ns
            if found.first_received_ns:
                self.timeline.paint_ns.append(max(0, ns - found.first_received_ns))
            if found.finished is not None:
                self._show(state, found)
            self.timeline.version += 1
            state.version += 1
            self.version += 1

    def newest_request(self) -> RequestState | None:
        """The request met last."""
        return next(reversed(self.requests.values()), None)

    @property
    def remote(self) -> bool:
        """A server answers: what it does not tell is not known here."""
        return self.card is not None and self.card.attention == "remote"

    def lacks(self, capability: str) -> str:
        """Why the loaded model cannot show something; empty: it can, or no model is loaded yet."""
        if self.card is None or capability in self.card.capabilities:
            return ""
        return self.card.missing.get(capability, "")

    # ------------------------------------------------------------------------------------------- the engine

    def _welcome(self, event: Welcome, received_ns: int) -> None:
        self.welcome = event
        self.clock.welcome(event.clock_ns, received_ns)

    def _ready(self, event: Ready, received_ns: int) -> None:
        self.card, self.card_ns = event.card, received_ns
        self.loading = None
        self.failure = None
        self.pool.reset(event.card)
        self.lanes.clear()
        self.load = ServerLoad()
        self.lanes.max_lanes = event.card.max_lanes

    def _configured(self, event: Configured, _: int) -> None:
        if event.switches.delivery != self.switches.delivery:
            for state in self.requests.values():
                state.delivery = state.delivery if state.done else event.switches.delivery
        self.switches = event.switches
        self.lanes.max_lanes = event.switches.max_lanes
        self.lanes.version += 1

    def _metrics(self, event: Metrics, received_ns: int) -> None:
        self.metrics = event
        self.load.add(event, received_ns)
        self.timeline.version += 1

    # ------------------------------------------------------------------------------------------ the requests

    def _prompt_rendered(self, event: PromptRendered, _: int) -> None:
        state = self._request(event.request)
        self.kept.tokens -= len(state.prompt)
        source = self.requests.get(event.source) if event.source and not event.tokens else None
        if source is not None and source.rendered is not None:
            # A fork tells only what differs: its prompt is its source's.
            event = msgspec.structs.replace(event, tokens=source.prompt, text=source.rendered.text)
        if len(event.tokens) > self.kept.room(len(event.tokens), event.request):
            event = msgspec.structs.replace(event, tokens=event.tokens[: self.kept.room(0, event.request)])
        self.kept.tokens += len(event.tokens)
        state.rendered = event
        state.prompt_length = max(state.prompt_length, len(event.tokens))
        state.settings = event.settings
        state.source = event.source
        state.delivery = event.delivery
        sample = state.sample(0) if event.kept else None
        if sample is not None:
            kept = event.kept[: self.kept.room(len(event.kept), event.request)]
            self.kept.tokens += sample.took_over(kept)
        self.timeline.version += 1

    def _settings_changed(self, event: SettingsChanged, _: int) -> None:
        if (state := self.requests.get(event.request)) is not None:
            state.settings = event.settings
            state.version += 1

    def _step(self, event: Step, received_ns: int) -> None:
        if event.iteration >= 0:
            self.lanes.add(event)
            self.pool.change(event.pages, event.pool, received_ns)
        for lane in event.lanes:
            request = self._request(lane.request)
            request.prompt_length = request.prompt_length or max(0, lane.prompt)
            sample = request.sample(lane.sample)
            if sample is not None:
                if not sample.admitted and not request.source:  # a fork takes its pages over, it looks for none
                    self.pool.admitted(lane.prompt, lane.cached)
                sample.ran(lane, event)
        for wait in event.waits:
            sample = self._request(wait.request).sample(wait.sample)
            if sample is not None:
                sample.waits(wait, event)
        for owner in event.preempted:
            request, _, number = owner.rpartition("/")
            known = self.requests.get(request)
            sample = known.samples.get(int(number)) if known and number.isdecimal() else None
            if sample is not None:
                sample.preemptions += 1
        # Of several iterations in one event, it is known only for the newest tokens which of them drew it.
        newest = {(token.request, token.sample): token.index for token in event.sampled} if event.merged else {}
        for token in event.sampled:
            late = newest.get((token.request, token.sample), token.index) == token.index
            self._sampled(token, event.iteration if late else -1, received_ns)

    def _sampled(self, token: Sampled, iteration: int, received_ns: int) -> None:
        request = self._request(token.request)
        sample = request.sample(token.sample)
        if sample is None:
            return
        before = sample.latest
        if before is None and request.submitted_ns:
            self.timeline.ttft_ns.append(max(0, token.time_ns - request.submitted_ns))
        self.timeline.token(token.time_ns, before.time_ns if before else 0)
        self.timeline.transport_ns.append(self.clock.transport_ns(token.time_ns, received_ns))
        missing = token.index + 1 - len(sample.tokens)
        room = self.kept.room(missing, token.request) if 0 < missing <= self.limits.tokens else 0
        self.kept.tokens += sample.drew(token, iteration, room)
        if token.candidates and 0 <= token.index < len(sample.tokens):
            self.kept.has_candidates(token.request, token.sample, token.index)

    def _text_delta(self, event: TextDelta, received_ns: int) -> None:
        request = self._request(event.request)
        sample = request.sample(event.sample)
        if sample is not None:
            if self.remote:
                sample.first_token_ns = sample.first_token_ns or event.time_ns
            sample.transport_ns = self.clock.transport_ns(event.time_ns, received_ns)
            sample.said(event, received_ns)
            self.timeline.version += 1

    def _finished(self, event: Finished, received_ns: int) -> None:
        request = self._request(event.request)
        sample = request.sample(event.sample)
        if sample is None or sample.finished is not None:
            return
        if not sample.admitted and not request.source and event.prompt_tokens:
            self.pool.admitted(event.prompt_tokens, event.cached_tokens)
        sample.ended(event, received_ns)
        began = request.submitted_ns or event.timeline.submitted_ns
        timeline = self.timeline
        timeline.version += 1
        if began and sample.finished_ns:
            timeline.total_ns.append(max(0, sample.finished_ns - began))
            self.lanes.finished(self._finish_record(request, sample, began))
        if sample.scheduled_ns and sample.first_token_ns:
            timeline.prefill_ns.append(max(0, sample.first_token_ns - sample.scheduled_ns))
            queued = sample.queued_ns or began
            timeline.queue_ns.append(max(0, sample.scheduled_ns - queued) if queued else 0)
        if rate := sample.tokens_per_second():
            timeline.rates.append(rate)
        self._show(request, sample)

    def _finish_record(self, request: RequestState, sample: SampleState, began: int) -> FinishRecord:
        newest = self.lanes.records[-1] if self.lanes.records else None
        return FinishRecord(
            key=f"{request.work}/{sample.sample}",
            label=request.label,
            request=request.request,
            sample=sample.sample,
            policy=newest.policy if newest else self.switches.policy,
            prompt=len(request.prompt),
            generated=sample.generated,
            total_ns=max(0, sample.finished_ns - began),
            finished_ns=sample.finished_ns,
            cached=sample.cached,
        )

    def _show(self, request: RequestState, sample: SampleState) -> None:
        began = self.clock.here(request.submitted_ns)
        if began and sample.first_painted_ns:
            self.timeline.shown[request.delivery] = Shown(
                request=request.request,
                first_paint_ns=max(0, sample.first_painted_ns - began),
                completion_ns=max(0, sample.finished_received_ns - began),
                tokens=sample.generated,
            )

    def _rejected(self, event: Rejected, _: int) -> None:
        self._request(event.request).rejected = event
        self.failure = event

    def _failed(self, event: Failed, _: int) -> None:
        self.failure = event
        if event.fatal or event.loading:
            self.loading = None
        if event.request and event.request in self.requests:
            self._request(event.request).failure = event.message
