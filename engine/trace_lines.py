"""The lines that a trace is written of; `trace.py` tells the format, and writes and reads whole ones."""

from __future__ import annotations

import msgspec

from . import wire
from .protocol import PROTOCOL_VERSION, AnyCommand, AnyEvent, Command

FORMAT = 1
UNFINISHED = ".part"  # the end of a trace's name until it is whole
_encoder = msgspec.json.Encoder()


class Header(msgspec.Struct, frozen=True):
    """First line of a trace."""

    cutaway_trace: int = FORMAT
    protocol: int = PROTOCOL_VERSION
    began_ns: int = 0  # `time.monotonic_ns()` of the recording host when t was 0; 0: not told


def as_line(t: int, message: AnyEvent | AnyCommand) -> bytes:
    """One line of a trace, without its end. Lone surrogates, which no UTF-8 can carry, become U+FFFD."""
    kind = "command" if isinstance(message, Command) else "event"
    try:
        return _encoder.encode({"t": t, kind: message})
    except UnicodeEncodeError:
        return _encoder.encode({"t": t, kind: wire.without_surrogates(message)})
