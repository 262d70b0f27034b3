"""What the store holds of a chat, as plain data: the same in SQLite, in exports and in imports."""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Iterable

import msgspec

from ...engine.protocol import SamplingSettings

_KEY_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that is read as another
_KEY_LENGTH = 8
_RANDOM_BITS = 21
_SURROGATE = re.compile("[\ud800-\udfff]")


class MessageRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message. `parent` and `chosen` are numbers of messages; 0 is none: the parent of a first message.

    A parent has a smaller number than its children, an older branch than a newer one.
    """

    number: int
    role: str
    text: str
    parent: int = 0
    chosen: int = 0  # the child on the path shown
    made_ms: int = 0  # since 1970
    status: str = ""  # how a reply ended; empty for what is no reply
    detail: str = ""  # in the engine's words
    action: str = ""
    note: str = ""
    reasoning: str = ""
    prefix: int = 0  # characters of `text` that its request did not write
    model: str = ""
    identity: str = ""  # hash of the model
    settings: SamplingSettings | None = None
    tokens: int = 0  # generated
    prompt_tokens: int = 0
    cached_tokens: int = 0
    ttft_ns: int = 0  # duration from submission to the first token
    speed: float = 0.0  # tokens a second after the first
    token_ids: tuple[int, ...] = ()


class ChatRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A chat without its messages. `chosen` is the first message on the path shown.

    `server` (its name or address, never its key; empty: none) and `model` are what was chosen to answer it.
    """

    key: str
    title: str
    named: bool = False  # the title was given, not made from the first question
    system: str = ""
    made_ms: int = 0  # since 1970
    changed_ms: int = 0
    chosen: int = 0
    source: str = ""  # where it was imported from: "chatgpt:<id>"
    server: str = ""
    model: str = ""  # empty with no server: nothing was chosen


class Chat(msgspec.Struct, frozen=True, omit_defaults=True):
    """A chat with all of its messages, by number."""

    record: ChatRecord
    messages: tuple[MessageRecord, ...] = ()


class _Numbers:
    """Numbers for messages that no other program gives: milliseconds since 1970, then random bits; always growing."""

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()

    def __call__(self) -> int:
        with self._lock:
            made = (now_ms() << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS)
            self._last = max(made, self._last + 1)
            return self._last


new_number = _Numbers()


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def made_ms(number: int) -> int:
    """When a number was given, in milliseconds since 1970."""
    return number >> _RANDOM_BITS


def new_key() -> str:
    """A name for a chat, short enough to type, long enough to be the only one, and no word: it has a digit."""
    while True:
        key = "".join(secrets.choice(_KEY_LETTERS) for _ in range(_KEY_LENGTH))
        if is_key(key):
            return key


def is_key(text: str) -> bool:
    """Whether this looks like a key that `new_key` made."""
    return len(text) == _KEY_LENGTH and set(text) <= set(_KEY_LETTERS) and not text.isalpha()


def keepable(text: str) -> str:
    """`text` as UTF-8 can hold it: lone surrogates become U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


def renumbered(messages: Iterable[MessageRecord], chosen: int, numbers: Iterable[int]) -> Chat:
    """The same tree with other numbers, taken in order; a parent that is not there is none.

    Returned as a chat that has nothing but its messages and `chosen`.
    """
    ordered = sorted(messages, key=lambda message: message.number)
    names = dict(zip((message.number for message in ordered), numbers, strict=False))
    changed = tuple(
        msgspec.structs.replace(
            message,
            number=names[message.number],
            parent=names.get(message.parent, 0),
            chosen=names.get(message.chosen, 0),
        )
        for message in ordered
    )
    return Chat(ChatRecord("", "", chosen=names.get(chosen, 0)), changed)
