"""The store of chats when things go wrong: disks full, files damaged, folders that can't be written."""

from __future__ import annotations

import errno
import os
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from cutaway.engine import places
from cutaway.tui.state.conversation import Conversation
from cutaway.tui.store import opening, schema
from cutaway.tui.store.chats import ChatStore, default_store
from cutaway.tui.store.database import Changes, Database
from cutaway.tui.store.errors import StoreError, reason
from cutaway.tui.store.pages import rows

from .patience import PATIENCE, until
from .test_store import chat


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "chats.db"


class _Filling(Database):
    """Has no room from the third write on, until `room`."""

    writes = 0
    room = False
    error: Exception = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def write(self, changes: Changes) -> bool:
        type(self).writes += 1
        if self.writes >= 3 and not self.room:
            raise self.error
        return super().write(changes)


@pytest.fixture
def filling(monkeypatch: pytest.MonkeyPatch) -> type[_Filling]:
    monkeypatch.setattr("cutaway.tui.store.writer.RETRY_S", 0.05)
    return type("Filling", (_Filling,), {})


def _into(kind: type[Database]) -> Callable[[Path], Database]:
    return lambda path: kind(opening.connect(path).connection, path)


# ------------------------------------------------------------------------------------------------ full disk


def test_pe_02_a_full_disk_is_said_while_it_lasts_and_everything_is_written_when_space_returns(
    file: Path, filling: type[_Filling]
) -> None:
    told: list[str] = []
    store = ChatStore(file, _into(filling))
    store.on_change = lambda: told.append(store.trouble)
    conversation = store.create()
    for number in range(6):
        conversation.add("user", f"message {number}")
        store.save(conversation)
        store._writer.flush(PATIENCE)
    assert store.trouble == "disk full"
    until(lambda: filling.writes > 8)  # it keeps trying, and the mark stays
    assert store.trouble == "disk full"
    assert told == ["disk full"]
    assert [item.messages for item in store.listed()] == [2]

    filling.room = True
    until(lambda: not store.trouble)
    assert told == ["disk full", ""]
    assert [item.messages for item in store.listed()] == [6]
    assert store.end() == ""


def test_pe_02_the_end_tells_what_was_not_saved(file: Path, filling: type[_Filling]) -> None:
    store = ChatStore(file, _into(filling))
    conversation = chat(store, "one", "two")
    store._writer.flush(PATIENCE)
    for text in ("three", "four", "five"):
        conversation.add("user", text)
        store.save(conversation)
        store._writer.flush(PATIENCE)
    assert store.end() == "2 messages of one chat could not be saved: disk full."


def test_pe_02_sqlite_s_own_full_disk_is_recognised_and_survived(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutaway.tui.store.writer.RETRY_S", 0.05)
    made: list[Database] = []

    def limited(path: Path) -> Database:
        made.append(opening.connect(path))
        pages = made[0].connection.execute("PRAGMA page_count").fetchone()[0]
        made[0].connection.execute(f"PRAGMA max_page_count={pages + 20}")
        return made[0]

    store = ChatStore(file, limited)
    conversation = store.create()
    conversation.add("user", "small")
    store.save(conversation)
    store._writer.flush(PATIENCE)
    assert store.trouble == ""
    conversation.add("user", "x" * 500_000)
    store.save(conversation)
    until(lambda: store.trouble)
    assert store.trouble == "disk full"
    assert store.listed()[0].messages == 1  # half a write is no write
    made[0].connection.execute("PRAGMA max_page_count=100000")
    until(lambda: not store.trouble)
    assert store.listed()[0].messages == 2
    assert store.end() == ""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "x"), "disk full"),
        (OSError(errno.EROFS, "Read-only file system"), "read-only file system"),
        (sqlite3.OperationalError("odd"), "odd"),
    ],
)
def test_why_nothing_is_saved_is_said_in_a_few_words(error: Exception, words: str) -> None:
    assert reason(error) == words


# --------------------------------------------------------------------------------------------------- damage


