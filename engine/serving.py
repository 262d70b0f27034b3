"""The engine's main loop: commands in, steps while there is work, no processor time while there is none. No torch."""

from __future__ import annotations

import dataclasses
import gc
import logging
import queue
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from . import faults, machine
from .errors import CutawayError, LoadCancelled
from .loading import Build, Core, Loading
from .protocol import (
    Abort,
    AnyCommand,
    AnyEvent,
    CancelLoad,
    Configure,
    Failed,
    Finished,
    Fork,
    Hello,
    Inspect,
    Load,
    LoadProgress,
    Metrics,
    Rejected,
    Shutdown,
    Submit,
)
from .voice import Voice

NOTHING_RAN = 0.005  # seconds to wait when a core that claims to have work did none

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Lost:
    """The client is gone, or can't be understood any more: `problem` says which, empty for a plain end."""

    problem: str = ""


@dataclasses.dataclass(frozen=True)
class Unreadable:
    """One command that could not be read; the next ones can."""

    problem: CutawayError


Item: TypeAlias = AnyCommand | Loading | Lost | Unreadable | None  # None: the core has something to do


class Serving:
    """Applies what comes into `inbox` and steps the core. All state is touched by the thread in `run` only."""

    def __init__(self, build: Build, send: Callable[[AnyEvent], None]) -> None:
        self.inbox: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._build = build
        self._send = send
        self._core: Core | None = None
        self._voice = Voice(send)
        self._loading: Loading | None = None
        self._after: Load | None = None  # to be loaded when the load under way has wound down
        self._ready: Loading | None = None  # loaded; takes over when the old core owes nothing
        self._held: list[Submit | Fork] = []  # for the model that is coming
        self._switches = Configure()
        self._checked = True  # whether the core was checked since it last ran
        self._code: int | None = None

    def run(self) -> int:
        """Serve until `Shutdown` (returns 0), the client's end (0) or a failure that can't be survived (1)."""
        while self._code is None:
            self._apply_waiting()
            if self._code is not None:
                break
            self._take_over_if_idle()
            if self._core is not None and self._core.has_work:
                self._step(self._core)
            elif self._core is not None and not self._checked and not self._voice.owed:
                self._check(self._core)
        return self._code

    def _busy(self) -> bool:
        if self._core is not None and self._core.has_work:
            return True
        return not self._voice.owed and (not self._checked or self._ready is not None)

    # ------------------------------------------------------------------------------------------------ commands

    def _apply_waiting(self) -> None:
        """Apply everything that waits; where there is nothing to run, wait for something without any work."""
        idle = not self._busy()
        while self._code is None:
            try:
                item = self.inbox.get(block=idle)
            except queue.Empty:
                return
            self._apply(item)
            idle = False

    def _apply(self, item: Item) -> None:
        match item:
            case Lost(problem=problem):
                if problem:
                    self._send(Failed(problem, kind="protocol", fatal=True))
                self._stop(1 if problem else 0)
            case Unreadable(problem=problem):
                self._send(Failed(problem.message, problem.action, problem.kind))
            case Shutdown():
                self._stop(0)
            case Hello() | None:
                pass  # answered before the loop began; looked after by it
            case Load():
                self._load(item)
            case CancelLoad():
                self._cancel_load()
            case Loading():
                self._loaded(item)
            case Inspect(machine=True):
                machine.tell(self._send)
            case _:
                self._pass_on(item)

    def _pass_on(self, command: AnyCommand) -> None:
        if isinstance(command, Configure):
            self._remember(command)
        if isinstance(command, Abort) and self._abort_held(command.request):
            return
        coming = self._ready is not None or (self._core is None and self._loading is not None)
        if isinstance(command, Submit) and coming:
            self._held.append(command)
        elif self._core is None:
            self._without_core(command)
        elif isinstance(command, (Submit, Fork)) and not self._voice.expect(command):
            self._send(Rejected(command.request, f"The request {command.request!r} is still running."))
        else:
            self._handle(self._core, command)

    def _without_core(self, command: AnyCommand) -> None:
        if isinstance(command, (Submit, Fork)):
            self._send(Rejected(command.request, "No model is loaded.", "Load one first."))
        elif isinstance(command, Inspect):
            self._send(Metrics())

    def _handle(self, core: Core, command: AnyCommand) -> None:
        try:
            core.handle(command)
        except Exception as error:
            logger.exception("while carrying out %s", type(command).__name__)
            told = faults.as_error(error, f"carrying out {type(command).__name__}")
            if isinstance(command, (Submit, Fork)):
                self._voice(Rejected(command.request, told.message, told.action))
            else:
                self._send(Failed(told.message, told.action, told.kind, detail=faults.details(error)))
        if isinstance(command, Abort):
            self._voice.settle(command.request)
        self._checked = False

    def _abort_held(self, request: str) -> bool:
        for command in self._held:
            if command.request == request:
                self._held.remove(command)
                for sample in range(command.samples if isinstance(command, Submit) else 1):
                    self._send(Finished(request, sample, "aborted"))
                return True
        return False

    def _stop(self, code: int) -> None:
        self._code = code
        if self._loading is not None:
            self._loading.cancel()
        if self._core is not None:
            for request in list(self._voice.owed):
                self._handle(self._core, Abort(request))
            self._core.close()

    # --------------------------------------------------------------------------------------------------- loads

    def _load(self, load: Load) -> None:
        self._ready = None
        if self._loading is not None:
            self._loading.cancel()
            self._after = load
            return
        self._loading = Loading(load, self._build, self._send, self.inbox.put)
        self._loading.start()

    def _cancel_load(self) -> None:
        wanted = self._after or (self._ready.load if self._ready else None)
        if self._loading is not None and not self._loading.cancelled:
            wanted = wanted or self._loading.load
            self._loading.cancel()
        self._after = self._ready = None
        if wanted is not None:
            # Said at once: the loader may need a while to notice, and nobody has to wait for that.
            self._not_loaded(LoadCancelled(f"Loading {_name(wanted)} was cancelled."))

    def _loaded(self, loading: Loading) -> None:
        self._loading = None
        if loading.cancelled:
            logger.info("the load of %s was cancelled", _name(loading.load))
        elif loading.error is not None:
            trace = faults.details(loading.error)
            logger.error("loading %s failed\n%s", _name(loading.load), trace)
            self._not_loaded(faults.as_error(loading.error, f"loading {_name(loading.load)}"), trace)
        else:
            self._ready = loading
            if self._voice.owed:
                note = f"takes over when {len(self._voice.owed)} running replies have ended"
                self._send(LoadProgress("swap", note=note))
        if self._after is not None:
            after, self._after = self._after, None
            self._load(after)

    def _not_loaded(self, error: CutawayError, detail: str = "") -> None:
        self._send(Failed(error.message, error.action, error.kind, detail=detail, loading=True))
        held, self._held = self._held, []
        for command in held:
            if self._core is not None:
                self._pass_on(command)
            else:
                self._send(Rejected(command.request, "No model is loaded.", "Load one first."))

    def _take_over_if_idle(self) -> None:
        if self._ready is None or self._voice.owed:
            return
        ready, self._ready = self._ready, None
        if self._core is not None:
            self._core.close()
        self._core = None
        gc.collect()  # the old model's tensors go before the new one allocates more
        self._core, self._voice, self._checked = ready.core, ready.voice, True
        assert self._core is not None
        self._voice.open()
        self._core.start(lambda: self.inbox.put(None))
        if self._switches != Configure():
            self._handle(self._core, self._switches)
        held, self._held = self._held, []
        for command in held:
            self._pass_on(command)

    def _remember(self, command: Configure) -> None:
        """Keep what the user switched for the next model. Sizes belong to a load, and True is every model's default."""
        kept = {n: v for n in ("policy", "kv_reuse", "delivery", "inspect") if (v := getattr(command, n)) is not None}
        if command.prefix_cache is not None:
            kept["prefix_cache"] = None if command.prefix_cache else False
        self._switches = msgspec.structs.replace(self._switches, **kept)

    # --------------------------------------------------------------------------------------------------- steps

    def _step(self, core: Core) -> None:
        said = self._voice.said
        self._checked = False
        try:
            core.step()
        except Exception as error:
            self._step_failed(core, error)
            return
        if self._voice.said == said and core.has_work:
            try:
                self._apply(self.inbox.get(timeout=NOTHING_RAN))
            except queue.Empty:
                return

    def _step_failed(self, core: Core, error: Exception) -> None:
        """End every running request: which of them was at fault, a core that knew would have said itself."""
        logger.exception("a step failed")
        told = faults.as_error(error, "a step")
        self._send(Failed(told.message, told.action, told.kind, detail=faults.details(error)))
        for request in list(self._voice.owed):
            self._voice.failing(request, told.message)
            try:
                core.handle(Abort(request))
            except Exception as second:
                self._broken(second, f"ending {request}")
            self._voice.settle(request)

    def _check(self, core: Core) -> None:
        self._checked = True
        try:
            core.idle_check()
        except Exception as error:
            self._broken(error, "checking the page pool")

    def _broken(self, error: Exception, doing: str) -> None:
        """A core in this state could answer wrongly, so it does not answer at all."""
        logger.critical("%s failed\n%s", doing, faults.details(error))
        told = faults.as_error(error, doing)
        self._send(Failed(told.message, told.action, told.kind, fatal=True, detail=faults.details(error)))
        self._code = 1


def _name(load: Load) -> str:
    return load.model or "the default model"
