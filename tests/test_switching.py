"""Who answers is chosen per chat: local models and servers take each other's place without a restart."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from cutaway.engine import client
from cutaway.engine.protocol import Configure, Load
from cutaway.tui.app import CutawayApp
from cutaway.tui.commands import servers
from cutaway.tui.commands.flags import EngineFlags
from cutaway.tui.commands.setting_flag import DEFAULT_MODEL
from cutaway.tui.commands.sources import EngineSources, LastChoice
from cutaway.tui.models.picker import ModelPicker
from cutaway.tui.session import Session
from cutaway.tui.settings.document import SettingsFile
from cutaway.tui.settings.layers import Layers
from cutaway.tui.state.choice import Choice
from cutaway.tui.store.chats import ChatStore
from cutaway.tui.switching import SwitchingEngine
from textual.widgets import Input

from .http_server import DONE, HttpServer, Routes, end, piece, plain, serving, simple, stream
from .screen_run import Running, loaded
from .scripted_engine import COMMAND

SECRET = "sk-cutaway-secret-0123456789"
NO_FLAGS = Layers(SettingsFile(Path("settings.toml")))


Servers = tuple[HttpServer, HttpServer]


def answers(words: str, *models: str) -> Routes:
    return simple(stream(piece(words), end(), DONE), models)


@contextlib.asynccontextmanager
async def program(
    folder: Path, given: Layers = NO_FLAGS, size: tuple[int, int] = (80, 24), chat: str = ""
) -> AsyncIterator[Running]:
    """The program as its command starts it, with a scripted engine for this machine's."""
    flags = EngineFlags(Load(model="scripted", pages=2048), Configure(inspect=True), None, None, False)
    store = ChatStore(folder / "chats.db")
    conversation = store.open(chat) if chat else None
    engine = SwitchingEngine(flags.client())
    sources = EngineSources(flags, engine, flags.configure, LastChoice(folder, given))
    start = sources.begin(conversation, given)
    if start is not None:
        start.swap()
    session = Session(
        engine, start.load if start else flags.load, None, store, "", flags.configure,
        conversation=conversation, remember=True, sources=sources,
    )  # fmt: skip
    try:
        async with loaded(CutawayApp(session, folder), size) as run:
            yield run
    finally:
        assert not store.end()


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[HttpServer, HttpServer]]:
    """Two servers with names; this machine's engine is the scripted one."""
    monkeypatch.setenv("ONE_KEY", SECRET)
    monkeypatch.setattr(client, "own_command", lambda *flags: COMMAND)
    with serving(answers("from one", "m", "n")) as one, serving(answers("from two", "only")) as two:
        entries = {"one": servers.Entry(one.url, "m", "ONE_KEY"), "two": servers.Entry(two.url)}
        monkeypatch.setattr(servers, "named", lambda: dict(entries))
        yield one, two


async def pick(run: Running, words: str) -> None:
    """Choose what these words find in the picker."""
    await run.pilot.press("ctrl+g")
    await run.until(lambda: isinstance(run.app.screen, ModelPicker) and run.app.screen.shown, "the picker")
    run.app.screen.query_one(Input).value = words
    await run.until(lambda: run.app.screen.query_one(Input).value == words and run.app.screen.shown, words)
    await run.pilot.pause()
    await run.pilot.press("enter")
    await run.until(lambda: not isinstance(run.app.screen, ModelPicker), "the choice")


async def answered_by(run: Running, name: str) -> None:
    await run.until(lambda: (card := run.session.state.card) is not None and card.name == name, f"{name} to answer")


async def test_fr_02_a_chat_is_switched_to_a_server_and_back_without_a_restart(two: Servers, tmp_path: Path):
    one, _ = two
    async with program(tmp_path) as run:
        await run.ask("count 2")
        await run.shows("1 2")
        await pick(run, "one")
        await answered_by(run, "m")
        await run.ask("and now?")
        await run.shows("from one")
        await run.shows("1 2")  # the chat is kept
        sent = one.asked()[-1]
        assert sent.headers["authorization"] == f"Bearer {SECRET}"
        assert [message["content"].strip() for message in sent.json["messages"]][:2] == ["count 2", "1 2"]
        await pick(run, "n")  # another model of the same server
        await answered_by(run, "n")
        await run.ask("who?")
        assert one.asked()[-1].json["model"] == "n"
        run.main.use_choice(Choice("one", "nothing"))
        await run.shows("has no model 'nothing'")
        assert run.session.conversation.choice == Choice("one", "n")  # goes on
        await pick(run, "one")  # the model that its entry names
        await answered_by(run, "m")
        run.main.use_choice(Choice("", "scripted"))
        await answered_by(run, "scripted")
        await run.ask("count 3")
        await run.shows("1 2 3")


