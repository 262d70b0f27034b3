"""What can be wrong with the store of chats."""

from __future__ import annotations

import errno
import sqlite3

from ...engine.errors import CutawayError


class StoreError(CutawayError):
    """The store of chats can't be used as it should be."""

    kind = "store"


class NewerStore(StoreError):
    """The store was written by a newer cutaway; it is left untouched."""


class DamagedStore(StoreError):
    """The store's file is not what SQLite wrote."""


_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def damaged(error: BaseException) -> bool:
    """Whether this error of SQLite says that the file itself is damaged."""
    return _code(error) in _DAMAGE


def reason(error: BaseException) -> str:
    """Why nothing could be written, in a few words."""
    code = _code(error)
    if code == sqlite3.SQLITE_FULL or (isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)):
        return "disk full"
    if code in _DAMAGE:
        return "the store is damaged, start cutaway again to recover it"
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return "the data folder can't be written"
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "another program holds the store"
    if code == sqlite3.SQLITE_IOERR:
        return "the disk fails"
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return str(error) or type(error).__name__


def _code(error: BaseException) -> int:
    """SQLite's primary result code, 0 for other errors."""
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF
