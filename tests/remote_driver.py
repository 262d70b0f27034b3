"""The remote core in the test's own process: commands in, events out, with a small server to talk to."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from cutaway.engine.protocol import (
    AnyCommand,
    AnyEvent,
    Configure,
    Configured,
    Finished,
    Load,
    Message,
    ModelCard,
    Ready,
    Rejected,
    Sampled,
    SamplingSettings,
    Shutdown,
    Step,
    Submit,
    TextDelta,
)
from cutaway.engine.remote.connecting import Server
from cutaway.engine.remote.limits import USUAL, Limits
from cutaway.engine.remote.serving import RemoteServing

from .http_server import HttpServer, Routes, serving
from .patience import PATIENCE

E = TypeVar("E")


class RemoteCore:
    """A running remote core and everything it has said."""

    def __init__(self, address: str, model: str = "", key_variable: str = "", limits: Limits = USUAL) -> None:
        self.events: list[AnyEvent] = []
        self.code: int | None = None
        self._changed = threading.Condition()
        self._serving = RemoteServing(Server(address, model, key_variable, limits), self._heard)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.code = self._serving.run()

    def _heard(self, event: AnyEvent) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def send(self, *commands: AnyCommand) -> None:
        for command in commands:
            self._serving.inbox.put(command)

    def until(self, wanted: Callable[[], object], why: str = "") -> None:
        """Wait until the events heard are what is wanted."""
        with self._changed:
            assert self._changed.wait_for(wanted, PATIENCE), f"waited in vain for {why}: {self.events[-3:]}"

    def all(self, kind: type[E], request: str = "") -> list[E]:
        return [
            event
            for event in self.events
            if isinstance(event, kind) and (not request or getattr(event, "request", "") == request)
        ]

    def first(self, kind: type[E], request: str = "", after: int = 0) -> E:
        """The first event of a kind, waited for; `after` skips as many."""
        self.until(lambda: len(self.all(kind, request)) > after, kind.__name__)
        return self.all(kind, request)[after]

    def connect(self, model: str = "", inspect: bool = True) -> ModelCard:
        self.send(Load(model))
        card = self.first(Ready).card
        self.send(Configure(inspect=inspect))
        self.first(Configured, after=1)
        return card

    def ask(
        self, request: str = "r", text: str = "hi", settings: SamplingSettings | None = None, **fields: object
    ) -> Finished:
        """Ask, and wait for the end of every sample; returns the first one's."""
        command = Submit(request, (Message("user", text),), settings=settings or SamplingSettings(), **fields)  # pyright: ignore[reportArgumentType]
        self.send(command)
        self.until(lambda: len(self.all(Finished, request)) >= command.samples, "the end")
        return self.all(Finished, request)[0]

    def refused(self, request: str = "r", **fields: object) -> Rejected:
        self.send(Submit(request, (Message("user", "hi"),), **fields))  # pyright: ignore[reportArgumentType]
        return self.first(Rejected, request)

    def text(self, request: str = "r", sample: int = 0, channel: str = "answer") -> str:
        deltas = self.all(TextDelta, request)
        return "".join(delta.text for delta in deltas if (delta.sample, delta.channel) == (sample, channel))

    def tokens(self, request: str = "r") -> list[Sampled]:
        return [token for step in self.all(Step) for token in step.sampled if token.request == request]

    def end(self) -> int | None:
        self.send(Shutdown())
        self._thread.join(PATIENCE)
        return self.code


@contextlib.contextmanager
def core(address: str, model: str = "", key_variable: str = "", limits: Limits = USUAL) -> Iterator[RemoteCore]:
    running = RemoteCore(address, model, key_variable, limits)
    try:
        yield running
    finally:
        assert running.end() == 0


@contextlib.contextmanager
def connected(
    routes: Routes, model: str = "", inspect: bool = True, limits: Limits = USUAL
) -> Iterator[tuple[RemoteCore, HttpServer]]:
    """A core that is connected to a server with these routes."""
    with serving(routes) as server, core(server.url, limits=limits) as running:
        running.connect(model, inspect)
        yield running, server
