"""Words and bases that commands and events share. Read `protocol.py` first."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

PROTOCOL_VERSION = 1


Phase: TypeAlias = Literal["prefill", "decode", "recompute", "padding"]
Policy: TypeAlias = Literal["continuous", "static"]
Delivery: TypeAlias = Literal["streamed", "buffered"]
Role: TypeAlias = Literal["system", "user", "assistant", "tool", "control", "raw"]
FinishReason: TypeAlias = Literal["end", "stop", "length", "aborted", "failed"]
Cut: TypeAlias = Literal["", "banned", "min_p", "top_k", "top_p", "greedy"]
Bytes: TypeAlias = bytes  # fields called `bytes` hide the type where msgspec looks annotations up


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One chat message. `role` is free text: the template decides which roles it knows.

    `token_ids` are those that a reply was drawn as. They are used for as long as they spell `content`, which decides.
    """

    role: str
    content: str
    token_ids: tuple[int, ...] = ()


class Command(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="command", tag=str.lower):
    """Base of everything sent to an engine."""


class Event(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="event", tag=str.lower):
    """Base of everything an engine says."""
