"""Opening the store: its folder, its lock, its age, its health. What can't be opened is said in one sentence."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path

import msgspec

from ...engine import places
from ...engine.errors import CutawayError
from . import schema, words
from .database import Database
from .errors import DamagedStore, NewerStore, StoreError, damaged, reason

NAME = "chats.db"
BUSY_S = 10.0  # how long a write waits for another program's
_ROOM = 64 * 1024  # bytes that SQLite needs beside the file, about
LOCK_S = 60.0  # how long a start waits for another program's migration or rescue


class Opened(msgspec.Struct, frozen=True):
    """The store, and what the reader must be told about it."""

    database: Database
    notice: str = ""


def path() -> Path:
    """Where the chats are. Raises `CutawayError` where there is no folder for them."""
    return places.data() / NAME


def open_store(file: Path) -> Opened:
    """Open the store for writing, made, brought up to date or rescued as needed.

    Two programs that start together do that one after the other. Raises `NewerStore`, or `StoreError` where the
    folder can't be used. A store that can be read only is opened so, and that is the notice.
    """
    from filelock import FileLock, Timeout  # the first paint does not wait for it

    _refuse_newer(file)
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with FileLock(file.with_suffix(".lock"), timeout=LOCK_S):
            return _open_locked(file)
    except Timeout:
        raise StoreError(
            f"Another program has held the chats in {file} for {LOCK_S:.0f} seconds.", "End it, then try again."
        ) from None
    except (OSError, sqlite3.OperationalError) as error:
        why = _why(error, file.parent)
        if file.is_file() and (_unwritable(error) or not os.access(file, os.W_OK)):
            return _open_to_read(file, why)
        raise StoreError(
            f"Chats can't be kept in {file.parent}: {why}.", "CUTAWAY_DATA_DIR can name another folder."
        ) from None


def connect(file: Path) -> Database:
    """One more connection to the store. Raises what `open_store` raises."""
    return open_store(file).database


def short_reason(error: CutawayError) -> str:
    """Why chats are not kept, in a few words."""
    return "it was written by a newer cutaway" if isinstance(error, NewerStore) else error.message.rstrip(".")


def mark_damaged(file: Path) -> None:
    """Remember that reading or writing has met damage, so that the next start rescues what there is."""
    try:
        file.with_suffix(".damaged").touch()
    except OSError:
        return


def _open_locked(file: Path) -> Opened:
    from .salvage import rescue

    mark = file.with_suffix(".damaged")
    notice = ""
    if mark.exists():
        notice = rescue(file) if file.exists() else ""
        mark.unlink(missing_ok=True)
    try:
        return Opened(_ready(file), notice)
    except DamagedStore:
        notice = rescue(file)
        return Opened(_ready(file), notice)


def _ready(file: Path) -> Database:
    """Raises `DamagedStore`."""
    if not file.exists():
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))  # nobody else's to read
    connection = _connect(file)
    try:
        if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            connection.execute(f"PRAGMA page_size={schema.PAGE_SIZE}")
            connection.execute("PRAGMA auto_vacuum=NONE")
        connection.execute("PRAGMA journal_mode=WAL")
        _check(connection, file)
        schema.migrate(connection, file)
        if not words.available(connection):
            words.uninstall(connection)
        elif not words.installed(connection):
            words.install(connection)
    except sqlite3.DatabaseError as error:
        connection.close()
        if damaged(error):
            raise DamagedStore(f"{file} is damaged.") from None
        raise
    except BaseException:
        connection.close()
        raise
    return Database(connection, file)


def _connect(file: Path) -> sqlite3.Connection:
    # Everything stays as careful as SQLite is by itself: a commit is on the disk before it is said to be.
    connection = sqlite3.connect(file, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA foreign_keys=ON")
    return connection


def _check(connection: sqlite3.Connection, file: Path) -> None:
    """Look where damage shows soon; reading the whole file would take seconds. Raises `DamagedStore`."""
    found = schema.version(connection)
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if found and not {"chats", "messages"} <= tables:
        raise DamagedStore(f"{file} has lost its tables.")
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    wal = file.with_name(file.name + "-wal")
    if (not wal.exists() or wal.stat().st_size == 0) and file.stat().st_size < pages * schema.PAGE_SIZE:
        raise DamagedStore(f"{file} is cut: {file.stat().st_size:,} bytes of {pages * schema.PAGE_SIZE:,}.")
    if found:
        for order in ("ASC", "DESC"):
            connection.execute(f"SELECT * FROM messages ORDER BY id {order} LIMIT 1").fetchone()
            connection.execute(f"SELECT * FROM chats ORDER BY id {order} LIMIT 1").fetchone()


def _refuse_newer(file: Path) -> None:
    """Raise `NewerStore` before anything is touched."""
    if not file.exists():
        return
    # Asked of SQLite and not read from the header: closing a file of our own would drop this process's locks on it
    # (https://sqlite.org/howtocorrupt.html, section 2.2), and two programs would ruin the store.
    try:
        with contextlib.closing(_connect_to_read(file, "mode=ro")) as connection:
            found = schema.version(connection)
    except sqlite3.Error:
        return
    schema.refuse_newer(found, file)


def _connect_to_read(file: Path, mode: str) -> sqlite3.Connection:
    address = f"{file.absolute().as_uri()}?{mode}"
    return sqlite3.connect(address, timeout=BUSY_S, uri=True, isolation_level=None, check_same_thread=False)


def _open_to_read(file: Path, why: str) -> Opened:
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        try:
            connection = _connect_to_read(file, mode)
            connection.execute("SELECT count(*) FROM chats").fetchone()
        except sqlite3.Error:
            continue
        return Opened(Database(connection, file, readonly=True), f"Chats can be read, but not saved: {why}.")
    raise StoreError(f"Chats can't be kept in {file.parent}: {why}.", "CUTAWAY_DATA_DIR can name another folder.")


_NO_WRITING = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def _why(error: BaseException, folder: Path) -> str:
    """What keeps the store from being opened, in a few words."""
    with contextlib.suppress(OSError):
        # SQLite calls it a failing disk when its shared memory finds no room.
        if isinstance(error, sqlite3.OperationalError) and shutil.disk_usage(folder).free < _ROOM:
            return "disk full"
    return reason(error)


def _unwritable(error: BaseException) -> bool:
    """Whether the store may still be read: reading is tried, and tells."""
    if isinstance(error, sqlite3.OperationalError):
        return (error.sqlite_errorcode & 0xFF) in _NO_WRITING
    return isinstance(error, OSError)
