"""Server-sent events, cut out of bytes as the WHATWG HTML standard (9.2.6) says, and by no other line ends.

httpx's own line reader also splits at U+0085 and U+2028, which may stand inside a JSON string.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

BOM = b"\xef\xbb\xbf"
LARGEST = 16 * 1024 * 1024  # bytes of one line


class TooLarge(ValueError):
    """A line that never ends: no server of this kind sends it."""


@dataclasses.dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event: its name, if it had one, and its data lines."""

    name: str
    data: tuple[bytes, ...]


class EventReader:
    """Takes a stream in pieces of any size. `signs` counts what came, comments included: signs of life."""

    def __init__(self) -> None:
        self.signs = 0
        self._rest = bytearray()
        self._after_return = False  # the last line ended with \r: a \n at the start of the next piece belongs to it
        self._begun = False
        self._name = ""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """Events that `piece` completes. Raises `TooLarge`."""
        events: list[ServerEvent] = []
        for line in self._lines(piece):
            self.signs += 1
            if not line:
                events.extend(self._dispatch())
            else:
                self._field(line)
        return events

    def end(self) -> list[ServerEvent]:
        """The event that lacks only its empty line. What is left of a line without an end is given up."""
        return list(self._dispatch())

    def _lines(self, piece: bytes) -> Iterator[bytes]:
        if self._after_return and piece:
            self._after_return = False
            piece = piece.removeprefix(b"\n")
        self._rest += piece
        if not self._begun and len(self._rest) >= len(BOM):
            self._begun = True
            if self._rest.startswith(BOM):
                del self._rest[: len(BOM)]
        if b"\n" not in piece and b"\r" not in piece:
            if len(self._rest) > LARGEST:
                raise TooLarge(f"a line of more than {LARGEST} bytes")
            return
        lines = bytes(self._rest).splitlines(keepends=True)  # of bytes: at \n, \r\n and \r alone
        self._rest = bytearray()
        if not lines[-1].endswith((b"\n", b"\r")):
            self._rest += lines.pop()
        elif lines[-1].endswith(b"\r"):
            self._after_return = True
        for line in lines:
            yield line.rstrip(b"\r\n")

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")

    def _dispatch(self) -> Iterator[ServerEvent]:
        if self._data:
            yield ServerEvent(self._name, tuple(self._data))
        self._name, self._data = "", []
