"""Which engine answers: the one of this machine, or one that stands in for a server. No Textual."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol

import msgspec

from ..engine.client import Engine
from ..engine.protocol import AnyCommand, AnyEvent, Configure, Load, Welcome
from .state.choice import Choice


class SwitchingEngine:
    """An engine whose place another one can take between its end and its next start."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @property
    def local(self) -> bool:
        """Whether the engine sees the same files and memory as we."""
        return getattr(self.engine, "local", True)

    async def start(self) -> Welcome:
        """Raises as the engine's own `start`."""
        return await self.engine.start()

    async def send(self, command: AnyCommand) -> None:
        """Raises as the engine's own `send`."""
        await self.engine.send(command)

    async def events(self) -> AsyncIterator[AnyEvent]:
        async for event in self.engine.events():
            yield event

    async def close(self) -> None:
        await self.engine.close()


class Prepared(msgspec.Struct, frozen=True):
    """What it takes to be answered by a choice; `swap` puts its engine in the place of one that was closed."""

    load: Load
    configure: Configure | None
    swap: Callable[[], None]


class Sources(Protocol):
    """Every engine that a chat may be answered by."""

    @property
    def first(self) -> Choice | None:
        """What the program was started with; None where that can't be named, such as an engine's command."""
        ...

    def servers(self) -> Mapping[str, str]:
        """The servers that have names, and their addresses."""
        ...

    def prepare(self, choice: Choice) -> Prepared:
        """Raises `CutawayError` for a choice that names nothing."""
        ...

    def keep(self, choice: Choice) -> None:
        """Let the next start of the program begin with this choice."""
        ...


class Answering:
    """Which choice answers now, and which comes next: it is on trial until its model is there."""

    def __init__(self, sources: Sources | None) -> None:
        self.sources = sources
        self.now = sources.first if sources is not None else None
        self.last = self.now  # what a new chat begins with
        self.before: Choice | None = None  # what to go back to if the one on trial fails
        self.picked = False  # the one on trial was picked by the reader

    @property
    def told(self) -> str:
        """Who answers, for a sentence."""
        return (self.now.told() if self.now is not None else "") or "The engine"

    def try_out(self, choice: Choice, picked: bool) -> None:
        self.before = self.before or self.now
        self.now, self.picked = choice, picked

    def proved(self) -> None:
        """The model is there: what the reader picked is what new chats, and the next start, begin with."""
        picked, self.picked, self.before = self.picked, False, None
        if picked and self.now is not None and self.sources is not None:
            self.last = self.now
            self.sources.keep(self.now)
