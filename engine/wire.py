"""How messages travel: a length of four bytes, big end first, then one msgpack struct.

Whatever else comes over a pipe, such as a login banner printed by ssh, shows at once: any text read as a length
is far above `LARGEST`, so it is refused and quoted rather than waited for. No torch.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from .errors import ProtocolError
from .protocol import AnyCommand, AnyEvent, Command, Event

LARGEST = 64 * 1024 * 1024  # bytes of one message; below every length that begins with a printable character
HEADER = 4  # bytes
QUOTED = 120  # bytes of a foreign stream that an error shows

_M = TypeVar("_M")
_encoder = msgspec.msgpack.Encoder()


class UnknownMessage(ProtocolError):
    """A whole frame that holds no message we know. The stream itself is intact and may be read on."""


def encode(message: Command | Event) -> bytes:
    """One frame. Lone surrogates, which no UTF-8 can carry, become U+FFFD.

    Raises `ProtocolError` for a number outside 64 bits and for a message above `LARGEST` bytes.
    """
    try:
        payload = _encoder.encode(message)
    except UnicodeEncodeError:
        payload = _encoder.encode(without_surrogates(message))
    except OverflowError:
        raise ProtocolError(f"{type(message).__name__} holds a number outside 64 bits.") from None
    if len(payload) > LARGEST:
        raise ProtocolError(
            f"{type(message).__name__} has {len(payload)} bytes, but a message may have {LARGEST}.", "Send less text."
        )
    return len(payload).to_bytes(HEADER, "big") + payload


def decode_command(payload: bytes) -> AnyCommand:
    """Raises `UnknownMessage`."""
    return _decode(_commands(), payload, "command")


def decode_event(payload: bytes) -> AnyEvent:
    """Raises `UnknownMessage`."""
    return _decode(_events(), payload, "event")


class FrameReader:
    """Cuts a stream of bytes, fed in pieces of any size, into payloads."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield every payload that `data` completes.

        Raises `ProtocolError` where no message can begin; the stream can't be read on after that.
        """
        self._buffer += data
        while len(self._buffer) >= HEADER:
            length = int.from_bytes(self._buffer[:HEADER], "big")
            if not 0 < length <= LARGEST:
                raise ProtocolError(
                    f"The stream holds something else than messages: {_quote(self._buffer)}.",
                    "The engine's command must print nothing of its own.",
                )
            if len(self._buffer) < HEADER + length:
                return
            payload = bytes(self._buffer[HEADER : HEADER + length])
            del self._buffer[: HEADER + length]
            yield payload

    def end(self) -> None:
        """Say that the stream ended. Raises `ProtocolError` if that was in the middle of a message."""
        if self._buffer:
            raise ProtocolError(
                f"The stream ended in the middle of a message, after {len(self._buffer)} of its bytes: "
                f"{_quote(self._buffer)}."
            )


def read_payloads(descriptor: int, size: int = 65536) -> Iterator[bytes]:
    """Every payload from a blocking file descriptor, until its end. Raises `ProtocolError` as `FrameReader`."""
    reader = FrameReader()
    while data := os.read(descriptor, size):
        yield from reader.feed(data)
    reader.end()


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data` to a blocking file descriptor. Raises `OSError` when nobody reads it any more."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


@functools.cache  # made with the first message: it takes four milliseconds, which no first paint should wait for
def _events() -> msgspec.msgpack.Decoder[AnyEvent]:
    return msgspec.msgpack.Decoder(AnyEvent)


@functools.cache
def _commands() -> msgspec.msgpack.Decoder[AnyCommand]:
    return msgspec.msgpack.Decoder(AnyCommand)


def _decode(decoder: msgspec.msgpack.Decoder[_M], payload: bytes, kind: str) -> _M:
    try:
        return decoder.decode(payload)
    except msgspec.DecodeError as error:
        raise UnknownMessage(f"This {kind} can't be read: {error} It begins {_quote(payload)}.") from None


def _quote(data: bytes | bytearray) -> str:
    text = bytes(data[:QUOTED]).decode("utf-8", "replace").strip()
    first = text.splitlines()[0] if text else ""
    return ascii(first) + ("…" if len(first) < len(text) or len(data) > QUOTED else "")


def without_surrogates(message: Command | Event) -> Any:
    """The message as plain values, with U+FFFD for every lone surrogate."""
    return _without_surrogates(msgspec.to_builtins(message, builtin_types=(bytes,)))


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_surrogates(item) for item in value]
    return value
