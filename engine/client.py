"""The other end of the pipe: starts an engine process, talks to it, survives its death, leaves no orphan. No torch."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import sys
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from . import deaths, log, wire
from .errors import CutawayError, EngineDied, ProtocolError
from .protocol import PROTOCOL_VERSION, AnyCommand, AnyEvent, Failed, Hello, Load, Shutdown, Welcome

START_TIMEOUT = 60.0  # seconds for the first answer, a login on another machine included
CLOSE_TIMEOUT = 3.0  # seconds for each of: shut down, terminate
BACKLOG = 2  # times a read's worth of events, ahead of the consumer; what comes after waits in the engine, which folds
REMEMBERED = 20  # lines of the process's standard error


class Engine(Protocol):
    """Whatever answers commands with events: a process, a remote server, a recording.

    `events` ends when the engine does; if that was not asked for, its last event is a fatal `Failed`.
    """

    async def start(self) -> Welcome:
        """Begin. Raises `CutawayError` if that can't be."""
        ...

    async def send(self, command: AnyCommand) -> None:
        """Raises `EngineDied` when there is nobody to send to."""
        ...

    def events(self) -> AsyncIterator[AnyEvent]: ...

    async def close(self) -> None:
        """End the engine, however it is. Safe to call at any time and twice."""
        ...


