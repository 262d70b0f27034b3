"""Chats as files: JSON, which can be read back, and Markdown, for reading.

The JSON is `{"format": "cutaway-chats", "version": 1, "chats": [...]}`. A chat has the fields of `ChatRecord` and
`messages`; a message has those of `MessageRecord`. Fields that have their default are left out. Messages are numbered
from 1 in each chat; `parent` and `chosen` are such numbers, 0 or nothing for none. Fields may be added, with a
default, without a new version; a reader ignores those that it does not know.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from .errors import StoreError
from .records import Chat, ChatRecord, MessageRecord, keepable, renumbered

FORMAT = "cutaway-chats"
VERSION = 1
_NAMES = {"user": "You", "assistant": "Model", "system": "System", "tool": "Tool"}


class _Exported(ChatRecord, frozen=True, omit_defaults=True):
    messages: tuple[MessageRecord, ...] = ()


class _File(msgspec.Struct, frozen=True):
    format: str
    version: int
    chats: tuple[_Exported, ...]


class _Kind(msgspec.Struct, frozen=True):
    format: str = ""
    version: int = 0


def to_json(chats: Iterable[Chat]) -> bytes:
    """The chats as a file of JSON, indented, UTF-8."""
    exported: list[_Exported] = []
    for chat in chats:
        counted = renumbered(chat.messages, chat.record.chosen, range(1, len(chat.messages) + 1))
        record = msgspec.structs.replace(
            chat.record,
            chosen=counted.record.chosen,
            title=keepable(chat.record.title),
            system=keepable(chat.record.system),
        )
        fields = {field: getattr(record, field) for field in ChatRecord.__struct_fields__}
        exported.append(_Exported(**fields, messages=tuple(map(_keepable, counted.messages))))
    return msgspec.json.format(msgspec.json.encode(_File(FORMAT, VERSION, tuple(exported))), indent=1) + b"\n"


def from_json(data: bytes, name: str = "the file") -> list[Chat]:
    """The chats of a file that `to_json` made. Raises `StoreError`, naming what is wrong and where."""
    try:
        kind = msgspec.json.decode(data, type=_Kind)
        if kind.format != FORMAT:
            raise StoreError(f"{name} is no export of cutaway.")
        if kind.version > VERSION:
            raise StoreError(
                f"{name} has version {kind.version} of the format; this cutaway reads up to {VERSION}.",
                "Bring cutaway up to date.",
            )
        file = msgspec.json.decode(data, type=_File)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise StoreError(f"{name} can't be read: {error}.") from None
    return [_chat(exported, name) for exported in file.chats]


def _chat(exported: _Exported, name: str) -> Chat:
    known = {0}
    for message in sorted(exported.messages, key=lambda message: message.number):
        if message.number <= 0 or message.number in known or message.parent not in known:
            raise StoreError(
                f"{name}: message {message.number} of chat {exported.title!r} has no number of its own, "
                "or a parent that does not come before it."
            )
        known.add(message.number)
    fields = {field: getattr(exported, field) for field in ChatRecord.__struct_fields__}
    return Chat(ChatRecord(**fields), exported.messages)


def _keepable(message: MessageRecord) -> MessageRecord:
    texts = {field: keepable(getattr(message, field)) for field in ("text", "detail", "action", "note", "reasoning")}
    return msgspec.structs.replace(message, **texts)


# ------------------------------------------------------------------------------------------------ branches


def path(chat: Chat, through: int = 0) -> list[MessageRecord]:
    """The messages on the path shown, or on the one through the message with this number."""
    numbers = {message.number: message for message in chat.messages}
    found: list[MessageRecord] = []
    message = numbers.get(through)
    while message is not None:
        found.insert(0, message)
        message = numbers.get(message.parent)
    below: dict[int, list[MessageRecord]] = {}
    for child in chat.messages:
        below.setdefault(child.parent, []).append(child)
    at, wanted = (through, numbers[through].chosen) if through in numbers else (0, chat.record.chosen)
    while children := below.get(at):
        child = next((child for child in children if child.number == wanted), children[-1])
        found.append(child)
        at, wanted = child.number, child.chosen
    return found


def branch(chat: Chat, through: int = 0) -> Chat:
    """The chat with nothing but that path."""
    kept = path(chat, through)
    chosen = [message.number for message in kept]
    ahead = dict(zip([0, *chosen], [*chosen, 0], strict=True))
    record = msgspec.structs.replace(chat.record, chosen=ahead[0])
    return Chat(record, tuple(msgspec.structs.replace(message, chosen=ahead[message.number]) for message in kept))


# ------------------------------------------------------------------------------------------------ Markdown


def to_markdown(chat: Chat, through: int = 0) -> str:
    """The path shown, or the one through a message; other branches are told of, not written."""
    shown = path(chat, through)
    lines = [f"# {' '.join(chat.record.title.split())}", ""]
    if chat.record.system.strip():
        lines += ["> System prompt:", *(f"> {line}" for line in chat.record.system.splitlines()), ""]
    siblings: dict[int, int] = {}
    for message in chat.messages:
        siblings[message.parent] = siblings.get(message.parent, 0) + 1
    for message in shown:
        lines += [f"## {_heading(message, siblings[message.parent])}", ""]
        if message.reasoning:
            lines += ["<details><summary>Reasoning</summary>", "", message.reasoning, "", "</details>", ""]
        lines += [message.text, ""]
        if message.status in ("length", "stopped", "failed"):
            lines += [f"*({message.detail or message.status})*", ""]
    return keepable("\n".join(lines))


def _heading(message: MessageRecord, branches: int) -> str:
    name = message.model if message.role == "assistant" and message.model else _NAMES.get(message.role, message.role)
    when = f" · {when_made(message.made_ms)}" if message.made_ms else ""
    others = f" · one of {branches} versions" if branches > 1 else ""
    return f"{name}{when}{others}"


def when_made(made_ms: int) -> str:
    """Milliseconds since 1970 as a date and time, in UTC so that a file is the same everywhere."""
    try:
        return datetime.fromtimestamp(made_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):
        return "at an unknown time"
