"""The index of words: SQLite's FTS5 over the messages' texts. Python's SQLite may lack it; then texts are read through.

The index follows `messages` by triggers. A program without FTS5 takes the triggers away, for it could not write
otherwise; the next one that has it finds them gone and builds the index again.
"""

from __future__ import annotations

import re
import sqlite3

_TRIGGERS = {
    "words_added": "AFTER INSERT ON messages BEGIN INSERT INTO words(rowid, text) VALUES (new.id, new.text); END",
    "words_removed": "AFTER DELETE ON messages BEGIN "
    "INSERT INTO words(words, rowid, text) VALUES ('delete', old.id, old.text); END",
    "words_changed": "AFTER UPDATE OF text ON messages WHEN old.text IS NOT new.text BEGIN "
    "INSERT INTO words(words, rowid, text) VALUES ('delete', old.id, old.text); "
    "INSERT INTO words(rowid, text) VALUES (new.id, new.text); END",
}
_PART = re.compile(r'"([^"]+)"|(\S+)')
# Scripts written without blanks: the index would take a whole sentence for one word.
_UNSPACED = "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"


def available(connection: sqlite3.Connection) -> bool:
    """Whether this Python's SQLite has FTS5."""
    try:
        connection.execute("CREATE VIRTUAL TABLE temp.words_tried USING fts5(text)")
        connection.execute("DROP TABLE temp.words_tried")
    except sqlite3.OperationalError:
        return False
    return True


def installed(connection: sqlite3.Connection) -> bool:
    """Whether the index follows the messages."""
    marks = ",".join("?" * len(_TRIGGERS))
    count = "SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND name IN"
    return connection.execute(f"{count} ({marks})", [*_TRIGGERS]).fetchone()[0] == len(_TRIGGERS)


def install(connection: sqlite3.Connection) -> None:
    """Make the index and let it follow the messages."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5("
        "text, content='messages', content_rowid='id', tokenize='unicode61 remove_diacritics 2')"
    )
    for name, body in _TRIGGERS.items():
        connection.execute(f"DROP TRIGGER IF EXISTS {name}")
        connection.execute(f"CREATE TRIGGER {name} {body}")
    connection.execute("INSERT INTO words(words) VALUES ('rebuild')")
    connection.execute("COMMIT")


def uninstall(connection: sqlite3.Connection) -> None:
    """Let the messages be written without the index."""
    for name in _TRIGGERS:
        connection.execute(f"DROP TRIGGER IF EXISTS {name}")


def parts(text: str) -> list[str]:
    """The words and "quoted phrases" that are searched for."""
    return [" ".join((phrase or word).split()) for phrase, word in _PART.findall(text)]


def query(wanted: list[str]) -> str:
    """An FTS5 query for messages that hold all of these, the last as a beginning; empty where it can't be asked."""
    if not wanted or any(re.search(_UNSPACED, part) or not any(c.isalnum() for c in part) for part in wanted):
        return ""
    quoted = ['"' + part.replace('"', '""') + '"' for part in wanted]
    return " ".join(quoted) + "*"


def around(text: str, wanted: list[str], width: int = 80) -> str:
    """About `width` characters of `text` around the first of the words in it, on one line."""
    line = " ".join(text.split())
    folded = line.casefold()
    at = min((found for part in wanted if (found := folded.find(part.casefold())) >= 0), default=0)
    begin = max(0, at - width // 3)
    piece = line[begin : begin + width]
    return ("…" if begin else "") + piece + ("…" if begin + width < len(line) else "")