def _filled(file: Path, chats: int = 40) -> dict[str, list[str]]:
    """A store with many chats, in a file of its own; what each says."""
    store = ChatStore(file)
    said: dict[str, list[str]] = {}
    for number in range(chats):
        texts = [f"question {number}", "long answer " * 80, "and?", "x" * 9_000]  # with overflow pages
        said[chat(store, *texts).key] = texts
    assert store.end() == ""
    assert not file.with_name("chats.db-wal").exists()
    return said


def _texts(store: ChatStore, key: str) -> list[str]:
    loaded = store.load(key)
    return [message.text for message in loaded.messages] if loaded else []


def _read_all(store: ChatStore) -> list[list[str]]:
    return [_texts(store, item.key) for item in store.listed(100)]


@pytest.mark.parametrize(
    "what",
    [b"\0" * 100, bytes(range(155, 255)), b"SQLite format 3\0" + b"\xff" * 84],
    ids=["zeros", "noise", "a header and nothing in it"],
)
def test_pe_04_the_first_100_bytes_overwritten_every_chat_is_recovered(file: Path, what: bytes) -> None:
    said = _filled(file)
    with file.open("r+b") as damaged:
        damaged.write(what)
    spoilt = file.read_bytes()
    store = ChatStore(file)
    assert "damaged" in store.notice
    assert "40 chats with 160 messages" in store.notice
    (aside,) = file.parent.glob("chats-damaged-*.db")
    assert str(aside) in store.notice
    assert aside.read_bytes() == spoilt
    assert {item.key: _texts(store, item.key) for item in store.listed(100)} == said
    assert store.find("question 39")
    chat(store, "life goes on")
    assert store.end() == ""
    assert ChatStore(file).notice == ""  # said once


