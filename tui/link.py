"""Keeps an engine running behind the screen: starts it, loads the model, passes events on, starts it again. No Textual.

What is asked before the model is ready waits here and is sent in order when it is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from ..engine.client import Engine
from ..engine.errors import CutawayError, EngineDied
from ..engine.protocol import (
    AnyCommand,
    AnyEvent,
    CancelLoad,
    Configure,
    Failed,
    Fork,
    Load,
    Ready,
    Rejected,
    Submit,
)

Heard = Callable[[AnyEvent], None]
Lost = Callable[[str, str], None]


class EngineLink:
    """One engine and the tasks that talk to it. `heard` gets every event, `lost` a sentence when the engine is gone."""

    def __init__(
        self, engine: Engine, load: Load, heard: Heard, lost: Lost, configure: Configure | None = None
    ) -> None:
        self.engine = engine
        self.load = load
        self.configure = configure  # how the switches stand at every start
        self.loading = False  # a load was asked for that has neither come nor failed
        self.alive = False
        self.ready = False
        self._heard = heard
        self._lost = lost
        self._outgoing: asyncio.Queue[AnyCommand] = asyncio.Queue()
        self._held: list[AnyCommand] = []
        self._again = asyncio.Event()
        self._served = load  # what was loaded last, or is to be at first
        self._swap: Callable[[], None] | None = None
        self._serving: asyncio.Task[None] | None = None

    def change(self, load: Load) -> None:
        """Load another model: at once, or when the engine starts. The loaded one serves until the other is ready.

        If it can't be loaded, the one before is what the next start loads.
        """
        self.load = load
        if self.alive:
            self.loading = True
            self._outgoing.put_nowait(load)

    def switch(self, swap: Callable[[], None], load: Load, configure: Configure | None) -> None:
        """Close this engine; when it is gone, `swap` puts another in its place, which is started and loads `load`.

        Whatever was asked and not answered is dropped: who asked tells it.
        """
        self.load = self._served = load
        self.configure = configure
        self._held = [command for command in self._held if not isinstance(command, Submit)]
        self.alive = self.ready = self.loading = False
        closing, self._swap = self._swap is not None, swap
        self._again.set()
        if self._serving is not None and not closing:
            self._serving.cancel()

    def cancel_load(self) -> None:
        """Stop the load under way; the engine says so when it has."""
        if self.alive and self.loading:
            self._outgoing.put_nowait(CancelLoad())

    def ask(self, command: AnyCommand) -> None:
        """Send something that needs no model, at once if there is an engine."""
        if self.alive:
            self._outgoing.put_nowait(command)

    @property
    def elsewhere(self) -> bool:
        """Whether the engine was started by a command of the reader's, such as ssh: it may see other files."""
        return not getattr(self.engine, "local", True)

    def send(self, *commands: AnyCommand) -> None:
        """Send in order, as soon as the model is ready. After the engine's death: dropped (the loss was told)."""
        for command in commands:
            if self.ready:
                self._outgoing.put_nowait(command)
            else:
                self._held.append(command)

    def restart(self) -> None:
        """Start the engine again after its death."""
        self._again.set()

    def load_again(self) -> None:
        """Ask a running engine once more for a model that it could not load."""
        if self.alive and not self.ready:
            self._outgoing.put_nowait(self.load)

    async def run(self) -> None:
        """Start, load and listen, again and again, until cancelled."""
        while True:
            self._again.clear()
            if self._swap is not None:
                swap, self._swap = self._swap, None
                swap()
            self._serving = asyncio.create_task(self._serve())
            try:
                await self._serving
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if self._swap is None or (task is not None and task.cancelling()):
                    raise
            self.alive = self.ready = False
            await self._again.wait()

    async def _serve(self) -> None:
        writer: asyncio.Task[None] | None = None
        try:
            self._heard(await self.engine.start())
            self.alive = True
            self._outgoing = asyncio.Queue()
            self._outgoing.put_nowait(self.load)
            self.loading = True
            writer = asyncio.create_task(self._write())
            told = False
            async for event in self.engine.events():
                if self._swap is not None:  # left for another engine
                    return
                if isinstance(event, Ready):
                    self.loading, self._served = False, self.load
                elif isinstance(event, Failed) and event.loading:
                    self.loading, self.load = False, self._served
                self._heard(event)
                if self._swap is not None:
                    return
                if isinstance(event, Ready):
                    self._release()
                elif isinstance(event, Failed) and event.fatal:
                    told = True
                    self._gone(event.message, event.action)
            if not told:
                self._gone("The engine ended.", "")
        except CutawayError as error:
            self._gone(error.message, error.action)
        finally:
            if writer is not None:
                writer.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await writer
            await self.engine.close()

    def _release(self) -> None:
        # After a change of models the engine knows by itself how the switches stand.
        first: list[AnyCommand] = [self.configure] if self.configure is not None and not self.ready else []
        self.ready = True
        held, self._held = self._held, []
        for command in first + held:
            self._outgoing.put_nowait(command)

    def _gone(self, message: str, action: str) -> None:
        self.alive = self.ready = self.loading = False
        # A question that was never sent is told as lost with the others; switches are set again by the reader.
        self._held = [command for command in self._held if not isinstance(command, Submit)]
        self._lost(message, action)

    async def _write(self) -> None:
        while True:
            command = await self._outgoing.get()
            try:
                await self.engine.send(command)
            except EngineDied:
                return  # the listener hears of the death and tells it
            except CutawayError as error:  # the engine lives; this command can't be sent
                self._heard(_unsent(command, error))


def _unsent(command: AnyCommand, error: CutawayError) -> AnyEvent:
    """What the engine would have said of a command that did not get to it."""
    if isinstance(command, Submit | Fork):
        return Rejected(command.request, error.message, error.action)
    return Failed(error.message, error.action, error.kind, loading=isinstance(command, Load))
