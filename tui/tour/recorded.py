"""A recorded tour: answers each run of a chapter with the events of that run on the real model. No model, no torch."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import os
import time
from collections.abc import AsyncIterator
from importlib import resources
from pathlib import Path

from ...engine import trace
from ...engine.errors import TraceError
from ...engine.protocol import (
    PROTOCOL_VERSION,
    Abort,
    AnyCommand,
    AnyEvent,
    ClearCache,
    Command,
    Configured,
    Finished,
    Fork,
    Inspect,
    Load,
    Rejected,
    Shutdown,
    Submit,
    Welcome,
)
from ..session import Session

TRACE = "tour.trace"


@dataclasses.dataclass(slots=True)
class Run:
    """The messages of one run, from the cleared cache on; `key` is "chapter/setting"."""

    entries: list[trace.Entry]

    @property
    def key(self) -> str:
        named = (e.message.request for e in self.entries if isinstance(e.message, Submit | Fork))
        return "/".join(next(named, "").split("/")[1:3])

    @property
    def question(self) -> str:
        """What the reader's own request asked in it."""
        for entry in self.entries:
            message = entry.message
            if isinstance(message, Submit) and message.request.endswith("/mine") and message.messages:
                return message.messages[-1].content
        return ""


class RecordedTour:
    """Plays a trace of the unattended tour, each run when it is asked for.

    Recorded commands are the beats: what came after one then comes after the same one now. A run that was not recorded
    is rejected. `speed` multiplies the original pace; None does not wait at all.
    """

    def __init__(self, path: Path, speed: float | None = 1.0) -> None:
        self.path = path
        self.speed = speed
        self._head: list[AnyEvent] = []
        self._runs: dict[str, Run] = {}
        self._now_ns = 0
        self._began_ns = 0
        self._queue: asyncio.Queue[tuple[int, AnyEvent] | None] = asyncio.Queue()  # when it came in, and what
        self._switched: Configured | None = None  # what any switch is answered with before it is known which run begins
        self._playing: asyncio.Task[None] | None = None
        self._sent = 0  # commands of the run so far
        self._beat = asyncio.Event()
        self._open: set[str] = set()  # requests under way
        self._left: list[Command] = []  # of the run being played

    def now_ns(self) -> int:
        """When the message played last came in, on the recorder's clock."""
        return self._now_ns

    @property
    def question(self) -> str:
        """The question that was followed. Empty before `start`."""
        return next((run.question for run in self._runs.values() if run.question), "")

    async def start(self) -> Welcome:
        """Read the recording. Raises `TraceError` for a file that is none."""
        self._queue = asyncio.Queue()
        self._began_ns = trace.read_header(self.path).began_ns
        entries = list(trace.read(self.path))
        cuts = [at for at, entry in enumerate(entries) if isinstance(entry.message, ClearCache)]
        before = [entry.message for entry in entries[: cuts[0] if cuts else 0]]
        self._head = [message for message in before if not isinstance(message, Command)]
        self._switched = next((message for message in self._head if isinstance(message, Configured)), None)
        runs = [Run(entries[begin:end]) for begin, end in itertools.pairwise([*cuts, len(entries)])]
        self._runs = {run.key: run for run in runs if run.key}
        if not self._runs:
            raise TraceError(f"{self.path} holds no tour.", "Record one with cutaway tour --check --trace FILE.")
        self._now_ns = self._began_ns + entries[0].t
        welcome = next((event for event in self._head if isinstance(event, Welcome)), None)
        self._head = [event for event in self._head if event is not welcome]
        return welcome or Welcome(PROTOCOL_VERSION, "replay", os.getpid(), self._now_ns)

    async def send(self, command: AnyCommand) -> None:
        match command:
            case Load():
                for event in self._head:
                    self._tell(event)
            case Shutdown():
                self._queue.put_nowait(None)
            case ClearCache():
                self._stop()
                self._sent = 1
            case Inspect():
                pass  # nobody asked while this was recorded
            case Abort() if not self._expects_abort(command):
                if command.request in self._open:
                    self._stop()
                    self._tell(Finished(command.request, 0, "aborted"))
            case Submit() | Fork() if self._playing is None:
                self._begin(command)
            case _:
                self._sent += 1
                self._beat.set()
                if self._playing is None and self._switched is not None:
                    self._tell(self._switched)

    async def events(self) -> AsyncIterator[AnyEvent]:
        while (told := await self._queue.get()) is not None:
            self._now_ns, event = max(self._now_ns, told[0]), told[1]
            yield event

    async def close(self) -> None:
        self._stop()
        self._queue.put_nowait(None)

    # ------------------------------------------------------------------------------------------ one run

    def _begin(self, command: Submit | Fork) -> None:
        """Play the run that this first request of it belongs to."""
        run = self._runs.get("/".join(command.request.split("/")[1:3]))
        if run is None:
            self._tell(Rejected(command.request, "The recording does not hold this chapter.", "It needs a model."))
            return
        self._sent += 1
        self._playing = asyncio.create_task(self._play(run))

    async def _play(self, run: Run) -> None:
        """Everything that came in, at its pace, held wherever something was sent until that is sent now."""
        self._left = [entry.message for entry in run.entries if isinstance(entry.message, Command)]
        reached, at, moment = 0, 0, time.monotonic()
        for entry in run.entries:
            if isinstance(entry.message, Command):
                reached += 1
                while self._sent < reached:
                    self._beat.clear()
                    await self._beat.wait()
                    moment = time.monotonic()
                self._left.pop(0)
                if isinstance(entry.message, Submit | Fork):
                    self._open.add(entry.message.request)
                at = entry.t
                continue
            gap = (entry.t - at) / 1e9 if self.speed is not None and at else 0.0
            at, moment = entry.t, moment + gap / (self.speed or 1.0)
            await asyncio.sleep(max(0.0, moment - time.monotonic()))
            if isinstance(entry.message, Finished):
                self._open.discard(entry.message.request)
            self._queue.put_nowait((self._began_ns + entry.t, entry.message))

    def _expects_abort(self, command: Abort) -> bool:
        """Whether the script of this run stopped this request just here."""
        return bool(self._left) and isinstance(self._left[0], Abort) and self._left[0].request == command.request

    def _tell(self, event: AnyEvent) -> None:
        """Say something that was not recorded: the time stands still."""
        self._queue.put_nowait((0, event))

    def _stop(self) -> None:
        if self._playing is not None:
            self._playing.cancel()
            self._playing = None
        self._open.clear()
        self._left = []
        self._sent = 0


def recorded_session(speed: float | None = 1.0, path: Path | None = None) -> Session:
    """A session on the tour that comes with the program, or on one in `path`."""
    engine = RecordedTour(path or trace_file(), speed)
    return Session(engine, now_ns=engine.now_ns)


def trace_file() -> Path:
    return Path(str(resources.files("cutaway.tui.tour") / TRACE))
