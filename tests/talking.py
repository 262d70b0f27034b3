"""For tests that talk to an engine process: ask, and read until something happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from cutaway.engine.client import Engine, EngineClient
from cutaway.engine.protocol import AnyEvent, Finished, Load, Message, Ready, SamplingSettings, Step, Submit, TextDelta

from .patience import PATIENCE
from .scripted_engine import COMMAND


def submit(request: str, text: str, **fields: object) -> Submit:
    return Submit(request, messages=(Message("user", text),), **fields)  # pyright: ignore[reportArgumentType]


def limited(tokens: int) -> SamplingSettings:
    return SamplingSettings(max_tokens=tokens)


class Listener:
    """Reads an engine's events, keeping all of them."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.heard: list[AnyEvent] = []
        self._events = engine.events()

    async def until(self, wanted: Callable[[AnyEvent], bool]) -> AnyEvent:
        """The next event that is `wanted`; fails when the engine ends before."""

        async def find() -> AnyEvent:
            async for event in self._events:
                self.heard.append(event)
                if wanted(event):
                    return event
            raise AssertionError(f"the engine ended after {self.heard[-3:]}")

        return await asyncio.wait_for(find(), PATIENCE)

    async def first(self, kind: type, request: str = "") -> AnyEvent:
        return await self.until(lambda e: isinstance(e, kind) and (not request or e.request == request))

    async def token(self, request: str, index: int) -> AnyEvent:
        """The step that drew token `index` of `request`."""
        return await self.until(
            lambda e: isinstance(e, Step) and any(t.request == request and t.index == index for t in e.sampled)
        )

    async def finished(self, request: str) -> Finished:
        event = await self.first(Finished, request)
        assert isinstance(event, Finished)
        return event

    async def end(self) -> list[AnyEvent]:
        """Everything up to the engine's end."""

        async def read() -> None:
            async for event in self._events:
                self.heard.append(event)

        await asyncio.wait_for(read(), PATIENCE)
        return self.heard

    def text(self, request: str, sample: int = 0) -> str:
        deltas = (e for e in self.heard if isinstance(e, TextDelta) and (e.request, e.sample) == (request, sample))
        return "".join(delta.text for delta in deltas)


@asynccontextmanager
async def scripted(load: Load | None = None) -> AsyncIterator[tuple[EngineClient, Listener]]:
    """A started engine process with a loaded script."""
    client = EngineClient(COMMAND)
    await client.start()
    try:
        listener = Listener(client)
        await client.send(load or Load())
        await listener.first(Ready)
        yield client, listener
    finally:
        await client.close()
