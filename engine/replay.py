"""An engine that only remembers: plays a trace back, with no model and no torch."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import msgspec

from . import trace
from .errors import TraceError
from .protocol import (
    PROTOCOL_VERSION,
    AnyCommand,
    AnyEvent,
    Command,
    Configured,
    Failed,
    Fork,
    Load,
    Pause,
    Rejected,
    Resume,
    Shutdown,
    Step,
    StepOnce,
    Submit,
    Switches,
    Welcome,
)


class ReplayEngine:
    """Plays the events of a trace; what was sent then is not asked again.

    `speed` multiplies the original pace; None plays as fast as they are read. Pauses longer than `longest_gap` seconds
    are cut to that. `Pause`, `StepOnce` and `Resume` hold and release the playback at its steps, and with `paused` it
    begins held; after `upto` steps it is held for good. New requests are rejected: there is nobody to answer them.
    `sent` is told what was sent then, at its place among the events. With `stay` the events do not end with the trace,
    so that a screen can go on showing them.
    """

    def __init__(
        self,
        path: Path | str,
        speed: float | None = 1.0,
        longest_gap: float | None = None,
        paused: bool = False,
        upto: int | None = None,
        stay: bool = False,
        sent: Callable[[AnyCommand], None] | None = None,
    ) -> None:
        if speed is not None and not speed > 0:
            raise TraceError(f"The speed must be above 0, not {speed}.")
        self.path = Path(path)
        self.speed = speed
        self.longest_gap = longest_gap
        self.upto = upto
        self.stay = stay
        self.over = False  # everything that will be played was
        self._told = sent or (lambda command: None)
        self._paused = paused
        self._credit = 0  # steps that may be played while paused
        self._steps = 0  # played
        self._loads = 0  # asked for: the first one belongs to the start
        self._now_ns = self._began_ns = 0
        self._switches = Switches()
        self._answers: list[AnyEvent] = []  # to commands, before the trace goes on
        self._changed = asyncio.Event()
        self._closed = False
        self._entries: Iterator[trace.Entry] = iter(())

    def now_ns(self) -> int:
        """When the message played last came in, on the recorder's clock: what a screen takes for the time."""
        return self._now_ns

    async def start(self) -> Welcome:
        """Open the trace, or go back to its start. Raises `TraceError` for a file that is none."""
        self._closed, self._credit, self._steps, self.over = False, 0, 0, False
        self._loads = 0
        self._now_ns = self._began_ns = trace.read_header(self.path).began_ns
        self._entries = trace.read(self.path)
        before: list[trace.Entry] = []
        for entry in self._entries:
            before.append(entry)
            if not entry.sent:
                break
        if not before or before[-1].sent:
            raise TraceError(f"{self.path} holds no event.", "Record another.")
        first = before[-1]
        self._now_ns += first.t
        if isinstance(first.message, Welcome):
            before.pop()
        self._entries = itertools.chain(before, self._entries)
        if isinstance(first.message, Welcome):
            return first.message
        return Welcome(PROTOCOL_VERSION, "replay", os.getpid(), self._now_ns)

    async def send(self, command: AnyCommand) -> None:
        """Hold or release the playback; refuse requests; ignore everything else."""
        match command:
            case Pause():
                self._pause(True)
            case Resume():
                self._credit = 0
                self._pause(False)
            case StepOnce(count=count):
                self._credit += count
            case Load():
                self._loads += 1
                if self._loads == 1:
                    return
                told = "This is a recording: no model can be loaded."
                self._answers.append(Failed(told, "Start cutaway without it.", "model", loading=True))
            case Submit() | Fork():
                self._answers.append(
                    Rejected(command.request, "This is a recording: it can't answer.", "Start cutaway without it.")
                )
            case Shutdown():
                self._closed = True
            case _:
                return
        self._changed.set()

    async def events(self) -> AsyncIterator[AnyEvent]:
        """The recorded events at their pace; ends after the last one (unless it is to stay), or at `close`."""
        at, moment = 0, time.monotonic()
        for entry in self._entries:
            gap = (entry.t - at) / 1e9 if self.speed is not None else 0.0
            if self.longest_gap is not None:
                gap = min(gap, self.longest_gap)
            at, moment = entry.t, moment + gap / (self.speed or 1.0)
            async for answer in self._wait_until(moment):
                yield answer
            if isinstance(entry.message, Step):
                if self._steps == self.upto:
                    break
                self._steps += 1
                if self._paused or self._credit:
                    async for answer in self._wait_for_leave():
                        yield answer
                    moment = time.monotonic()
            if self._closed:
                return
            self._now_ns = self._began_ns + entry.t
            if isinstance(entry.message, Command):
                self._told(entry.message)
            else:
                yield self._as_now(entry.message)
        self.over = True
        while self.stay and not self._closed:
            for answer in self._take_answers():
                yield answer
            await self._change(None)
        for answer in self._take_answers():
            yield answer

    def _as_now(self, event: AnyEvent) -> AnyEvent:
        """Whether it is paused is for the playback to say."""
        if not isinstance(event, Configured):
            return event
        self._switches = event.switches
        return Configured(msgspec.structs.replace(event.switches, paused=self._paused))

    async def close(self) -> None:
        self._closed = True
        self._changed.set()

    def _pause(self, paused: bool) -> None:
        self._paused = paused
        self._answers.append(Configured(msgspec.structs.replace(self._switches, paused=paused)))

    async def _wait_until(self, moment: float) -> AsyncIterator[AnyEvent]:
        await asyncio.sleep(0)  # at full speed, too, others must get their turn
        while not self._closed:
            for answer in self._take_answers():
                yield answer
            left = moment - time.monotonic()
            if left <= 0:
                return
            await self._change(left)

    async def _wait_for_leave(self) -> AsyncIterator[AnyEvent]:
        while self._paused and not self._credit and not self._closed:
            await self._change(None)
            for answer in self._take_answers():
                yield answer
        self._credit = max(0, self._credit - 1)

    async def _change(self, timeout: float | None) -> None:
        try:
            await asyncio.wait_for(self._changed.wait(), timeout)
        except TimeoutError:
            return
        self._changed.clear()

    def _take_answers(self) -> list[AnyEvent]:
        answers, self._answers = self._answers, []
        return answers
