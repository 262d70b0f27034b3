"""The trace of a session that nobody asked to record: kept packed in memory until it is wanted on disk. No torch.

The file is the one that `trace.py` describes. So the screen can always save what it has just shown. Spelling and
packing cost more than all the rest of taking a message in, so they wait for the end of a reply, when nobody computes,
or until many messages wait.
"""

from __future__ import annotations

import time
import zlib
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from . import places
from .client import Engine
from .errors import TraceError
from .protocol import AnyCommand, AnyEvent, Finished, Welcome
from .trace_lines import Header, Timed, as_lines

LIMIT = 64 * 2**20  # bytes, packed: hours of talk
UNSPELLED = 1024  # messages that may wait to be spelled: some megabytes, which the screen's state keeps alive anyway
LOOSE = 8 * 2**20  # bytes that may wait to be packed
SPELLED = 32  # messages in one piece of what is packed
PORTION = 2**20  # bytes packed at a time: some ten milliseconds
_GZIP = 31  # zlib's word for a gzip header around the largest window


class SessionTrace:
    """Messages since the start, in order. `full_ns` is how long it is where its room was full; 0: it is not."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self.messages = 0
        self.full_ns = 0
        self._began = time.monotonic_ns()
        self._packer = zlib.compressobj(1, zlib.DEFLATED, _GZIP)
        self._packed: list[bytes] = []
        self._size = 0
        self._unspelled: list[Timed] = []
        self._loose: deque[bytes] = deque()  # lines that are still to be packed
        self._loose_size = 0
        self._put(msgspec.json.encode(Header(began_ns=self._began)) + b"\n")

    def write(self, message: AnyEvent | AnyCommand) -> None:
        """Add a message, as of now; nothing once there is no room."""
        if self.full_ns:
            return
        t = time.monotonic_ns() - self._began
        if self._size > self.limit:
            self.full_ns = t
            return
        self.messages += 1
        self._unspelled.append((t, message))
        if isinstance(message, Finished) or len(self._unspelled) >= UNSPELLED:
            self._spell()
            if isinstance(message, Finished) or self._loose_size > min(LOOSE, self.limit):
                self._pack(PORTION)

    def save(self, path: Path) -> None:
        """Write everything so far to a new file, whole or not at all. Raises `TraceError`."""
        self._spell()
        self._pack(self._loose_size)
        try:
            places.put(path, b"".join([*self._packed, self._packer.copy().flush()]))
        except OSError as error:
            raise TraceError(
                f"{path} can't be written: {error.strerror or error}.",
                "Free some space, or set CUTAWAY_STATE_DIR to another folder.",
            ) from None

    def _spell(self) -> None:
        """Put what waits as lines, some at a time."""
        messages, self._unspelled = self._unspelled, []
        for first in range(0, len(messages), SPELLED):
            self._put(as_lines(messages[first : first + SPELLED]))

    def _put(self, line: bytes) -> None:
        self._loose.append(line)
        self._loose_size += len(line)

    def _pack(self, size: int) -> None:
        """Pack the oldest lines, about `size` bytes of them."""
        lines: list[bytes] = []
        while self._loose and size > 0:
            lines.append(self._loose.popleft())
            size -= len(lines[-1])
        self._loose_size -= sum(map(len, lines))
        if packed := self._packer.compress(b"".join(lines)):
            self._packed.append(packed)
            self._size += len(packed)


class Remembering:
    """An engine whose messages are also kept in a `SessionTrace`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.trace = SessionTrace()

    @property
    def local(self) -> bool:
        """Whether the engine sees the same files and memory as we."""
        return getattr(self.engine, "local", True)

    async def start(self) -> Welcome:
        """Raises as the engine's own `start`."""
        welcome = await self.engine.start()
        self.trace.write(welcome)
        return welcome

    async def send(self, command: AnyCommand) -> None:
        self.trace.write(command)
        await self.engine.send(command)

    async def events(self) -> AsyncIterator[AnyEvent]:
        async for event in self.engine.events():
            self.trace.write(event)
            yield event

    async def close(self) -> None:
        await self.engine.close()
