"""The tables, as a list of migrations: `PRAGMA user_version` counts those a file has had.

A migration is never changed once released; a new one is added below it. Columns are only ever added, at the end:
`salvage.py` tells tables apart by how many they have. The index of words (`words.py`) can be made again at any time
and is no part of this.
"""

from __future__ import annotations

import sqlite3

from .errors import NewerStore

PAGE_SIZE = 4096  # bytes; fixed, so that a file without its header can still be read

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE chats(
        id INTEGER PRIMARY KEY,
        key TEXT NOT NULL UNIQUE,
        title TEXT NOT NULL DEFAULT '',
        named INTEGER NOT NULL DEFAULT 0,
        system TEXT NOT NULL DEFAULT '',
        made_ms INTEGER NOT NULL DEFAULT 0,
        changed_ms INTEGER NOT NULL DEFAULT 0,
        deleted_ms INTEGER,
        chosen INTEGER NOT NULL DEFAULT 0,
        source TEXT NOT NULL DEFAULT ''
    );
    CREATE INDEX chats_by_change ON chats(changed_ms DESC) WHERE deleted_ms IS NULL;
    CREATE INDEX chats_by_source ON chats(source) WHERE source <> '';
    CREATE TABLE messages(
        id INTEGER PRIMARY KEY,
        chat INTEGER NOT NULL REFERENCES chats(id) ON DELETE CASCADE,
        parent INTEGER REFERENCES messages(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
        role TEXT NOT NULL,
        text TEXT NOT NULL,
        chosen INTEGER NOT NULL DEFAULT 0,
        made_ms INTEGER NOT NULL DEFAULT 0,
        status TEXT NOT NULL DEFAULT '',
        detail TEXT NOT NULL DEFAULT '',
        action TEXT NOT NULL DEFAULT '',
        note TEXT NOT NULL DEFAULT '',
        reasoning TEXT NOT NULL DEFAULT '',
        prefix INTEGER NOT NULL DEFAULT 0,
        model TEXT NOT NULL DEFAULT '',
        identity TEXT NOT NULL DEFAULT '',
        settings TEXT NOT NULL DEFAULT '',
        tokens INTEGER NOT NULL DEFAULT 0,
        prompt_tokens INTEGER NOT NULL DEFAULT 0,
        cached_tokens INTEGER NOT NULL DEFAULT 0,
        ttft_ns INTEGER NOT NULL DEFAULT 0,
        speed REAL NOT NULL DEFAULT 0,
        token_ids BLOB NOT NULL DEFAULT x''
    );
    CREATE INDEX messages_of_chat ON messages(chat);
    CREATE INDEX messages_below ON messages(parent);
    """,
    """
    ALTER TABLE chats ADD COLUMN server TEXT NOT NULL DEFAULT '';
    ALTER TABLE chats ADD COLUMN model TEXT NOT NULL DEFAULT ''
    """,
)

CHAT_COLUMNS = (
    "id", "key", "title", "named", "system", "made_ms", "changed_ms", "deleted_ms", "chosen", "source", "server",
    "model",
)  # fmt: skip
FIRST_CHAT_COLUMNS = 10  # a row keeps as many columns as there were when it was written
MESSAGE_COLUMNS = (
    "id", "chat", "parent", "role", "text", "chosen", "made_ms", "status", "detail", "action", "note", "reasoning",
    "prefix", "model", "identity", "settings", "tokens", "prompt_tokens", "cached_tokens", "ttft_ns", "speed",
    "token_ids",
)  # fmt: skip


def version(connection: sqlite3.Connection) -> int:
    """How many migrations this file has had."""
    return connection.execute("PRAGMA user_version").fetchone()[0]


def refuse_newer(found: int, name: object) -> None:
    """Raise `NewerStore` if a store of version `found` is beyond what this program knows."""
    if found > len(MIGRATIONS):
        raise NewerStore(
            f"The chats in {name} were written by a newer cutaway (version {found} of the store; this one knows "
            f"{len(MIGRATIONS)}). They are left untouched.",
            "Bring cutaway up to date, or set CUTAWAY_DATA_DIR to another folder.",
        )


def migrate(connection: sqlite3.Connection, name: object = "the store") -> int:
    """Bring the file up to date, each migration whole or not at all; returns how many were run.

    To be called by one program at a time. Raises `NewerStore`.
    """
    found = version(connection)
    refuse_newer(found, name)
    for number, script in enumerate(MIGRATIONS[found:], found + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in script.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={number}")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
    return len(MIGRATIONS) - found
