"""The remote core's main loop: commands in, requests to a server, events out. Stands where `engine.serving` stands.

Connecting is this core's load. While no server answers it asks again, by itself, for as long as somebody listens.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
from collections.abc import Callable

import msgspec

from .. import faults, machine
from ..errors import CutawayError
from ..protocol import (
    Abort,
    AnyEvent,
    CancelLoad,
    CardChanged,
    ClearCache,
    Configure,
    Configured,
    Failed,
    Finished,
    Fork,
    Hello,
    Inspect,
    Load,
    Metrics,
    ModelCard,
    Pause,
    Ready,
    Rejected,
    Resume,
    Shutdown,
    StepOnce,
    Submit,
    Switches,
)
from ..serving import Lost, Unreadable
from . import card as cards
from . import prometheus
from .asking import Asking
from .connecting import Connector, Server
from .discovery import Found
from .troubles import Unreachable

logger = logging.getLogger(__name__)


class Inbox:
    """Takes items from any thread and gives them to the loop."""

    def __init__(self) -> None:
        self._items: collections.deque[object] = collections.deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._came = asyncio.Event()

    def put(self, item: object) -> None:
        self._items.append(item)
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody takes any more
                self._loop.call_soon_threadsafe(self._came.set)

    async def get(self) -> object:
        self._loop = asyncio.get_running_loop()
        while not self._items:
            self._came.clear()
            if not self._items:
                await self._came.wait()
        return self._items.popleft()


class RemoteServing:
    """One client, one server. Everything but `inbox.put` happens in the loop that `run` runs."""

    def __init__(self, server: Server, send: Callable[[AnyEvent], None]) -> None:
        self.inbox = Inbox()
        self._server = server
        self._send = send
        self._connector = Connector(server, send, self._connected, self._not_connected)
        self._found: Found | None = None
        self._card: ModelCard | None = None
        self._metrics: asyncio.Task[None] | None = None
        self._asked: dict[str, tuple[Asking, asyncio.Task[None]]] = {}
        self._held: list[Submit] = []  # until the server is there
        self._refused: frozenset[str] = frozenset()  # parameters that the server does not take
        self._switches = Switches(token_budget=0, max_lanes=0)
        self._code: int | None = None

    def run(self) -> int:
        """Serve until `Shutdown` (returns 0), the client's end (0), or a client that can't be understood (1)."""
        return asyncio.run(self._run())

    async def _run(self) -> int:
        try:
            while self._code is None:
                item = await self.inbox.get()
                try:
                    self._apply(item)
                except Exception as error:
                    logger.exception("while carrying out %s", type(item).__name__)
                    told = faults.as_error(error, f"carrying out {type(item).__name__}")
                    self._send(Failed(told.message, told.action, told.kind, request=getattr(item, "request", "")))
            return self._code
        finally:
            await self._wind_down()

    async def _wind_down(self) -> None:
        for name in list(self._asked):
            self._abort(name)
        tasks = [task for _, task in self._asked.values()]
        if self._metrics is not None:
            tasks.append(self._metrics)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._connector.close()

    # ------------------------------------------------------------------------------------------------ commands

    def _apply(self, item: object) -> None:
        match item:
            case Lost(problem=problem):
                if problem:
                    self._send(Failed(problem, kind="protocol", fatal=True))
                self._code = 1 if problem else 0
            case Unreadable(problem=problem):
                self._send(Failed(problem.message, problem.action, problem.kind))
            case Shutdown():
                self._code = 0
            case Hello():
                pass
            case Load(model=model):
                self._load(model)
            case CancelLoad():
                if self._connector.cancel():
                    self._send(Failed("Connecting was cancelled.", kind="cancelled", loading=True))
            case Submit():
                self._submit(item)
            case Fork(request=request):
                self._send(Rejected(request, self._missing("fork")))
            case Abort(request=request):
                self._abort(request)
            case Configure():
                self._configure(item)
            case Inspect(machine=True):
                machine.tell(self._send)
            case Inspect(page=None):
                self._measure()
            case Inspect():
                self._cannot("pages")
            case Pause() | StepOnce() | Resume():
                self._cannot("pause")
            case ClearCache():
                self._cannot("switches")
            case _:
                logger.warning("no such command: %s", type(item).__name__)

    def _missing(self, capability: str) -> str:
        told = self._card.missing.get(capability, "") if self._card is not None else ""
        return told or "A server can't do this."

    def _cannot(self, capability: str) -> None:
        self._send(Failed(self._missing(capability), kind="setting"))

    def _configure(self, command: Configure) -> None:
        if command.request is not None:
            if command.request in self._asked:
                self._send(Failed("A server takes settings with the request: they hold from the next message on."))
            return
        if command.policy is not None or command.prefix_cache is False or command.kv_reuse is False:
            self._cannot("switches")
        changes = {name: value for name in ("delivery", "inspect") if (value := getattr(command, name)) is not None}
        self._switches = msgspec.structs.replace(self._switches, **changes)
        self._send(Configured(self._switches))

    # ---------------------------------------------------------------------------------------------- connecting

    def _load(self, model: str) -> None:
        self._refused = frozenset()
        self._connector.begin(model)

    def _not_connected(self, error: CutawayError) -> None:
        self._send(Failed(error.message, error.action, error.kind, loading=True))
        held, self._held = self._held, []
        for command in held:
            self._send(Rejected(command.request, error.message, error.action))

    def _connected(self, found: Found, took_ns: int) -> None:
        same = self._card is not None and self._found is not None and self._found.model == found.model
        logprobs = not same or self._card is None or "candidates" in self._card.capabilities
        self._found, self._card = found, self._make_card(found, took_ns, logprobs)
        logger.info("connected to %s", self._card.attention_note)
        self._send(Ready(self._card))
        self._send(Configured(self._switches))
        held, self._held = self._held, []
        for command in held:
            self._submit(command)

    def _make_card(self, found: Found, took_ns: int, logprobs: bool) -> ModelCard:
        connection = self._connector.connection
        return cards.make(found, took_ns, logprobs=logprobs, exposed=connection is not None and connection.exposed)

    # ------------------------------------------------------------------------------------------------ requests

    def _submit(self, command: Submit) -> None:
        if command.request in self._asked:
            self._send(Rejected(command.request, f"The request {command.request!r} is still running."))
            return
        connection = self._connector.connection
        if self._found is None or connection is None:
            if self._connector.busy:
                self._held.append(command)
            else:
                self._send(Rejected(command.request, "There is no server.", "Check --server and --model."))
            return
        asking = Asking(
            command,
            connection,
            self._found,
            self._send,
            panels=self._switches.inspect,
            refused=self._refused,
            variable=self._server.key_variable,
            limits=self._server.limits,
            buffered=lambda: self._switches.delivery == "buffered",
            unreachable=self._connector.look_for,
            learned=self._learn,
            no_logprobs=self._no_logprobs,
        )
        task = asyncio.create_task(asking.run())
        self._asked[command.request] = (asking, task)
        task.add_done_callback(lambda task: self._asked_over(command.request, task))

    def _asked_over(self, request: str, task: asyncio.Task[None]) -> None:
        asking, _ = self._asked.pop(request, (None, None))
        if task.cancelled() or (error := task.exception()) is None:
            return
        logger.error("a request failed\n%s", faults.details(error))
        if asking is not None:
            asking.fail(faults.as_error(error, "asking the server").message)

    def _abort(self, request: str) -> None:
        for command in [held for held in self._held if held.request == request]:
            self._held.remove(command)
            for sample in range(command.samples):
                self._send(Finished(request, sample, "aborted"))
        asking, task = self._asked.get(request, (None, None))
        if asking is not None and task is not None:
            asking.abort()
            task.cancel()

    def _learn(self, refused: frozenset[str]) -> None:
        self._refused |= refused
        if "logprobs" in refused:
            self._no_logprobs()

    def _no_logprobs(self) -> None:
        """The server has shown that it gives none: the panels shall say so."""
        if self._found is not None and self._card is not None and "candidates" in self._card.capabilities:
            self._card = self._make_card(self._found, self._card.load_ns, logprobs=False)
            self._send(CardChanged(self._card))

    # ------------------------------------------------------------------------------------------------- metrics

    def _measure(self) -> None:
        """Fetch the server's totals, unless that is under way."""
        if self._found is None or not self._found.metrics:
            self._send(Metrics(untold=prometheus.OURS))
        elif self._metrics is None and not self._connector.busy:
            self._metrics = asyncio.create_task(self._fetch_metrics(self._found))

    async def _fetch_metrics(self, found: Found) -> None:
        connection = self._connector.connection
        assert connection is not None
        try:
            answer = await connection.get(f"{found.root}/metrics")
            if answer.good:
                self._send(prometheus.metrics(answer.body.decode("utf-8", "replace"), found.model))
        except Unreachable as error:
            if not self._asked:
                self._connector.look_for(error)  # it went away while idle
        finally:
            self._metrics = None
