"""Between the rows of the tables and plain records."""

from __future__ import annotations

import array
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from ...engine.protocol import SamplingSettings
from .records import ChatRecord, MessageRecord, keepable
from .schema import CHAT_COLUMNS, MESSAGE_COLUMNS


def chat_row(chat: ChatRecord) -> dict[str, Any]:
    """Values of the columns of `chats`, but for `id` and `deleted_ms`."""
    values = msgspec.structs.asdict(chat)
    values |= {name: keepable(values[name]) for name in ("title", "system", "server", "model")}
    return values


def chat_record(row: Sequence[Any]) -> ChatRecord:
    """The record of a row of all columns, in their order."""
    values = dict(zip(CHAT_COLUMNS, row, strict=False))
    return ChatRecord(
        key=values["key"],
        title=values["title"],
        named=bool(values["named"]),
        system=values["system"],
        made_ms=values["made_ms"],
        changed_ms=values["changed_ms"],
        chosen=values["chosen"],
        source=values["source"],
        server=values["server"],
        model=values["model"],
    )


def message_row(key: str, message: MessageRecord) -> dict[str, Any]:
    """Values of the columns of `messages`; the chat is named by `key`."""
    values: dict[str, Any] = msgspec.structs.asdict(message)
    for name in ("text", "detail", "action", "note", "reasoning"):
        values[name] = keepable(values[name])
    values |= {
        "key": key,
        "id": message.number,
        "parent": message.parent or None,
        "settings": "" if message.settings is None else msgspec.json.encode(message.settings).decode(),
        "token_ids": _packed(message.token_ids),
    }
    return values


def message_record(row: Sequence[Any]) -> MessageRecord:
    """The record of a row of all columns, in their order. Settings that can't be read are none."""
    values = dict(zip(MESSAGE_COLUMNS, row, strict=False))
    number, parent = values.pop("id"), values.pop("parent")
    del values["chat"]
    values["settings"] = _settings(values["settings"])
    values["token_ids"] = _unpacked(values["token_ids"])
    return MessageRecord(number=number, parent=parent or 0, **values)


def _settings(text: str) -> SamplingSettings | None:
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=SamplingSettings)
    except (msgspec.MsgspecError, UnicodeError):
        return None


def _packed(ids: tuple[int, ...]) -> bytes:
    """Four bytes each, little-endian."""
    packed = array.array("I", ids)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def _unpacked(data: bytes) -> tuple[int, ...]:
    ids = array.array("I", bytes(data)[: len(data) // 4 * 4])
    if sys.byteorder == "big":
        ids.byteswap()
    return tuple(ids)
