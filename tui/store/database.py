"""One connection to the store, and everything that is asked of it in SQL. To be used by one thread at a time."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from ..state.keeping import Listed
from . import words
from .records import Chat, ChatRecord, MessageRecord, keepable, now_ms
from .rows import chat_record, chat_row, message_record, message_row
from .schema import CHAT_COLUMNS, MESSAGE_COLUMNS

_HITS = 3000  # messages looked at for one search, the newest first
_KEPT_DELETED_MS = 30 * 24 * 3600 * 1000


class Changes(msgspec.Struct):
    """What is to be written, each chat and message once, as it is now. Numbers and keys are those of records."""

    chats: dict[str, ChatRecord] = msgspec.field(default_factory=dict)
    messages: dict[int, tuple[str, MessageRecord]] = msgspec.field(default_factory=dict)
    deleted: dict[str, int | None] = msgspec.field(default_factory=dict)  # when; None: it is wanted again

    def __bool__(self) -> bool:
        return bool(self.chats or self.messages or self.deleted)

    def put(self, newer: Changes) -> None:
        """Add later changes, which count where both have something."""
        self.chats |= newer.chats
        self.messages |= newer.messages
        self.deleted |= newer.deleted

    def chat(self, chat: Chat) -> None:
        """Add a whole chat."""
        self.chats[chat.record.key] = chat.record
        self.messages |= {message.number: (chat.record.key, message) for message in chat.messages}


_CHAT_NAMES = [name for name in CHAT_COLUMNS if name not in ("id", "deleted_ms")]
_CHANGING = [name for name in _CHAT_NAMES if name not in ("key", "made_ms", "source")]
_PUT_CHAT = (
    f"INSERT INTO chats({','.join(_CHAT_NAMES)}) VALUES ({','.join(f':{n}' for n in _CHAT_NAMES)}) "
    f"ON CONFLICT(key) DO UPDATE SET {','.join(f'{n}=excluded.{n}' for n in _CHANGING)}"
)
_OWN = [name for name in MESSAGE_COLUMNS if name != "chat"]
_PARENT = "(SELECT id FROM messages WHERE id = :parent)"  # a parent that is gone is none
_PUT_MESSAGE = (
    f"INSERT INTO messages(chat,{','.join(_OWN)}) "
    f"SELECT id,{','.join(_PARENT if n == 'parent' else f':{n}' for n in _OWN)} FROM chats WHERE key = :key "
    f"ON CONFLICT(id) DO UPDATE SET {','.join(f'{n}=excluded.{n}' for n in _OWN if n not in ('id', 'made_ms'))} "
    "WHERE messages.chat = excluded.chat"
)
_LISTED = (
    "SELECT c.key, c.title, c.changed_ms, (SELECT count(*) FROM messages m WHERE m.chat = c.id), "
    "coalesce((SELECT m.model FROM messages m WHERE m.chat = c.id AND m.model <> '' ORDER BY m.id DESC LIMIT 1), '') "
    "FROM (SELECT * FROM chats c WHERE c.deleted_ms IS "  # which chats first: what is told of each costs more
)


class Database:
    """Reads raise `sqlite3.Error` where the file is damaged; writes also where the disk is full."""

    def __init__(self, connection: sqlite3.Connection, path: Path, readonly: bool = False) -> None:
        self.connection = connection
        self.path = path
        self.readonly = readonly
        self.indexed = words.installed(connection) and words.available(connection)
        self._file = _identity(path)
        connection.create_function("folded", 1, lambda text: str(text).casefold(), deterministic=True)

    @property
    def moved(self) -> bool:
        """The path leads to another file now, or to none."""
        return self._file != _identity(self.path)

    def close(self) -> None:
        self.connection.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it or nothing."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise

    # ------------------------------------------------------------------------------------------- writing

    def write(self, changes: Changes) -> bool:
        """Write all of these, or raise and write none.

        False: chats or parents that the messages belong to are not in the file (any more).
        """
        with self.transaction():
            whole = self._builds_on_what_is_here(changes)
            run = self.connection.executemany
            run(_PUT_CHAT, map(chat_row, changes.chats.values()))
            ordered = sorted(changes.messages)
            run(_PUT_MESSAGE, (message_row(*changes.messages[number]) for number in ordered))
            run("UPDATE chats SET deleted_ms = ? WHERE key = ?", ((when, key) for key, when in changes.deleted.items()))
        return whole

    def _builds_on_what_is_here(self, changes: Changes) -> bool:
        chats = {key for key, _ in changes.messages.values()} - changes.chats.keys()
        parents = {message.parent for _, message in changes.messages.values()} - changes.messages.keys() - {0}
        run = self.connection.execute
        return all(run("SELECT 1 FROM chats WHERE key = ?", (key,)).fetchone() for key in chats) and all(
            run("SELECT 1 FROM messages WHERE id = ?", (parent,)).fetchone() for parent in parents
        )

    def purge(self, before_ms: int | None = None) -> int:
        """Remove for good what was deleted before then (30 days ago, if not told); returns the number of chats."""
        before = now_ms() - _KEPT_DELETED_MS if before_ms is None else before_ms
        with self.transaction():
            return self.connection.execute("DELETE FROM chats WHERE deleted_ms < ?", (before,)).rowcount

    # ------------------------------------------------------------------------------------------- reading

    def listed(self, limit: int = 50, offset: int = 0, deleted: bool = False) -> list[Listed]:
        """Chats, the one changed (or deleted) last first."""
        where = "NOT NULL ORDER BY c.deleted_ms DESC" if deleted else "NULL ORDER BY c.changed_ms DESC, c.id DESC"
        rows = self.connection.execute(f"{_LISTED}{where} LIMIT ? OFFSET ?) c", (limit, offset))
        return [Listed(*row) for row in rows]

    def count(self) -> int:
        """How many chats there are."""
        return self.connection.execute("SELECT count(*) FROM chats WHERE deleted_ms IS NULL").fetchone()[0]

    def keys(self) -> list[str]:
        """All chats, the oldest first."""
        found = self.connection.execute("SELECT key FROM chats WHERE deleted_ms IS NULL ORDER BY made_ms, id")
        return [key for (key,) in found]

    def keys_like(self, start: str) -> list[str]:
        """Keys that begin so, also of deleted chats."""
        end = start + "\U0010ffff"
        found = self.connection.execute("SELECT key FROM chats WHERE key >= ? AND key < ? LIMIT 20", (start, end))
        return [key for (key,) in found]

    def sources(self, sources: Iterable[str]) -> set[str]:
        """Which of these imports are here already."""
        ask = "SELECT 1 FROM chats WHERE source = ? AND source <> '' LIMIT 1"
        return {source for source in sources if self.connection.execute(ask, (source,)).fetchone()}

    def load(self, key: str) -> Chat | None:
        """A chat with its messages, deleted or not."""
        names = ",".join(CHAT_COLUMNS)
        row = self.connection.execute(f"SELECT {names} FROM chats WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        names = ",".join(MESSAGE_COLUMNS)
        rows = self.connection.execute(f"SELECT {names} FROM messages WHERE chat = ? ORDER BY id", (row[0],))
        return Chat(chat_record(row), tuple(map(message_record, rows)))

    def lacks(self, changes: Changes) -> int:
        """How many of these messages are not here, or say something else here."""
        ask = "SELECT text FROM messages WHERE id = ?"
        found = ((self.connection.execute(ask, (n,)).fetchone(), m.text) for n, (_, m) in changes.messages.items())
        return sum(row is None or row[0] != keepable(text) for row, text in found)

    def find(self, text: str, limit: int = 50, key: str = "") -> list[Listed]:
        """Chats (or the one with this key) whose messages or title hold all the words of `text`.

        The chat with the newest such message first, then those found by their titles.
        """
        wanted = words.parts(text)
        if not wanted:
            return []
        found: dict[str, Listed] = {}
        seen: set[int] = set()
        for number, said in self._messages(wanted, key):
            if number in seen:
                continue
            seen.add(number)
            row = self.connection.execute(f"{_LISTED}NULL AND c.id = ?) c", (number,)).fetchone()
            found[row[0]] = Listed(*row, found=words.around(said, wanted))
            if len(found) >= limit:
                break
        if not key:
            test = " AND ".join(["instr(folded(c.title), ?)"] * len(wanted))
            named = [part.casefold() for part in wanted]
            rows = self.connection.execute(
                f"{_LISTED}NULL AND {test} ORDER BY c.changed_ms DESC LIMIT ?) c", (*named, limit)
            )
            for row in rows:
                found.setdefault(row[0], Listed(*row))
        return list(found.values())[:limit]

    def passages(self, text: str, key: str) -> list[tuple[int, str]]:
        """(number, text around it) of the messages of one chat that hold all the words, the newest first."""
        wanted = words.parts(text)
        chat = self.load(key) if wanted else None
        folded = [part.casefold() for part in wanted]
        return [
            (message.number, words.around(message.text, wanted))
            for message in reversed(chat.messages if chat is not None else ())
            if all(part in message.text.casefold() for part in folded)
        ]

    def _messages(self, wanted: list[str], key: str) -> Iterator[tuple[int, str]]:
        """(id of the chat, text) of messages that hold all of these, the newest first."""
        joined = "JOIN chats c ON c.id = m.chat WHERE c.deleted_ms IS NULL AND (? = '' OR c.key = ?)"
        query = words.query(wanted) if self.indexed else ""
        if query:
            # The index is read backwards and never wholly: CROSS JOIN keeps SQLite from turning it round.
            sql = (
                "SELECT m.chat, m.text FROM words CROSS JOIN messages m ON m.id = words.rowid "
                f"{joined} AND words MATCH ? ORDER BY words.rowid DESC LIMIT {_HITS}"
            )
            yield from self.connection.execute(sql, (key, key, query))
        else:
            test = " AND ".join(["instr(folded(m.text), ?)"] * len(wanted))
            named = [part.casefold() for part in wanted]
            sql = f"SELECT m.chat, m.text FROM messages m {joined} AND {test} ORDER BY m.id DESC LIMIT {_HITS}"
            yield from self.connection.execute(sql, (key, key, *named))


def _identity(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return (found.st_dev, found.st_ino)