class EngineClient:
    """An engine in a child process: cutaway's own, or any command that speaks the protocol on its pipes.

    `command` is a command line as a shell would split it ("ssh box cutaway engine") or its parts. The process gets a
    group of its own, so that Ctrl+C in the terminal reaches only us, and no terminal to ask questions on.
    """

    def __init__(self, command: str | Sequence[str] | None = None, start_timeout: float = START_TIMEOUT) -> None:
        self.command = _parts(command)
        self.start_timeout = start_timeout
        self.welcome: Welcome | None = None
        # Ours: what it sees of files and memory is what we see.
        self.local = self.command[: len(own_command())] == own_command()
        self._process: asyncio.subprocess.Process | None = None
        self._events: asyncio.Queue[list[AnyEvent] | None] = asyncio.Queue(BACKLOG)  # as they were read together
        self._unread: deque[AnyEvent] = deque()  # of those taken from there
        self._events_task: asyncio.Task[None] | None = None
        self._stderr_task: asyncio.Task[None] | None = None
        self._stderr: deque[str] = deque(maxlen=REMEMBERED)
        self._died: EngineDied | None = None
        self._closing = False
        self._loaded: Load | None = None

    @property
    def pid(self) -> int | None:
        """Of the process started here; that of the engine itself is in `welcome`."""
        return self._process.pid if self._process is not None else None

    @property
    def died(self) -> EngineDied | None:
        """Why the engine is gone, if it went by itself."""
        return self._died

    async def start(self) -> Welcome:
        """Start the process and shake hands.

        Raises `EngineDied` if it can't be started or ends at once, `ProtocolError` if it speaks something else.
        """
        self._reset()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise deaths.not_started(self.command, error) from None
        self._stderr_task = asyncio.create_task(self._read_stderr(self._process))
        try:
            return await asyncio.wait_for(self._shake_hands(self._process), self.start_timeout)
        except TimeoutError:
            await self.close()
            raise EngineDied(
                f"The engine did not answer within {self.start_timeout:.0f} s.", self._last_line()
            ) from None
        except BaseException:
            await self.close()
            raise

    async def send(self, command: AnyCommand) -> None:
        """Raises `EngineDied` when the process is gone, `ProtocolError` for a command that can't be written."""
        frame = wire.encode(command)
        if isinstance(command, Load):
            self._loaded = command
        if self._died is not None or self._process is None or self._process.stdin is None:
            raise self._died or EngineDied("The engine is not running.")
        try:
            self._process.stdin.write(frame)
            await self._process.stdin.drain()
        except (OSError, RuntimeError):
            raise await self._find_death(self._process) from None

    async def events(self) -> AsyncIterator[AnyEvent]:
        """Every event, in order, until the engine ends. If it died, a fatal `Failed` is the last one."""
        queue, unread = self._events, self._unread
        while True:
            while unread:
                yield unread.popleft()
            if (events := await queue.get()) is None:
                break
            unread.extend(events)
        queue.put_nowait(None)  # for whoever asks again

    async def restart(self) -> Welcome:
        """End what is left of the engine, start it again, and load what was loaded last. Raises as `start`."""
        await self.close()
        welcome = await self.start()
        if self._loaded is not None:
            await self.send(self._loaded)
        return welcome

    async def close(self) -> None:
        """Ask the engine to end, then make it. Events not read yet are dropped."""
        self._closing = True
        process, self._process = self._process, None
        tasks = [task for task in (self._events_task, self._stderr_task) if task is not None]
        self._events_task = self._stderr_task = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if process is not None:
            await _end(process)
        self._unread.clear()
        while not self._events.empty():
            self._events.get_nowait()
        self._events.put_nowait(None)

    # ------------------------------------------------------------------------------------------------- inside

    def _reset(self) -> None:
        self._events, self._unread = asyncio.Queue(BACKLOG), deque()
        self._stderr.clear()
        self._died, self._closing, self.welcome = None, False, None

    async def _shake_hands(self, process: asyncio.subprocess.Process) -> Welcome:
        assert process.stdin is not None
        assert process.stdout is not None
        frames = wire.FrameReader()
        with contextlib.suppress(OSError):  # an end at once is told by what follows
            process.stdin.write(wire.encode(Hello(client=f"cutaway {PROTOCOL_VERSION}")))
            await process.stdin.drain()
        payloads: list[bytes] = []
        while not payloads:
            data = await process.stdout.read(65536)
            if not data:
                raise await self._find_death(process)
            payloads = list(frames.feed(data))
        event = wire.decode_event(payloads[0])
        if isinstance(event, Failed):
            raise ProtocolError(event.message, event.action)
        if not isinstance(event, Welcome):
            raise ProtocolError(f"The engine's first message is {type(event).__name__}, not Welcome.")
        if event.protocol != PROTOCOL_VERSION:
            raise ProtocolError(
                f"The engine (cutaway {event.engine}) speaks protocol {event.protocol}, not {PROTOCOL_VERSION}.",
                "Install the same version of cutaway on both sides.",
            )
        self.welcome = event
        self._events_task = asyncio.create_task(self._read_events(process, frames, payloads[1:]))
        return event

    async def _read_events(
        self, process: asyncio.subprocess.Process, frames: wire.FrameReader, payloads: list[bytes]
    ) -> None:
        assert process.stdout is not None
        problem: CutawayError | None = None
        try:
            while True:
                if payloads:
                    await self._events.put(_decoded(payloads))
                data = await process.stdout.read(65536)
                if not data:
                    break
                payloads = list(frames.feed(data))
        except ProtocolError as error:
            problem = error
        except OSError:
            pass
        if not self._closing:
            error = problem or await self._find_death(process)
            self._died = error if isinstance(error, EngineDied) else EngineDied(error.message, error.action)
            await self._events.put([Failed(error.message, error.action, error.kind, fatal=True)])
            await self._events.put(None)

    async def _read_stderr(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        rest = b""
        while data := await process.stderr.read(4096):
            *lines, rest = (rest + data).split(b"\n")
            rest = rest[-4096:]
            self._stderr.extend(line.decode("utf-8", "replace").strip() for line in lines if line.strip())
        if rest.strip():
            self._stderr.append(rest.decode("utf-8", "replace").strip())

    async def _find_death(self, process: asyncio.subprocess.Process) -> EngineDied:
        """Why the process ended: it did, or is about to."""
        if self._died is None:
            if await _ended(process) and self._stderr_task is not None:
                await asyncio.wait([self._stderr_task], timeout=CLOSE_TIMEOUT)  # its last words
            self._died = deaths.describe(process.returncode, self._last_line())
        return self._died

    def _last_line(self) -> str:
        """What the process said last: on its standard error, or in the log if it is on this machine."""
        if self._stderr:
            return self._stderr[-1]
        if self.local and self.welcome is not None:
            return log.last_words(self.welcome.pid)
        return ""


def _decoded(payloads: list[bytes]) -> list[AnyEvent]:
    events: list[AnyEvent] = []
    for payload in payloads:
        with contextlib.suppress(wire.UnknownMessage):  # a later version's event: nothing we could show
            events.append(wire.decode_event(payload))
    return events


async def _end(process: asyncio.subprocess.Process) -> None:
    """Shut down, terminate, kill: whatever it takes. Also when cancelled in between."""
    # What it still says must be read, or it could not get as far as its end.
    unread = [asyncio.create_task(_discard(stream)) for stream in (process.stdout, process.stderr) if stream]
    try:
        if process.stdin is not None:
            with contextlib.suppress(OSError, RuntimeError):
                process.stdin.write(wire.encode(Shutdown()))
                process.stdin.close()  # who does not understand the command understands this
        if not await _ended(process):
            deaths.terminate_group(process.pid)
            await _ended(process)
    finally:
        if process.returncode is None:
            deaths.kill_group(process.pid)
            await _ended(process)
        for task in unread:
            task.cancel()


async def _ended(process: asyncio.subprocess.Process) -> bool:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), CLOSE_TIMEOUT)
    return process.returncode is not None


async def _discard(stream: asyncio.StreamReader) -> None:
    while await stream.read(65536):
        pass


def own_command(*arguments: str) -> list[str]:
    """The command line of our own engine process."""
    # -P: a file called torch.py in the user's folder must not be taken for the library.
    return [sys.executable, "-P", "-m", "cutaway.tui.cli", "engine", *arguments]


def _parts(command: str | Sequence[str] | None) -> list[str]:
    if command is None:
        return own_command()
    try:
        parts = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError as error:
        raise EngineDied(f"The engine command {command!r} can't be read: {error}.", "Check its quotes.") from None
    if not parts:
        raise EngineDied("The engine command is empty.", 'Give one such as "ssh box cutaway engine", or none.')
    return parts
