"""Talking with an engine one request at a time, as `ask` and `chat` do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence

from ...engine.client import Engine
from ...engine.errors import CutawayError
from ...engine.protocol import (
    Abort,
    AnyEvent,
    CardChanged,
    Configured,
    Failed,
    Finished,
    LoadProgress,
    ModelCard,
    Ready,
    Rejected,
    Submit,
)
from . import exits
from .exits import EngineFailed
from .flags import EngineFlags
from .interrupts import interrupts
from .progress import Progress


class Refused(CutawayError):
    """The engine would not take the request."""

    kind = "prompt"


class Conversation:
    """A started engine with its model loaded, and one request after the other. `heard` gets every event."""

    def __init__(self, flags: EngineFlags, heard: Callable[[AnyEvent], None] = lambda event: None) -> None:
        self.flags = flags
        self.engine: Engine = flags.engine()
        self.card: ModelCard | None = None
        self.version = ""  # the engine's
        self.opened_s = 0.0  # from the command to the ready model
        self.heard = heard
        self._events: AsyncIterator[AnyEvent] | None = None

    async def open(self) -> ModelCard:
        """Start the engine, load the model with progress shown, set the switches.

        Raises `CutawayError`: what the engine or its start told.
        """
        began = time.monotonic()
        server = self.flags.server
        progress = Progress(server.url if server is not None else self.flags.load.model)
        try:
            self.version = (await self.engine.start()).engine
            self._events = self.engine.events()
            await self.engine.send(self.flags.load)
            async for event in self._listen():
                if isinstance(event, LoadProgress):
                    progress.show(event)
                elif isinstance(event, Failed):
                    raise EngineFailed(event)
                elif isinstance(event, Ready):
                    self.card = event.card
                elif isinstance(event, Configured) and self.card is not None:
                    break
        finally:
            progress.clear()
        assert self.card is not None
        await self.engine.send(self.flags.configure)
        self.opened_s = time.monotonic() - began
        return self.card

    async def compiled(self) -> ModelCard:
        """Wait until our own kernels serve, where they are still being compiled. Raises `EngineFailed`."""
        assert self.card is not None
        while self.card.compiling:
            await anext(self._listen())
        return self.card

    async def ask(self, submit: Submit, show: Callable[[AnyEvent], None]) -> list[Finished]:
        """Send a request and give `show` all of its events; returns the end of each sample.

        Ctrl+C stops the request, not the conversation: the ends then say "aborted". Raises `Refused`, or
        `EngineFailed` when the engine died.
        """
        await self.engine.send(submit)
        aborting: list[asyncio.Future[None]] = []
        ends: list[Finished] = []
        with interrupts(lambda: aborting.append(asyncio.ensure_future(self.engine.send(Abort(submit.request))))):
            async for event in self._listen():
                if isinstance(event, Failed):
                    if event.fatal:
                        raise EngineFailed(event)
                    if exits.debugging() and event.detail:
                        exits.say(event.detail)
                if getattr(event, "request", submit.request) != submit.request:
                    continue
                show(event)
                if isinstance(event, Rejected):
                    raise Refused(event.message, event.action)
                if isinstance(event, Finished):
                    ends.append(event)
                    if len(ends) == submit.samples:
                        break
        await asyncio.gather(*aborting, return_exceptions=True)
        return ends

    async def together(self, submits: Sequence[Submit], show: Callable[[AnyEvent], None]) -> list[Finished]:
        """Send requests of one sample each all at once; give `show` their events, and return their ends as they come.

        Raises `Refused` for the first that is rejected, or `EngineFailed` when the engine died.
        """
        waiting = {submit.request for submit in submits}
        for submit in submits:
            await self.engine.send(submit)
        ends: list[Finished] = []
        async for event in self._listen():
            if isinstance(event, Failed) and event.fatal:
                raise EngineFailed(event)
            if getattr(event, "request", "") not in waiting:
                continue
            show(event)
            if isinstance(event, Rejected):
                raise Refused(event.message, event.action)
            if isinstance(event, Finished):
                ends.append(event)
                waiting.remove(event.request)
                if not waiting:
                    break
        return ends

    async def close(self) -> None:
        await self.engine.close()

    async def _listen(self) -> AsyncIterator[AnyEvent]:
        assert self._events is not None
        async for event in self._events:
            if isinstance(event, CardChanged):
                self.card = event.card
            self.heard(event)
            yield event
        raise EngineFailed(Failed("The engine ended.", kind="died", fatal=True))
