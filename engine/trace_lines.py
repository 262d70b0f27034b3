"""The lines that a trace is written of; `trace.py` tells the format, and writes and reads whole ones."""

from __future__ import annotations

from collections.abc import Sequence

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


Timed = tuple[int, AnyEvent | AnyCommand]  # nanoseconds since the trace began, and the message


def as_line(t: int, message: AnyEvent | AnyCommand) -> bytes:
    """One line of a trace, without its end. Lone surrogates, which no UTF-8 can carry, become U+FFFD."""
    kind = _kind(message)
    try:
        return _encoder.encode({"t": t, kind: message})
    except UnicodeEncodeError:
        return _encoder.encode({"t": t, kind: wire.without_surrogates(message)})


def as_lines(messages: Sequence[Timed]) -> bytes:
    """The lines of several messages with their ends, as `as_line` makes each."""
    try:
        return _encoder.encode_lines([{"t": t, _kind(message): message} for t, message in messages])
    except UnicodeEncodeError:
        return b"".join([as_line(t, message) + b"\n" for t, message in messages])


def _kind(message: AnyEvent | AnyCommand) -> str:
    return "command" if isinstance(message, Command) else "event"
