"""A damaged store: kept aside under a new name, its readable rows put into a new one, and all of it said."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from pathlib import Path

from . import schema
from .database import Database
from .pages import Row, Value, rows
from .records import now_ms

_LOST = "a message before this one was lost with the damaged store"


def rescue(file: Path) -> str:
    """Replace the damaged store by a new one with what can be read of it; returns what the reader must know.

    To be called by one program at a time. Raises OSError where files can't be moved, `sqlite3.Error` where the new
    store can't be written.
    """
    aside = _move_aside(file)
    chats, messages = _readable(aside)
    fresh = file.with_name(file.name + ".rescue")
    for old in (fresh, fresh.with_name(fresh.name + "-journal")):
        old.unlink(missing_ok=True)
    saved_chats, saved_messages = _write(fresh, chats, messages)
    fresh.replace(file)
    if not saved_messages:
        return f"The store of chats was damaged, and nothing in it could be read. It is kept as {aside}."
    return (
        f"The store of chats was damaged. {saved_chats:,} chat{'s' if saved_chats != 1 else ''} with "
        f"{saved_messages:,} message{'s' if saved_messages != 1 else ''} could be read and are here; "
        f"the damaged file is kept as {aside}."
    )


def _move_aside(file: Path) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    number = 1
    while (aside := file.with_name(f"{file.stem}-damaged-{stamp}{'' if number == 1 else f'-{number}'}.db")).exists():
        number += 1
    file.rename(aside)
    for end in ("-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            file.with_name(file.name + end).rename(aside.with_name(aside.name + end))
    return aside


def _readable(aside: Path) -> tuple[dict[int, list[Value]], dict[int, list[Value]]]:
    """The rows of chats and of messages, by id."""
    chats: dict[int, list[Value]] = {}
    messages: dict[int, list[Value]] = {}
    for rowid, values in rows(aside, schema.PAGE_SIZE):
        row = [rowid, *values[1:]]
        if _is_message((rowid, values)):
            messages[rowid] = row[: len(schema.MESSAGE_COLUMNS)]
        elif _is_chat((rowid, values)):
            wanted = len(schema.CHAT_COLUMNS)
            chats[rowid] = [*row, *[""] * (wanted - len(row))][:wanted]
    return chats, messages


def _is_message(row: Row) -> bool:
    rowid, values = row
    return (
        rowid > 0
        and len(values) >= len(schema.MESSAGE_COLUMNS)
        and values[0] is None
        and isinstance(values[1], int)
        and isinstance(values[2], int | None)
        and isinstance(values[3], str)
        and isinstance(values[4], str)
    )


def _is_chat(row: Row) -> bool:
    rowid, values = row
    return (
        rowid > 0
        and schema.FIRST_CHAT_COLUMNS <= len(values) < len(schema.MESSAGE_COLUMNS)
        and values[0] is None
        and all(isinstance(values[at], str) for at in (1, 2, 4))
        and isinstance(values[7], int | None)
    )


def _write(fresh: Path, chats: dict[int, list[Value]], messages: dict[int, list[Value]]) -> tuple[int, int]:
    """Write what was read as a whole store; returns how many chats that are not deleted, and messages, it has."""
    _mend(chats, messages)
    connection = sqlite3.connect(fresh, isolation_level=None)
    try:
        connection.execute(f"PRAGMA page_size={schema.PAGE_SIZE}")
        connection.execute("PRAGMA foreign_keys=ON")
        schema.migrate(connection)
        with Database(connection, fresh).transaction():
            for table, found in (("chats", chats), ("messages", messages)):
                for _, row in sorted(found.items()):
                    with contextlib.suppress(sqlite3.IntegrityError):
                        marks = ",".join("?" * len(row))
                        connection.execute(f"INSERT INTO {table} VALUES ({marks})", row)
        shown = connection.execute("SELECT count(*) FROM chats WHERE deleted_ms IS NULL").fetchone()[0]
        return shown, connection.execute("SELECT count(*) FROM messages").fetchone()[0]
    finally:
        connection.close()


def _mend(chats: dict[int, list[Value]], messages: dict[int, list[Value]]) -> None:
    """Give messages whose chat is lost a chat, and those whose parent is lost the nearest message before it."""
    newest: dict[int, list[int]] = {}
    note = schema.MESSAGE_COLUMNS.index("note")
    for number, row in sorted(messages.items()):
        chat, parent = row[1], row[2]
        assert isinstance(chat, int)
        if chat not in chats:
            now = now_ms()
            chats[chat] = [chat, f"lost{chat}", f"recovered chat {chat}", 1, "", now, now, None, 0, "", "", ""]
        earlier = newest.setdefault(chat, [])
        if isinstance(parent, int) and parent not in messages:
            row[2] = max((known for known in earlier if known < parent), default=None)
            row[note] = _LOST
        earlier.append(number)