def test_pe_04_a_file_cut_to_half_gives_what_is_in_it_and_says_so(file: Path) -> None:
    said = _filled(file)
    os.truncate(file, file.stat().st_size // 2)
    store = ChatStore(file)
    assert "damaged" in store.notice
    found = store.listed(1000)
    assert len(found) > 5
    recovered = [text for item in found for text in _texts(store, item.key)]
    assert len(recovered) > 40
    everything = {text for texts in said.values() for text in texts}
    assert set(recovered) <= everything
    for item in found:  # the trees are whole
        conversation = store.open(item.key)
        assert conversation is not None
        assert len(list(conversation.walk())) == item.messages
    store.end()


def test_pe_04_nothing_readable_is_said_too_and_the_file_is_kept(file: Path) -> None:
    file.parent.mkdir()
    file.write_bytes(random.Random(1).randbytes(20_000))
    store = ChatStore(file)
    assert "nothing in it could be read" in store.notice
    assert len(list(file.parent.glob("chats-damaged-*.db"))) == 1
    assert store.listed() == []
    store.end()


def test_pe_04_damage_met_while_running_is_said_and_rescued_at_the_next_start(file: Path) -> None:
    _filled(file, 60)
    size = file.stat().st_size
    with file.open("r+b") as damaged:  # a hole in the middle: nothing that a start looks at
        damaged.seek(size // 3 // schema.PAGE_SIZE * schema.PAGE_SIZE)
        damaged.write(b"\x5a" * (size // 3 // schema.PAGE_SIZE * schema.PAGE_SIZE))
    store = ChatStore(file)
    if not store.notice:
        with pytest.raises(StoreError, match=r"damaged, start cutaway again"):
            _read_all(store)
        store.end()
        store = ChatStore(file)
    assert "damaged" in store.notice
    assert store.listed(100)
    store.end()


def test_pe_04_what_is_only_in_the_log_is_recovered_too(file: Path, tmp_path: Path) -> None:
    store = ChatStore(file)
    conversation = chat(store, "in the log", "only")
    store._writer.flush(PATIENCE)
    copy = tmp_path / "copy" / "chats.db"
    copy.parent.mkdir()
    for end in ("", "-wal"):
        copy.with_name(copy.name + end).write_bytes(file.with_name(file.name + end).read_bytes())
    store.end()
    texts = {value for _, values in rows(copy, schema.PAGE_SIZE) for value in values}
    assert {"in the log", "only", conversation.key} <= texts


def test_a_store_replaced_under_a_running_program_gets_its_chats_again(file: Path) -> None:
    store = ChatStore(file)
    conversation = chat(store, "first", "reply")
    store._writer.flush(PATIENCE)
    for path in file.parent.glob("chats.db*"):
        path.unlink()
    conversation.add("user", "second")
    store.save(conversation)
    store._writer.flush(PATIENCE)
    conversation.add("assistant", "third")
    store.save(conversation)
    assert _texts(store, conversation.key) == ["first", "reply", "second", "third"]
    assert store.end() == ""


# --------------------------------------------------------------------------------------------------- folders


def _home(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "CUTAWAY_DATA_DIR", "CUTAWAY_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))


def test_pe_06_a_home_that_cannot_be_written_runs_in_memory_with_a_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A file in the home's place can't be written by root either, as a read-only mount can't.
    home = tmp_path / "home"
    home.write_text("not a folder")
    _home(monkeypatch, home)
    store = default_store()
    assert "Chats can't be kept in" in store.notice
    assert "CUTAWAY_DATA_DIR" in store.notice
    assert "not a directory" in store.trouble
    conversation = store.create()
    conversation.add("user", "still works")
    store.save(conversation)
    assert [item.title for item in store.listed()] == ["still works"]
    assert store.find("works")[0].key == conversation.key
    assert store.end().startswith("1 chat was not saved")


def test_pe_06_the_xdg_place_is_used_when_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.write_text("not a folder")
    _home(monkeypatch, home)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("XDG_CONFIG_HOME", "")
    store = default_store()
    assert isinstance(store, ChatStore)
    assert store.path == tmp_path / "xdg" / "cutaway" / "chats.db"
    assert store.trouble == ""
    store.end()
    monkeypatch.setenv("XDG_DATA_HOME", "relative/place")
    monkeypatch.setenv("HOME", "/home/someone")
    assert str(places.data()) == "/home/someone/.local/share/cutaway"
    assert str(places.config()) == "/home/someone/.config/cutaway"


def test_pe_06_chats_on_a_read_only_place_can_be_read_and_that_they_are_not_saved_is_said(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _filled(file, 2)

    def refuse(path: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(opening, "_open_locked", refuse)
    store = ChatStore(file)
    assert "can be read, but not saved: read-only file system" in store.notice
    assert store.trouble == "the data folder can't be written"
    conversation = store.open(store.last())
    assert conversation is not None
    conversation.add("user", "lost")
    store.save(conversation)
    assert [item.messages for item in store.listed()] == [4, 4]
    assert "could not be saved" in store.end()


def test_the_store_is_nobody_else_s_to_read(file: Path) -> None:
    ChatStore(file).end()
    assert file.stat().st_mode & 0o077 == 0


def test_no_home_at_all_runs_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise StoreError("there is no home folder to keep the data in.")

    monkeypatch.setattr(opening, "path", nowhere)
    store = default_store()
    assert "no home folder" in store.trouble
    assert isinstance(store.create(), Conversation)


def test_pe_04_rows_of_before_chats_had_a_choice_are_rescued(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cutaway.tui.store import database, salvage

    with monkeypatch.context() as before:
        before.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:1])
        names = [name for name in schema.CHAT_COLUMNS[: schema.FIRST_CHAT_COLUMNS] if name not in ("id", "deleted_ms")]
        old = (
            f"INSERT INTO chats({','.join(names)}) VALUES ({','.join(f':{name}' for name in names)}) "
            "ON CONFLICT(key) DO UPDATE SET title=excluded.title"
        )
        before.setattr(database, "_PUT_CHAT", old)
        store = ChatStore(file)
        kept = chat(store, "old", "chat")
        store.end()
    store = ChatStore(file)  # has the new columns now, the row is as it was
    store.end()
    told = salvage.rescue(file)
    assert "1 chat with 2 messages" in told
    store = ChatStore(file)
    back = store.open(kept.key)
    assert back is not None
    assert [node.text for node in back.path()] == [node.text for node in kept.path()]
    assert back.choice is None
    store.end()
