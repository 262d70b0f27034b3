"""Choosing a model on the screen: what is here and fits, loading another while the chat goes on, when that fails."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from cutaway.engine.models.memory import Memory
from cutaway.engine.models.shelf import Entry, shelf
from cutaway.engine.protocol import (
    AnyCommand,
    CancelLoad,
    Configure,
    Failed,
    Load,
    LoadProgress,
    Machine,
    Submit,
)
from cutaway.tui.app import CutawayApp
from cutaway.tui.models import choices
from cutaway.tui.models.choices import Choices
from cutaway.tui.models.picker import ModelPicker
from cutaway.tui.playback import Playback
from cutaway.tui.session import Session
from cutaway.tui.state.choice import Choice
from textual.app import App
from textual.widgets import Input

from . import tiny_folder
from .scenes import TRACES
from .screen_engine import InProcessEngine
from .screen_run import Running, running, shown
from .test_cli_models import put_into_cache


class SlowLoader(InProcessEngine):
    """Models called "later…" come when the test calls `arrive`."""

    def __init__(self) -> None:
        super().__init__()
        self.coming: Load | None = None

    async def send(self, command: AnyCommand) -> None:
        if isinstance(command, Load) and command.model.startswith("later"):
            self.sent.append(command)
            self.coming = command
            self.push(LoadProgress("download", 25, 100, "bytes"))
        elif isinstance(command, CancelLoad) and self.coming is not None:
            self.push(Failed(f"Loading {self.coming.model} was cancelled.", kind="cancelled", loading=True))
            self.coming = None
        else:
            await super().send(command)

    async def arrive(self) -> None:
        assert self.coming is not None
        await super().send(self.coming)


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One tiny model in the hub's cache, and a machine with 3 GB free."""
    from huggingface_hub import constants

    monkeypatch.setenv("CUTAWAY_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(choices.machine, "room", lambda: ("cpu", 3_000_000_000))
    monkeypatch.setattr(choices.machine, "available_bytes", lambda: 3_000_000_000)
    monkeypatch.setattr(choices.machine, "expected_precision", lambda device: "int8")
    put_into_cache("org/tiny", tiny_folder.make(tmp_path / "made"), tmp_path / "hub")
    return tmp_path


@contextlib.asynccontextmanager
async def picking(run: Running) -> AsyncIterator[ModelPicker]:
    await run.pilot.press("ctrl+g")
    await run.until(lambda: isinstance(run.app.screen, ModelPicker) and run.app.screen.shown, "the picker")
    assert isinstance(run.app.screen, ModelPicker)
    yield run.app.screen


async def test_the_picker_tells_what_is_here_its_size_license_and_whether_it_fits() -> None:
    async with running((100, 34)) as run, picking(run):
        found = (re.search(r"([✓↓]) (\S+)(.*?)│", line) for line in run.frame())
        rows = {match[2]: match[1] + match[3] for match in found if match}
        assert rows["org/tiny"].startswith("✓")
        assert rows["org/tiny"].rstrip().endswith("yes")
        assert "≈ 1.5 GB" in rows["Qwen/Qwen3-0.6B"]
        assert "apache-2.0" in rows["Qwen/Qwen3-0.6B"]
        assert "tokens" in rows["Qwen/Qwen3-0.6B"]  # of its window, a part fits
        await run.pilot.press("pagedown", "pagedown", "pagedown")
        await run.shows("Fits: no: it needs 6.9 GB to be loaded")


async def test_what_is_free_is_asked_of_the_system_while_the_screen_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def room() -> tuple[str, int]:
        asked.append(threading.current_thread() is threading.main_thread())
        return "cpu", 1

    monkeypatch.setattr(choices.machine, "room", room)
    async with running((100, 34)) as run, picking(run):
        assert asked == [False]  # nvidia-smi takes a second


async def test_another_model_goes_on_with_the_chat_by_its_own_template() -> None:
    async with running((100, 34)) as run:
        await run.ask("count 2")
        await run.ask("recall")
        async with picking(run) as picker:
            await run.pilot.press(*"org/tiny")
            await run.until(lambda: [entry.spec for entry in picker.shown] == ["org/tiny"])
            await run.pilot.press("enter")
        await run.until(lambda: run.session.state.card is not None and run.session.state.card.name == "org/tiny")
        await run.ask("recall")
        sent = run.engine.last(Submit)
        assert isinstance(sent, Submit)
        assert [m.content for m in sent.messages][:2] == ["count 2", "1 2 "]
        reply = run.session.conversation.path()[-1]
        assert reply.text.startswith("user: count 2 | assistant: 1 2  | user: recall")
        assert [n.reply.model for n in run.session.conversation.path() if n.reply] == ["scripted"] * 2 + ["org/tiny"]
        await run.shows("scripted")  # who wrote what stays on screen
        loads = [command for command in run.engine.sent if isinstance(command, Load)]
        assert [load.model for load in loads] == ["scripted", "org/tiny"]
        assert loads[0].pages == loads[1].pages


async def test_while_a_model_is_fetched_the_one_before_answers_and_the_chat_says_so() -> None:
    engine = SlowLoader()
    async with running((100, 34), engine=engine) as run:
        run.main.use_choice(Choice("", "later/one"))
        await run.shows("loading later/one: download")
        await run.shows("25%")
        await run.shows("Until then scripted answers")
        await run.ask("count 3")
        assert run.session.conversation.path()[-1].text == "1 2 3 "
        await engine.arrive()
        await run.until(lambda: run.session.state.card is not None and run.session.state.card.name == "later/one")
        await run.until(lambda: "Until then" not in run.text())
        assert [type(c) for c in engine.sent].count(Configure) == 0


async def test_a_download_is_stopped_and_the_model_before_stays() -> None:
    engine = SlowLoader()
    async with running((100, 34), engine=engine) as run:
        run.main.use_choice(Choice("", "later/one"))
        await run.shows("X stops it")
        await run.outside("X")
        await run.shows("Loading later/one was cancelled")
        assert run.session.link.load.model == "scripted"
        assert run.session.state.loading is None
        await run.ask("count 1")
        await run.outside("X")
        await run.shows("Nothing is being loaded.")


async def test_a_model_that_can_not_be_loaded_leaves_the_one_before_and_says_why() -> None:
    async with running((100, 34)) as run:
        await run.ask("count 1")
        run.main.use_choice(Choice("", "missing"))
        await run.shows("There is no model called missing.")
        await run.shows("goes on.")
        await run.ask("count 2")
        assert run.session.conversation.path()[-1].text == "1 2 "
        # The engine's next start loads what has served, not what has failed.
        run.engine.die()
        await run.shows("✗ no engine")
        await run.outside("R")
        await run.until(lambda: run.engine.starts == 2)
        await run.until(lambda: isinstance(run.engine.sent[-1], Load))
        assert run.engine.last(Load).model == "scripted"  # pyright: ignore[reportAttributeAccessIssue]


async def test_a_first_model_that_can_not_be_loaded_says_what_to_do_and_another_can_be_chosen() -> None:
    engine = InProcessEngine()
    app = CutawayApp(Session(engine, Load(model="missing")))
    async with shown(Running, app, (100, 34)) as run:
        await run.shows("✗ There is no model called missing. Try another.")
        await run.shows("chooses another model")
        run.main.composer.put("count 2")
        await run.pilot.press("enter")  # what is asked meanwhile waits for a model
        async with picking(run):
            await run.pilot.press(*"org/tiny", "enter")
        await run.until(lambda: run.session.state.card is not None)
        await run.until(lambda: run.session.conversation.path()[-1].text == "1 2 ")


async def test_what_must_be_fetched_or_does_not_fit_is_asked_about_once() -> None:
    async with running((100, 34)) as run, picking(run) as picker:
        await run.pilot.press(*"Qwen3-1.7B")
        await run.until(lambda: len(picker.shown) == 1)
        await run.pilot.press("enter")
        await run.shows("It does not fit: it needs 6.9 GB to be loaded, and 3.0 GB are free.")
        await run.shows("Enter again does it.")
        assert run.app.screen is picker
        await run.pilot.press("enter")
        await run.until(lambda: run.app.screen is run.main)
        assert run.session.link.load.model == "Qwen/Qwen3-1.7B"


async def test_a_model_that_is_nowhere_listed_can_be_typed(folders: Path) -> None:
    async with running((100, 34)) as run, picking(run) as picker:
        picker.query_one(Input).value = "someone/else"
        await run.shows("What is typed above.")
        await run.pilot.press("enter")
        await run.until(lambda: run.session.link.load.model == "someone/else")
    async with running((100, 34)) as run, picking(run) as picker:
        picker.query_one(Input).value = "./no-such-folder"
        await run.shows("No model's name holds all these words.")


@pytest.mark.parametrize("size", [(20, 6), (40, 12), (80, 24), (160, 48)])
async def test_the_picker_has_a_place_on_every_screen(size: tuple[int, int]) -> None:
    async with running(size) as run, picking(run):
        await run.pilot.press("down", "down", "up")
        await run.pilot.resize_terminal(size[0] + 7, size[1] + 3)
        await run.pilot.press("escape")
        await run.until(lambda: run.app.screen is run.main)


async def test_names_from_a_disk_do_nothing_to_the_terminal(folders: Path) -> None:
    put_into_cache("org/[bold]x", tiny_folder.make(folders / "other"), folders / "hub")
    async with running((100, 34)) as run, picking(run):
        await run.shows("org/[bold]x")


def test_what_the_engine_tells_of_its_machine_counts_before_what_is_seen_here() -> None:
    told = Machine(device="cuda:0", device_free_bytes=7, available_bytes=9, precision="bfloat16")
    found = Choices(Load(), None, told)
    assert (found.free, found.precision) == (7, "bfloat16")
    assert Choices(Load(precision="float32"), None, told).precision == "float32"
    assert Choices(Load(device="cpu"), None, told).precision == "int8"
    remote = Machine(device="cpu", available_bytes=5, precision="float32")
    assert Choices(Load(), None, remote, elsewhere=True).free == 5


async def test_a_recording_loads_nothing_and_says_so() -> None:
    app = CutawayApp(Playback(TRACES / "streamed.trace", speed=None))
    async with shown(Running, app, (100, 34)) as run:
        await run.until(lambda: app.session.over)  # pyright: ignore[reportAttributeAccessIssue]
        run.main.use_choice(Choice("", "org/tiny"))
        await run.shows("This is a recording: no model can be loaded.")


def test_the_picker_as_it_was_looked_at(snap_compare: Callable[..., bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)

    async def open_picker(pilot: object) -> None:
        app = pilot.app  # pyright: ignore[reportAttributeAccessIssue]
        assert isinstance(app, App)
        run = Running(app, pilot)  # pyright: ignore[reportArgumentType]
        await run.until(lambda: run.session.state.card is not None)
        await run.settle()
        await run.pilot.press("ctrl+g")
        await run.shows("org/tiny")
        await run.pilot.press("down", "down", "down")
        run.app.screen.query_one(Input).cursor_blink = False
        await run.settle()

    tiny = Memory("int8", 500_000, 1_000_000, 2_000_000, 4096, 16, 512)
    here = Entry("org/tiny", "tiny", 726_400, "mit", True, source="hub org/tiny", memory=tiny)
    broken = Entry("org/half", "half", 1_200_000_000, "", True, incomplete=True)
    others = [entry for entry in shelf("int8") if entry.spec != "org/tiny"]
    monkeypatch.setattr(Choices, "entries", lambda self: [broken, here, *others])
    engine = InProcessEngine()
    app = CutawayApp(Session(engine, Load(model="scripted")))
    assert snap_compare(app, terminal_size=(100, 34), run_before=open_picker)
