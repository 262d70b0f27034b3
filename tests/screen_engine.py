"""An engine in the test's own process: the scripted core, stepped whenever the event loop has nothing else to do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from cutaway.engine.errors import CutawayError, EngineDied
from cutaway.engine.protocol import (
    PROTOCOL_VERSION,
    AnyCommand,
    AnyEvent,
    Failed,
    Load,
    TextDelta,
    Welcome,
)

from .scripted_core import ScriptedCore, build


class InProcessEngine:
    """Implements the Engine protocol. `sent` keeps every command; `push` makes an event up; `hold` stops the steps."""

    def __init__(self) -> None:
        self.sent: list[AnyCommand] = []
        self.core: ScriptedCore | None = None
        self.hold = False
        self.starts = 0
        self._queue: asyncio.Queue[AnyEvent | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._dead = False

    async def start(self) -> Welcome:
        self.starts += 1
        self._queue = asyncio.Queue()
        self._dead = False
        self.core = None
        welcome = Welcome(PROTOCOL_VERSION, "test", 0, time.monotonic_ns())
        self._queue.put_nowait(welcome)
        self._task = asyncio.create_task(self._steps())
        return welcome

    async def send(self, command: AnyCommand) -> None:
        if self._dead:
            raise EngineDied("The engine is not running.")
        self.sent.append(command)
        if isinstance(command, Load):
            try:
                self.core = build(command, self.push, self.push, lambda: False)
            except CutawayError as error:
                self.push(Failed(error.message, error.action, error.kind, loading=True))
            else:
                self.core.start()
        elif self.core is not None:
            self.core.handle(command)

    async def events(self) -> AsyncIterator[AnyEvent]:
        while (event := await self._queue.get()) is not None:
            yield event

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def push(self, event: AnyEvent) -> None:
        """Say an event, as if the engine had."""
        self._queue.put_nowait(event)

    def say(self, request: str, text: str, tokens: int = 1) -> None:
        """Say a piece of a reply."""
        self.push(TextDelta(request, 0, text, tokens, time.monotonic_ns()))

    def die(self, message: str = "The engine was killed (signal 9).") -> None:
        """End in the middle of whatever it is doing, as the client tells it."""
        self._dead = True
        if self._task is not None:
            self._task.cancel()
        self.push(Failed(message, "Start it again.", "died", fatal=True))
        self._queue.put_nowait(None)

    def last(self, kind: type) -> AnyCommand:
        """The newest command of a kind."""
        return next(command for command in reversed(self.sent) if isinstance(command, kind))

    async def _steps(self) -> None:
        while True:
            if not self.hold and self.core is not None and self.core.has_work:
                self.core.step()
                await asyncio.sleep(0.0005)  # by a timer: what an event brings about is over before the next step
            else:
                await asyncio.sleep(0.002)
