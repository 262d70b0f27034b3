"""Finding the server, and finding it again: no server is a reason to go on asking, a wrong one is not."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable

from .. import faults
from ..errors import CutawayError
from ..protocol import AnyEvent, Failed, LoadProgress
from . import keys
from .address import parse
from .connection import Connection
from .discovery import Found, discover
from .limits import USUAL, Limits
from .troubles import Unreachable

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 15.0  # seconds between two tries
TELL_EVERY = 1.0  # seconds

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """Which server: its address, its model where the load names none, its key's variable, and how long to wait."""

    address: str
    model: str = ""
    key_variable: str = ""
    limits: Limits = USUAL


class Connector:
    """Keeps trying until `connected` is called with what was found and how long it took, or `failed` with why not.

    `connection` stays open, whatever comes. Everything is called by one loop.
    """

    def __init__(
        self,
        server: Server,
        send: Callable[[AnyEvent], None],
        connected: Callable[[Found, int], None],
        failed: Callable[[CutawayError], None],
    ) -> None:
        self.connection: Connection | None = None
        self._server = server
        self._send = send
        self._connected = connected
        self._failed = failed
        self._model = ""
        self._task: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        return self._task is not None

    def begin(self, model: str) -> None:
        """Connect anew, to the model of this name."""
        self.cancel()
        self._model = model or self._server.model
        self._task = asyncio.create_task(self._try(None))

    def look_for(self, away: Unreachable) -> None:
        """The server has gone `away`: ask until it is back."""
        if self._task is None:
            self._task = asyncio.create_task(self._try(away))

    def cancel(self) -> bool:
        """Stop trying; says whether there was anything to stop."""
        task, self._task = self._task, None
        return task is not None and task.cancel()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self.connection is not None:
            await self.connection.close()

    async def _try(self, away: Unreachable | None) -> None:
        began = time.monotonic_ns()
        pause, told = FIRST_PAUSE, ""
        try:
            while True:
                if away is not None:
                    if str(away) != told:
                        told = str(away)
                        self._send(Failed(away.message, away.action, away.kind))
                    self._send(LoadProgress("connect", note=f"{self._server.address}, again in {pause:.0f} s"))
                    await asyncio.sleep(pause)
                    pause = min(LONGEST_PAUSE, pause * 2)
                try:
                    found = await self._discover()
                    break
                except Unreachable as error:
                    away = error
        except CutawayError as error:
            self._task = None
            self._failed(error)
        except Exception as error:  # whatever a library raises for an odd server: nobody may wait for ever
            logger.exception("while connecting")
            self._task = None
            self._failed(faults.as_error(error, "connecting"))
        else:
            self._task = None
            self._connected(found, time.monotonic_ns() - began)

    async def _discover(self) -> Found:
        """Raises `CutawayError`."""
        if self.connection is None:
            address = parse(self._server.address)
            self.connection = Connection(address, keys.find(address, self._server.key_variable))
        began = time.monotonic()
        working = asyncio.create_task(discover(self.connection, self._model, self._server.key_variable))
        try:
            while not (await asyncio.wait([working], timeout=TELL_EVERY))[0]:
                waited = f"{self._server.address} {time.monotonic() - began:.0f} s"
                self._send(LoadProgress("connect", note=waited))
        finally:
            working.cancel()
        return await working
