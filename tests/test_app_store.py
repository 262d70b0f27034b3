"""Kept chats on the screen: saved as they stream, listed, searched, opened, renamed, deleted; and when saving fails."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pexpect
import pytest
from cutaway.engine.protocol import Load
from cutaway.tui.app import CutawayApp
from cutaway.tui.screens.chats import ChatsDialog
from cutaway.tui.session import Session
from cutaway.tui.state.conversation import Conversation, Reply
from cutaway.tui.state.keeping import MemoryStore
from cutaway.tui.store.chats import ChatStore
from textual.widgets import Input

from .cli_run import ENGINE, terminal
from .screen_engine import InProcessEngine
from .screen_run import Running, loaded
from .test_store_troubles import _Filling, _into


@contextlib.asynccontextmanager
async def kept(
    store: ChatStore | MemoryStore, conversation: Conversation | None = None, size: tuple[int, int] = (100, 30)
) -> AsyncIterator[Running]:
    """The application on this store."""
    load = Load(model="scripted", pages=2048)
    session = Session(InProcessEngine(), load, store=store, conversation=conversation)
    async with loaded(CutawayApp(session), size) as run:
        yield run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "chats.db"


def keep_closed(store: ChatStore | MemoryStore, *questions: str) -> None:
    """Chats that are kept and not open, each of one question."""
    for question in questions:
        conversation = store.create()
        conversation.add("user", question)
        store.save(conversation)
        store.close(conversation)


def stored(file: Path) -> list[list[str]]:
    """What another program finds, the chat changed last first."""
    store = ChatStore(file)
    texts = []
    for item in store.listed():
        chat = store.load(item.key)
        texts.append([message.text for message in chat.messages] if chat else [])
    store.end()
    return texts


async def test_a_reply_is_kept_while_it_is_written_and_when_it_ends(file: Path) -> None:
    store = ChatStore(file)
    async with kept(store) as run:
        await run.ask("slowly forever", wait=False)
        await run.until(lambda: (said := stored(file)) and len(said[0]) == 2 and said[0][1], "text in the file")
        await run.pilot.press("escape")
        await run.until(lambda: not run.session.generating)
        await run.settle()
        (node,) = [node for node in run.session.conversation.path() if node.reply is not None]
        assert node.reply is not None
        assert (node.reply.model, bool(node.reply.identity)) == (run.session.state.card.name, True)  # pyright: ignore
        assert node.reply.settings == run.session.exchange.settings
        text = node.text
    assert store.end() == ""
    assert stored(file) == [["slowly forever", text]]


async def test_kept_chats_are_listed_searched_and_opened_with_the_model_told(file: Path) -> None:
    store = ChatStore(file)
    for number in range(3):
        conversation = store.create()
        conversation.add("user", f"question {number}")
        reply = Reply("", status="end", model="gone-1b")
        conversation.add("assistant", "of apples" if number == 1 else "-", reply=reply)
        store.save(conversation)
        store.close(conversation)
    async with kept(store) as run:
        await run.outside("slash")
        await run.shows("question 0")
        assert isinstance(run.app.screen, ChatsDialog)
        await run.pilot.press(*"apples")
        await run.until(lambda: len(run.app.screen.found) == 1)  # pyright: ignore[reportAttributeAccessIssue]
        await run.shows("of apples")
        await run.pilot.press("enter")
        await run.until(lambda: run.app.screen is run.main)
        assert run.session.conversation.title == "question 1"
        await run.shows("This chat was written with gone-1b")
        await run.ask("count 2")
        assert [n.text for n in run.session.conversation.path()][-2:] == ["count 2", "1 2 "]
    assert store.end() == ""
    assert stored(file)[0] == ["question 1", "of apples", "count 2", "1 2 "]


async def test_the_list_of_chats_grows_as_it_is_walked(file: Path) -> None:
    store = ChatStore(file)
    keep_closed(store, *(f"question {number}" for number in range(120)))
    async with kept(store) as run:
        await run.pilot.press("ctrl+l")
        dialog = run.app.screen
        assert isinstance(dialog, ChatsDialog)
        await run.until(lambda: len(dialog.found) == 50)
        await run.pilot.press(*["pagedown"] * 14)
        assert len(dialog.found) == 120
        await run.shows("question 0 ")
        await run.pilot.press("escape")
    store.end()


async def test_chats_are_deleted_in_the_list_and_brought_back_there_whether_open_or_not(file: Path) -> None:
    store = ChatStore(file)
    keep_closed(store, *(f"question {number}" for number in range(2)))
    async with kept(store) as run:
        await run.ask("count 1")
        await run.pilot.press("ctrl+l")
        dialog = run.app.screen
        assert isinstance(dialog, ChatsDialog)
        await run.shows("Del deletes")
        titles = [item.title for item in dialog.found]
        assert titles[0] == "count 1"  # the chat shown
        await run.pilot.press("delete", "down", "delete")
        await run.shows("✗ count 1  deleted")
        await run.shows("Del brings it back")
        assert [item.title for item in store.listed()] == titles[2:]
        await run.pilot.press("delete")
        await run.until(lambda: [item.title for item in store.listed()] == titles[1:])
        await run.pilot.press("up", "enter")  # what is opened is there again
        await run.until(lambda: run.session.conversation.title == "count 1", "the chat that was deleted")
        assert len(store.listed()) == 3
    store.end()


@pytest.mark.parametrize("kind", [ChatStore, MemoryStore])
def test_a_chat_that_is_not_open_is_deleted_and_restored_by_its_key(
    kind: type[ChatStore | MemoryStore], file: Path
) -> None:
    store = ChatStore(file) if kind is ChatStore else MemoryStore()
    keep_closed(store, "question")
    (listed,) = store.listed()
    store.delete_key(listed.key)
    assert store.listed() == []
    store.restore_key(listed.key)
    assert [item.key for item in store.listed()] == [listed.key]
    assert store.all() == []
    store.end()


async def test_del_in_the_words_of_the_list_deletes_a_character(file: Path) -> None:
    store = ChatStore(file)
    keep_closed(store, "question")
    async with kept(store) as run:
        await run.pilot.press("ctrl+l")
        dialog = run.app.screen
        await run.until(lambda: isinstance(dialog, ChatsDialog) and dialog.found)
        await run.pilot.press("a", "b", "home", "delete")
        assert dialog.query_one(Input).value == "b"
        assert len(store.listed()) == 1
        await run.pilot.press("escape")
    store.end()


async def test_a_chat_is_closed_named_deleted_and_brought_back(file: Path) -> None:
    store = ChatStore(file)
    async with kept(store) as run:
        await run.ask("count 1")
        run.main.action_rename_chat()
        await run.pilot.pause()
        await run.pilot.press(*"ones", "enter")
        await run.shows("chat 1/1 · ones")
        run.main.action_delete_chat()
        await run.shows("Deleted: ones")
        assert store.listed() == []
        run.main.action_undelete_chat()
        await run.shows("· ones")
        run.main.action_close_chat()
        assert [item.title for item in store.listed()] == ["ones"]
        assert run.session.conversation.title == "new chat"
        run.main.action_undelete_chat()
        await run.shows("There is no deleted chat")
    store.end()


async def test_pe_02_a_full_disk_stands_in_the_top_bar_until_it_is_over(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cutaway.tui.store.writer.RETRY_S", 0.05)
    filling = type("Filling", (_Filling,), {})
    store = ChatStore(file, _into(filling))
    async with kept(store) as run:
        asked = 0
        while not store.trouble:  # writes that wait for each other become one
            asked += 1
            assert asked < 20
            await run.ask(f"count {asked}")
        await run.shows("✗ not being saved: disk full")
        assert run.frame()[0].strip().startswith("cutaway  ✗ not being saved: disk full")
        await run.ask(f"count {asked + 1}")  # the chat goes on
        assert "✗ not being saved" in run.frame()[0]
        filling.room = True
        await run.shows("Everything is saved again")
        await run.until(lambda: "✗" not in run.frame()[0])
    assert store.end() == ""
    words = [" ".join(map(str, range(1, n + 1))) + " " for n in range(1, asked + 2)]
    assert stored(file) == [[text for n, reply in enumerate(words, 1) for text in (f"count {n}", reply)]]


async def test_pe_04_what_was_done_about_a_damaged_store_is_told(file: Path) -> None:
    store = ChatStore(file)
    conversation = store.create()
    conversation.add("user", "still here")
    store.save(conversation)
    store.end()
    with file.open("r+b") as damaged:
        damaged.write(b"\0" * 100)
    store = ChatStore(file)
    async with kept(store) as run:
        await run.shows("The store of chats was damaged")
        await run.pilot.press("ctrl+l")
        await run.shows("still here")
        await run.pilot.press("escape")
    store.end()


async def test_pe_06_chats_in_memory_only_are_marked_and_can_be_listed() -> None:
    store = MemoryStore("read-only file system", "Chats can't be kept in /x: read-only file system.")
    async with kept(store) as run:
        await run.shows("Chats can't be kept in /x")
        assert "✗ not being saved: read-only file system" in run.frame()[0]
        await run.ask("count 1")
        await run.pilot.press("ctrl+l")
        await run.shows("▸ count 1")
        await run.pilot.press("escape")


async def test_pe_09_a_chat_whose_model_is_gone_is_shown_and_another_goes_on(file: Path) -> None:
    store = ChatStore(file)
    conversation = store.create()
    conversation.add("user", "hi")
    conversation.add("assistant", "ho", reply=Reply("", status="end", model="gone-1b"))
    store.save(conversation)
    key = conversation.key
    store.end()
    store = ChatStore(file)
    async with kept(store, store.open(key)) as run:
        await run.shows("ho")
        await run.shows("written with gone-1b")
        await run.ask("recall")
        assert "user: hi | assistant: ho" in run.session.conversation.leaf.text
    store.end()


def test_the_program_keeps_its_chat_and_goes_on_with_it() -> None:
    with terminal("--engine", ENGINE) as child:
        child.expect("Ask something")
        child.send("count 3")
        child.expect_exact("3")
        child.send("\r")
        child.expect_exact("end · 3 tokens".encode())
        child.send("\x11")
        child.expect_exact("\x1b[?1049l")
        child.expect(pexpect.EOF)
        child.close()
    with terminal("chat", "-c", "--engine", ENGINE) as child:
        child.expect("count 3")
        child.send("\x11")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0


def test_going_on_with_a_chat_that_is_not_there_says_so() -> None:
    with terminal("chat", "-c", "nosuchchat", "--engine", ENGINE) as child:
        child.expect_exact("There is no chat 'nosuchchat'")
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 1
