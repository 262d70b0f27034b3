"""Where a reply goes: as it is into a pipe or a file, harmless to a terminal."""

from __future__ import annotations

import re
import sys
from typing import BinaryIO

import msgspec

from ...engine.protocol import AnyEvent
from ..printable import encodable

_BEYOND_ASCII = re.compile("[^\x00-\x7e]")


class Output:
    """Standard output. A pipe or file gets UTF-8 whatever the locale; a terminal gets what it can show.

    Raises `BrokenPipeError` when the reader has gone.
    """

    def __init__(self) -> None:
        self.terminal = sys.stdout.isatty()
        self._encoding = sys.stdout.encoding or "ascii"
        self._stream: BinaryIO = sys.stdout.buffer
        self._line_open = False

    def write(self, text: str) -> None:
        """Show a piece of a reply now."""
        if not text:
            return
        self._line_open = not text.endswith("\n")
        if self.terminal:
            self._put(encodable(text, self._encoding).encode(self._encoding, "replace"))
        else:
            self._put(text.encode("utf-8", "replace"))

    def end_line(self) -> None:
        """End the line if one is open."""
        if self._line_open:
            self.write("\n")

    def write_event(self, event: AnyEvent) -> None:
        """One event as a line of strict JSON: what is not finite is null, and a terminal gets ASCII only."""
        line = msgspec.json.encode(event)
        if self.terminal:
            line = _BEYOND_ASCII.sub(_escaped, line.decode()).encode()
        self._put(line + b"\n")

    def _put(self, data: bytes) -> None:
        self._stream.write(data)
        self._stream.flush()


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
