"""What the first paint does not wait for: imports that only later deeds need, and the store of chats."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from cutaway.engine.protocol import Load
from cutaway.tui.app import CutawayApp
from cutaway.tui.session import Session
from cutaway.tui.state.keeping import ConversationStore, MemoryStore
from cutaway.tui.store.chats import ChatStore, default_store
from cutaway.tui.store.opening import path
from textual import events

from .patience import PATIENCE
from .screen_engine import InProcessEngine
from .screen_run import loaded
from .scripted_engine import COMMAND

LATER = [
    "torch", "transformers", "numpy", "psutil", "tomlkit", "gguf", "tokenizers", "huggingface_hub", "sqlite3",
    "filelock", "gzip", "cutaway.engine.models", "cutaway.engine.trace", "cutaway.engine.replay",
    "cutaway.engine.worker", "cutaway.tui.store", "cutaway.tui.tour", "cutaway.tui.bench", "cutaway.tui.doctor",
    "cutaway.tui.models", "cutaway.tui.commands.plain_chat", "cutaway.tui.commands.ask",
    "cutaway.tui.screens.dialogs", "cutaway.tui.screens.keys", "cutaway.tui.screens.settings",
    "cutaway.tui.screens.themes", "cutaway.tui.screens.jump", "cutaway.tui.screens.template_form",
    "cutaway.tui.screens.chats",
]  # fmt: skip

# `cutaway chat` as far as its first paint, on a terminal that isn't there; then it tells what it has imported.
START = f"""
import asyncio, os, sys
from cutaway.tui import cli
from cutaway.tui.commands import screen

screen.fits = lambda: True
show = screen.show

def headless(*given):
    from cutaway.tui import app, session

    async def run(session, folder, settings):
        shown = app.CutawayApp(session, folder, settings=settings)
        async with shown.run_test(size=(160, 48)):
            await asyncio.Event().wait()

    def painted(self):
        later = {LATER!r}
        early = [name for name in sys.modules if any(name == one or name.startswith(one + ".") for one in later)]
        print(early, file=sys.__stdout__)
        sys.__stdout__.flush()
        os._exit(0)

    app.run_session, session.Session.open_store = run, painted
    return show(*given)

screen.show = headless
sys.exit(cli.run(["chat", "--model", "scripted", "--engine", {shlex.join(COMMAND)!r}]))
"""


def test_the_first_paint_waits_for_no_import_that_only_later_deeds_need() -> None:
    done = subprocess.run([sys.executable, "-P", "-c", START], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "[]"


def session_on(later: ConversationStore) -> Session:
    return Session(InProcessEngine(), Load(model="scripted", pages=2048), later=lambda: later)


async def test_the_store_is_opened_once_the_screen_is_painted(monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []
    display = CutawayApp._display

    def painting(self: CutawayApp, *given: object) -> None:
        display(self, *given)  # pyright: ignore[reportArgumentType] - passed on as it came
        happened.append("painted")

    def opening() -> ConversationStore:
        happened.append("opened")
        return store

    store = MemoryStore("disk full", "Chats can't be kept in /x: disk full.")
    monkeypatch.setattr(CutawayApp, "_display", painting)
    session = Session(InProcessEngine(), Load(model="scripted", pages=2048), later=opening)
    async with loaded(CutawayApp(session), (100, 30)) as run:
        await run.shows("Chats can't be kept in /x")
        await run.shows("not being saved: disk full")
        assert session.store is store
    assert happened.index("painted") < happened.index("opened")


def test_what_was_said_before_the_store_was_open_is_kept_in_it() -> None:
    session = session_on(store := default_store())
    conversation = session.conversation
    conversation.add("user", "typed at once")
    session.store.save(conversation)
    assert session.open_store()
    assert (session.store, session.conversation, store.all()) == (store, conversation, [conversation])
    assert store.end() == ""
    again = ChatStore(path())
    (found,) = again.listed()
    assert (found.title, found.key) == ("typed at once", conversation.key)
    again.end()


def test_a_store_is_opened_once_only() -> None:
    session = session_on(MemoryStore())
    assert [session.open_store(), session.open_store()] == [True, False]
    assert not Session(InProcessEngine()).open_store()


def test_a_chat_begun_before_a_store_that_cant_be_opened_stays_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("no folder")
    monkeypatch.setenv("CUTAWAY_DATA_DIR", str(in_the_way))
    session = session_on(default_store())
    session.conversation.add("user", "typed at once")
    assert session.open_store()
    assert "Chats can't be kept in" in session.store.trouble
    assert session.store.all() == [session.conversation]
    assert session.store.end().startswith("1 chat was not saved")


async def test_what_is_typed_before_the_first_frame_reaches_the_composer_in_order() -> None:
    app = CutawayApp(Session(InProcessEngine(), Load(model="scripted", pages=2048)))
    for character in "hi ":
        app.post_message(events.Key("space" if character == " " else character, character))
    app.post_message(events.Paste("two\nlines"))
    async with loaded(app, (100, 30)) as run:
        await run.until(lambda: run.main.composer.text == "hi two\nlines", "what was typed")
        await run.pilot.press("!")
        assert run.main.composer.text == "hi two\nlines!"
