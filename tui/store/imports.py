"""Bringing chats in from files, whichever program wrote them."""

from __future__ import annotations

import dataclasses
import io
import zipfile
from pathlib import Path
from typing import Any

import msgspec

from . import export, foreign
from .chats import ChatStore
from .errors import StoreError
from .records import Chat, new_key, new_number, now_ms, renumbered

_CHATGPT = "conversations.json"


@dataclasses.dataclass(frozen=True)
class Imported:
    """What came in, what was here already, and how many messages were no text."""

    keys: tuple[str, ...]
    known: int = 0
    left_out: int = 0


def read(data: bytes, name: str = "the file") -> foreign.Read:
    """The chats in an export of ours, of ChatGPT's (also its zip file) or of Open WebUI's. Raises `StoreError`."""
    if data.startswith(b"PK\x03\x04"):
        data = _unzipped(data, name)
    try:
        found: Any = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise StoreError(f"{name} is no JSON: {error}.") from None
    if isinstance(found, dict) and "format" in found:
        return foreign.Read(export.from_json(data, name))
    chats = found if isinstance(found, list) else [found]
    if foreign.looks_like_chatgpt(chats):
        return foreign.from_chatgpt(chats)
    if foreign.looks_like_open_webui(chats):
        return foreign.from_open_webui(chats)
    raise StoreError(
        f"{name} holds no chats that cutaway knows.",
        "It reads its own JSON, ChatGPT's conversations.json or its zip file, and Open WebUI's export.",
    )


def bring_in(store: ChatStore, data: bytes, name: str = "the file") -> Imported:
    """Keep the chats of an export; those that are here, or came in from the same place before, are not taken twice.

    Raises `StoreError`; nothing is imported then.
    """
    found = read(data, name)
    database = store.database
    known = database.sources(chat.record.source for chat in found.chats)
    new: list[Chat] = []
    keys: set[str] = set()
    here = 0
    for chat in found.chats:
        if chat.record.source in known or _is_here(store, chat):
            here += 1
        elif chat.messages:
            new.append(_own(store, chat, keys))
            keys.add(new[-1].record.key)
    store.add(new)
    return Imported(tuple(chat.record.key for chat in new), here, found.left_out)


def _is_here(store: ChatStore, chat: Chat) -> bool:
    """Whether the store has just this chat, under the key that it was exported with, and nothing was said since."""
    there = store.load(chat.record.key) if chat.record.key else None
    return there is not None and _shape(there) == _shape(chat)


def _shape(chat: Chat) -> list[tuple[int, str, str]]:
    """Who said what after which message, whatever the messages' numbers are."""
    places = {message.number: place for place, message in enumerate(chat.messages)}
    return [(places.get(m.parent or 0, -1), m.role, m.text) for m in chat.messages]


def _own(store: ChatStore, chat: Chat, taken: set[str]) -> Chat:
    """The chat under a key and with numbers that nothing here has."""
    key = chat.record.key or new_key()
    while key in taken or store.load(key) is not None:
        key = new_key()
    counted = renumbered(chat.messages, chat.record.chosen, (new_number() for _ in chat.messages))
    changed = chat.record.changed_ms or now_ms()
    record = msgspec.structs.replace(chat.record, key=key, chosen=counted.record.chosen, changed_ms=changed)
    return Chat(record, counted.messages)


def read_file(path: Path) -> bytes:
    """The file's bytes. Raises `StoreError`."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path} can't be read: {error.strerror or error}.") from None


def _unzipped(data: bytes, name: str) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            inside = next((entry for entry in packed.namelist() if Path(entry).name == _CHATGPT), None)
            if inside is None:
                raise StoreError(f"{name} has no {_CHATGPT} in it.")
            return packed.read(inside)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError) as error:
        raise StoreError(f"{name} can't be unpacked: {error}.") from None
