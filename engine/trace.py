"""A recorded conversation with an engine: JSON Lines in gzip, which `replay.py` plays back. No torch.

The first line tells the format; each line after it is `{"t": nanoseconds since the start, "event": …}` or, for what was
sent, `"command"`. The file is written under another name and renamed when it is whole; what a crash leaves behind
under that name can still be read up to its last flush.
"""

from __future__ import annotations

import contextlib
import gzip
import time
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from .client import Engine
from .errors import TraceError
from .protocol import PROTOCOL_VERSION, AnyCommand, AnyEvent, Command, Event, Welcome
from .trace_lines import FORMAT, UNFINISHED, Header, as_line

FLUSH_EVERY = 1.0  # seconds that a crash may cost


class Entry(msgspec.Struct, frozen=True):
    """One message; `t` is in nanoseconds since the recording began."""

    t: int
    message: AnyEvent | AnyCommand

    @property
    def sent(self) -> bool:
        """Whether it went to the engine."""
        return isinstance(self.message, Command)


class TraceWriter:
    """Writes a trace. A disk that fills up ends the recording, not the conversation: see `problem`."""

    def __init__(self, path: Path | str) -> None:
        """Raises `TraceError` if the file can't be made."""
        self.path = Path(path)
        self.problem = ""
        self._unfinished = self.path.with_name(self.path.name + UNFINISHED)
        self._began = time.monotonic_ns()
        self._flushed = self._began
        try:
            self._file = gzip.open(self._unfinished, "wb", compresslevel=5)  # noqa: SIM115 - closed by close()
        except OSError as error:
            raise TraceError(
                f"{self._unfinished} can't be written: {error.strerror}.", "Choose another file."
            ) from None
        self._write(msgspec.json.encode(Header(began_ns=self._began)))
        self._flush()

    def write(self, message: AnyEvent | AnyCommand) -> None:
        """Add a message, as of now."""
        now = time.monotonic_ns()
        self._write(as_line(now - self._began, message))
        if now - self._flushed > FLUSH_EVERY * 1e9:
            self._flush()

    def close(self) -> None:
        """Finish the file and give it its name."""
        if self._file.closed:
            return
        try:
            self._file.close()
            if not self.problem:
                self._unfinished.replace(self.path)
        except OSError as error:
            self._give_up(error)

    def _write(self, line: bytes) -> None:
        if self.problem or self._file.closed:
            return
        try:
            self._file.write(line + b"\n")
        except OSError as error:
            self._give_up(error)

    def _flush(self) -> None:
        self._flushed = time.monotonic_ns()
        with contextlib.suppress(ValueError):
            try:
                self._file.flush()
            except OSError as error:
                self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self.problem = f"The recording stopped: {self._unfinished} can't be written ({error.strerror})."


class Recording:
    """An engine whose messages are also written to a trace."""

    def __init__(self, engine: Engine, path: Path | str) -> None:
        self._engine = engine
        self._path = Path(path)
        self.trace: TraceWriter | None = None

    @property
    def local(self) -> bool:
        """Whether the engine sees the same files and memory as we."""
        return getattr(self._engine, "local", True)

    async def start(self) -> Welcome:
        """Raises `TraceError`, or as the engine's own `start`."""
        writer = self.trace or TraceWriter(self._path)
        self.trace = writer
        welcome = await self._engine.start()
        writer.write(welcome)
        return welcome

    async def send(self, command: AnyCommand) -> None:
        if self.trace is not None:
            self.trace.write(command)
        await self._engine.send(command)

    async def events(self) -> AsyncIterator[AnyEvent]:
        async for event in self._engine.events():
            if self.trace is not None:
                self.trace.write(event)
            yield event

    async def close(self) -> None:
        try:
            await self._engine.close()
        finally:
            if self.trace is not None:
                self.trace.close()


def read(path: Path | str) -> Iterator[Entry]:
    """Every message of a trace, as far as it can be read: one that was cut off simply ends there.

    Raises `TraceError` for a file that can't be opened, is no trace, or has a later format.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            lines = _lines(file)
            _check_header(path, next(lines, b""))
            for line in lines:
                entry = _entry(path, line)
                if entry is not None:
                    yield entry
    except OSError as error:
        raise TraceError(f"{path} can't be read: {error.strerror}.") from None


def read_header(path: Path | str) -> Header:
    """The first line of a trace. Raises as `read`."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            return _check_header(path, next(_lines(file), b""))
    except OSError as error:
        raise TraceError(f"{path} can't be read: {error.strerror}.") from None


def read_events(path: Path | str) -> Iterator[tuple[int, AnyEvent]]:
    """What the engine said, and when. Raises as `read`."""
    for entry in read(path):
        if isinstance(entry.message, Event):
            yield entry.t, entry.message


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Whole lines; ends quietly where the compressed stream is cut off or damaged."""
    rest = b""
    with gzip.open(file) as unpacked, contextlib.suppress(EOFError, zlib.error, gzip.BadGzipFile):
        while data := cast(gzip.GzipFile, unpacked).read1(65536):
            *whole, rest = (rest + data).split(b"\n")
            yield from whole


def _check_header(path: Path, line: bytes) -> Header:
    try:
        header = msgspec.json.decode(line, type=dict[str, Any])
        version = header["cutaway_trace"]
    except (msgspec.DecodeError, KeyError):
        raise TraceError(f"{path} is not a trace of cutaway.", "Record one with --trace FILE.") from None
    if version != FORMAT or header.get("protocol") != PROTOCOL_VERSION:
        raise TraceError(
            f"{path} has format {version} of protocol {header.get('protocol')}, and this version reads "
            f"{FORMAT} of {PROTOCOL_VERSION}.",
            "Play it back with the version that recorded it.",
        )
    began = header.get("began_ns", 0)
    return Header(version, PROTOCOL_VERSION, began if isinstance(began, int) else 0)


class _Line(msgspec.Struct, frozen=True):
    t: int
    event: msgspec.Raw = msgspec.Raw()
    command: msgspec.Raw = msgspec.Raw()


_line = msgspec.json.Decoder(_Line)
_event: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)
_command: msgspec.json.Decoder[AnyCommand] = msgspec.json.Decoder(AnyCommand)


def _entry(path: Path, text: bytes) -> Entry | None:
    """The message in one line; None for one that only a later version knows."""
    try:
        line = _line.decode(text)
        body = bytes(line.event or line.command)
        decoder = _event if line.event else _command
    except msgspec.DecodeError as error:
        raise TraceError(f"{path} is damaged: {error}.") from None
    try:
        return Entry(line.t, decoder.decode(body))
    except msgspec.ValidationError:
        return _without_nulls(line.t, body)


def _without_nulls(t: int, body: bytes) -> Entry | None:
    # JSON has no infinities, so a logit that is minus infinity was written as null.
    message = msgspec.json.decode(body)
    for token in message.get("sampled", ()):
        for candidate in token.get("candidates", ()):
            if candidate.get("logit") is None:
                candidate["logit"] = float("-inf")
    with contextlib.suppress(msgspec.ValidationError):
        return Entry(t, msgspec.convert(message, AnyEvent))
    return None
