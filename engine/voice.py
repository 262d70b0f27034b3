"""Between a core and the outbox: what a core says, and which ends it still owes. No torch."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from .protocol import AnyEvent, Finished, Fork, PromptRendered, Rejected, Submit


class Voice:
    """Called with every event of one core.

    Until `open`, events are kept back: a core built beside a serving one must not be heard. Every accepted request is
    owed a `Finished` for each of its samples; `owed` are those not yet given.
    """

    def __init__(self, send: Callable[[AnyEvent], None]) -> None:
        self._send = send
        self._kept: list[AnyEvent] | None = []
        self._failing: dict[str, str] = {}  # request -> what went wrong
        self.owed: dict[str, set[int]] = {}  # request -> samples
        self.said = 0  # events so far

    def open(self) -> None:
        """Be heard from now on, beginning with what was kept back."""
        kept, self._kept = self._kept or [], None
        for event in kept:
            self(event)

    def expect(self, command: Submit | Fork) -> bool:
        """Note what `command` will be owed. False if a request of that name is still running."""
        if command.request in self.owed:
            return False
        samples = command.samples if isinstance(command, Submit) else 1
        self.owed[command.request] = set(range(max(1, samples)))
        return True

    def __call__(self, event: AnyEvent) -> None:
        self.said += 1
        if self._kept is not None:
            self._kept.append(event)
            return
        if isinstance(event, Finished):
            self._finished(event)
            return
        if isinstance(event, Rejected):
            self.owed.pop(event.request, None)
        elif isinstance(event, PromptRendered) and event.request not in self.owed:
            self.owed[event.request] = set(range(max(1, event.samples)))
        self._send(event)

    def failing(self, request: str, detail: str) -> None:
        """From now on, an abort of `request` is told as the failure that made it necessary."""
        self._failing[request] = detail

    def settle(self, request: str) -> None:
        """Give the ends of `request` that are still owed after its abort: those of samples that never began."""
        for sample in sorted(self.owed.get(request, ())):
            self(Finished(request, sample, "aborted"))

    def _finished(self, event: Finished) -> None:
        samples = self.owed.get(event.request)
        if samples is None or event.sample not in samples:
            return  # given already, by `settle`
        samples.discard(event.sample)
        detail = self._failing.get(event.request)
        if detail is not None and event.reason == "aborted":
            event = msgspec.structs.replace(event, reason="failed", detail=detail)
        if not samples:
            del self.owed[event.request]
            self._failing.pop(event.request, None)
        self._send(event)