async def test_fr_02_each_chat_keeps_its_choice_and_a_new_chat_and_the_next_start_have_the_last_one(
    two: Servers, tmp_path: Path
):
    one, two_ = two
    async with program(tmp_path) as run:
        await run.ask("count 2")
        first = run.session.conversation
        run.main.action_new_chat()
        run.main.use_choice(Choice("one", "m"))
        await answered_by(run, "m")
        await run.ask("hi")
        run.main.action_new_chat()
        assert run.session.conversation.choice == Choice("one", "m")
        run.main.use_choice(Choice("two"))
        await answered_by(run, "only")
        await run.ask("hi")
        run.main.action_turn_chat(-1)
        await answered_by(run, "m")
        run.main.action_turn_chat(-1)
        assert run.session.conversation is first
        await run.ask("count 4")  # at once: the chat's own engine is waited for
        await run.shows("1 2 3 4")
        assert first.leaf.reply is not None
        assert first.leaf.reply.model == "scripted"
        keys = [chat.key for chat in run.session.store.all()]
    async with program(tmp_path) as run:
        assert run.session.state.card is not None
        assert run.session.state.card.name == "only"  # picked last
    async with program(tmp_path, chat=keys[1]) as run:
        assert run.session.answering.now == Choice("one", "m")
        await run.ask("again")
    assert len(one.asked()) == 2
    assert len(two_.asked()) == 1
    async with program(tmp_path, Layers(NO_FLAGS.file, flags={"model": "scripted"})) as run:
        assert run.session.answering.now == Choice("", "scripted")  # a flag wins
    async with program(tmp_path, Layers(SettingsFile(Path("s.toml"), {"model": "scripted"}))) as run:
        assert run.session.answering.now == Choice("", "scripted")  # the settings were changed since


async def test_fr_02_the_key_is_in_no_file_of_the_program(two: Servers, tmp_path: Path):
    async with program(tmp_path) as run:
        run.main.use_choice(Choice("one"))
        await answered_by(run, "m")
        await run.ask("hi")
        assert run.session.trace is not None
        assert SECRET not in run.text()
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"chats.db", "choice.json"} <= {path.name for path in kept}
    assert not any(SECRET[:12].encode() in path.read_bytes() for path in kept)


async def test_fr_02_a_server_that_is_down_or_refuses_the_key_gives_the_chat_back_with_one_sentence(
    two: Servers, tmp_path: Path
):
    one, two_ = two
    two_.routes[("GET", "/v1/models")] = plain({"error": {"message": "Incorrect API key"}}, 401)
    one.stop()
    async with program(tmp_path, size=(110, 30)) as run:
        await run.ask("count 2")
        for name, told in (("one", "No server answers at"), ("two", "wants a key")):
            run.main.use_choice(Choice(name))
            await run.shows(told)
            await run.shows("Back to scripted")
            await answered_by(run, "scripted")
            assert run.session.conversation.choice == Choice("", "scripted")
        await run.ask("count 3")
        await run.shows("1 2 3")
        assert not (tmp_path / "choice.json").exists()
        run.main.use_choice(Choice("nowhere"))
        await run.shows("There is no server called 'nowhere'")
    one.start()


async def test_fr_02_a_reply_under_way_keeps_its_text_when_another_server_is_chosen(two: Servers, tmp_path: Path):
    async with program(tmp_path) as run:
        await run.ask("slowly forever", wait=False)
        await run.until(lambda: run.session.conversation.leaf.text, "some text")
        run.main.use_choice(Choice("two"))
        await answered_by(run, "only")
        assert run.session.conversation.leaf.text
        await run.shows("two was chosen before this had ended")
        await run.outside("r")
        await run.until(lambda: run.session.conversation.leaf.text == "from two", "the reply")


async def test_fr_02_a_server_of_several_models_asks_for_one_which_is_typed(two: Servers, tmp_path: Path):
    one, _ = two
    one.routes.update(answers("chosen", "big", "small"))
    async with program(tmp_path, size=(110, 30)) as run:
        run.main.use_choice(Choice(one.url))
        await run.shows("The server has 2 models: big, small")
        await pick(run, "small")
        await answered_by(run, "small")
        await run.ask("hi")
        await run.shows("chosen")
        assert run.session.conversation.choice == Choice(one.url, "small")


async def test_fr_02_the_picker_lists_local_models_servers_and_the_models_of_the_one_that_answers(
    two: Servers, tmp_path: Path
):
    async with program(tmp_path, size=(160, 48)) as run:
        run.main.use_choice(Choice("one"))
        await answered_by(run, "m")
        await run.pilot.press("ctrl+g")
        await run.until(lambda: isinstance(run.app.screen, ModelPicker) and run.app.screen.shown, "the picker")
        assert isinstance(run.app.screen, ModelPicker)
        specs = [entry.spec for entry in run.app.screen.shown]
        assert specs[:4] == ["m", "n", "one", "two"]
        assert DEFAULT_MODEL in specs
        await run.shows("● m")
        await run.shows("⇄ two")


def test_the_default_model_is_known_by_its_name():
    from cutaway.engine.models import default

    assert default.DEFAULT.name == DEFAULT_MODEL
