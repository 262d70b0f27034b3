"""Settings in the open chat: the screen of settings, presets, templates, themes, keys, and changes by hand."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cutaway.engine.protocol import Configure, Submit
from cutaway.tui.screens.dialogs import ChoiceDialog, TextDialog, ValueDialog
from cutaway.tui.screens.keys import KeysScreen
from cutaway.tui.screens.settings import SettingsDialog
from cutaway.tui.screens.template_form import TemplateForm
from cutaway.tui.screens.themes import ThemesDialog
from cutaway.tui.settings.document import load
from cutaway.tui.settings.layers import Layers
from cutaway.tui.settings.live import LiveSettings
from textual.command import CommandPalette
from textual.widgets import Input, OptionList

from .screen_run import Running, running

MINE = """\
# mine
[sampling]
temperature = 0.5  # cool

[presets.pirate]
system = "Speak like a pirate."
temperature = 1.5
policy = "static"

[presets.plain]
max_tokens = 3

[templates.translate]
text = "recall {language}: {text}"
"""


@pytest.fixture
def file() -> Path:
    """The settings file of this test."""
    path = Path(os.environ["CUTAWAY_CONFIG_DIR"]) / "settings.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(MINE)
    return path


@contextlib.asynccontextmanager
async def opened(file: Path, size: tuple[int, int] = (80, 24), **layers: Any) -> AsyncIterator[Running]:
    """The application with the settings of the file, as a command starts it."""
    settings = Layers(load(file), **layers)
    from cutaway.engine.protocol import SamplingSettings

    sampling = SamplingSettings(temperature=settings.value("temperature"))
    async with running(size=size, settings=sampling, live=LiveSettings(settings)) as run:
        yield run


async def changed_by_hand(run: Running, file: Path, text: str) -> None:
    file.write_text(text)
    run.main.look_at_settings()
    await run.pilot.pause()


def told(run: Running) -> str:
    """Everything that was said in passing."""
    return "\n".join(notification.message for notification in run.app._notifications)


def temperature(run: Running) -> float:
    return run.session.exchange.settings.temperature


# --------------------------------------------------------------------------------------------- by hand


async def test_a_change_by_hand_is_taken_over_while_the_chat_is_open(file: Path) -> None:
    async with opened(file) as run:
        assert temperature(run) == 0.5
        new = MINE.replace("0.5", "0.25") + '[engine]\npolicy = "static"\nthreads = 3\n[screen]\ntheme = "light"\n'
        await changed_by_hand(run, file, new)
        assert temperature(run) == 0.25
        await run.shows("T 0.25")
        await run.until(lambda: run.session.state.switches.policy == "static")
        assert run.app.theme == "cutaway-light"
        await run.shows("threads: changed, at the next start.")
        await run.ask("hi")
        submit = run.engine.last(Submit)
        assert isinstance(submit, Submit)
        assert submit.settings.temperature == 0.25


async def test_the_file_is_looked_at_without_being_asked(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutaway.tui.screens.settings_actions.LOOK_EVERY", 0.01)
    async with opened(file) as run:
        file.write_text(MINE.replace("0.5", "0.75"))
        await run.until(lambda: temperature(run) == 0.75)


async def test_a_change_by_hand_is_taken_over_also_when_the_settings_are_opened_just_after_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cutaway.tui.screens.settings_actions.LOOK_EVERY", 3600)
    async with opened(file) as run:
        file.write_text(MINE.replace("0.5", "0.75"))
        run.main.action_settings()
        await run.until(lambda: isinstance(run.app.screen, SettingsDialog))
        assert temperature(run) == 0.75


async def test_a_mistake_by_hand_is_told_and_changes_nothing_and_a_flag_holds(file: Path) -> None:
    async with opened(file, size=(120, 40), flags={"temperature": 0.9}) as run:
        assert temperature(run) == 0.9
        await changed_by_hand(run, file, MINE.replace("temperature = 0.5", "temprature = 0.5\ntop_p = 0.5"))
        assert "unknown key 'temprature'" in told(run)
        assert run.session.exchange.settings.top_p == 0.5
        await changed_by_hand(run, file, "[[[")
        assert "What was set before stays." in told(run)
        assert run.session.exchange.settings.top_p == 0.5
        await changed_by_hand(run, file, MINE.replace("0.5", "0.1"))
        assert "--temperature holds in this chat" in told(run)
        assert temperature(run) == 0.9


async def test_problems_of_the_file_are_told_at_the_start(file: Path) -> None:
    file.write_text("[sampling]\ntop_p = 7\n")
    async with opened(file, size=(160, 48)) as run:
        await run.shows("top_p must be a number above 0")


# ------------------------------------------------------------------------------------------- the screen


async def test_a_setting_is_searched_for_changed_and_put_back(file: Path) -> None:
    async with opened(file) as run:
        await run.outside("O")
        await run.until(lambda: isinstance(run.app.screen, SettingsDialog))
        dialog = run.app.screen
        await run.pilot.press(*"temperature")
        await run.pilot.press("enter")
        await run.until(lambda: isinstance(run.app.screen, ValueDialog))
        run.app.screen.query_one(Input).value = "-1"
        await run.pilot.press("enter")
        await run.shows("temperature must be a number from 0 (greedy) up, not '-1'.")
        run.app.screen.query_one(Input).value = "0,25"
        await run.pilot.press("enter")
        await run.until(lambda: run.app.screen is dialog)
        await run.shows("temperature 0.25 · at once")
        assert temperature(run) == 0.25
        assert file.read_text() == MINE.replace("0.5", "0.25")
        await run.pilot.press("ctrl+r")
        await run.shows("temperature 0.7 · at once")
        assert load(file).values == {}
        assert temperature(run) == 0.7
        await run.pilot.press("escape")
        await run.until(lambda: run.app.screen is run.main)


async def test_each_kind_is_changed_by_its_own_means(file: Path) -> None:
    async with opened(file) as run:
        run.main.action_settings()
        await run.until(lambda: isinstance(run.app.screen, SettingsDialog))
        dialog = run.app.screen
        words = dialog.query_one(Input)

        async def choose(name: str) -> None:
            words.value = name
            await run.until(lambda: dialog.current is not None and dialog.current.name == name)  # pyright: ignore
            await run.pilot.press("enter")

        await choose("offline")
        await run.shows("offline true · at the next start")
        await choose("policy")
        await run.until(lambda: isinstance(run.app.screen, ChoiceDialog))
        await run.pilot.press("down", "enter")
        await run.until(lambda: run.session.state.switches.policy == "static")
        await choose("preset")
        await run.until(lambda: isinstance(run.app.screen, ChoiceDialog))
        await run.pilot.press("down", "enter")
        await choose("system")
        await run.until(lambda: isinstance(run.app.screen, TextDialog))
        await run.pilot.press(*"Be_kind", "enter")
        await run.shows("system Be_kind · in the next new chat")
        assert run.session.conversation.system == "Be_kind"  # it has not begun
        assert load(file).values == {
            "temperature": 0.5, "offline": True, "policy": "static", "preset": "pirate", "system": "Be_kind",
        }  # fmt: skip


async def test_every_setting_can_be_reached_by_keys_at_80_by_24(file: Path) -> None:
    from cutaway.tui.settings.schema import SETTINGS

    async with opened(file) as run:
        run.main.action_settings()
        await run.until(lambda: isinstance(run.app.screen, SettingsDialog))
        await run.until(lambda: run.app.screen.current is not None)  # pyright: ignore[reportAttributeAccessIssue]
        seen = []
        for _ in SETTINGS:
            setting = run.app.screen.current  # pyright: ignore[reportAttributeAccessIssue]
            seen.append(setting.name)
            await run.until(lambda name=setting.name: any(f" {name} " in line for line in run.frame()[2:-6]))
            await run.pilot.press("down")
        assert seen == [setting.name for setting in SETTINGS]


async def test_a_file_that_can_not_be_written_is_told_and_nothing_changes(file: Path) -> None:
    file.write_text("[[[")
    async with opened(file) as run:
        run.main.action_settings()
        await run.until(lambda: isinstance(run.app.screen, SettingsDialog))
        run.app.screen.query_one(Input).value = "offline"
        await run.pilot.press("enter")
        await run.shows("Mend it first")
        assert file.read_text() == "[[["


# --------------------------------------------------------------------------------------------- presets


async def test_presets_are_switched_to_from_the_list_and_left_again(file: Path) -> None:
    async with opened(file) as run:
        await run.outside("P")
        await run.shows("pirate  ·  system prompt, temperature 1.5, policy static")
        await run.pilot.press("down", "enter")
        await run.until(lambda: temperature(run) == 1.5)
        await run.until(lambda: run.session.state.switches.policy == "static")
        await run.ask("recall")
        assert run.session.conversation.leaf.text == "system: Speak like a pirate. | user: recall"
        run.main.use_preset("")
        assert temperature(run) == 0.5
        assert run.session.conversation.system == ""
        await run.until(lambda: run.session.state.switches.policy == "continuous")


async def test_the_palette_offers_presets_templates_and_themes(file: Path) -> None:
    async with opened(file) as run:
        titles = {command.title for command in run.app.get_system_commands(run.main)}
        assert {"Preset pirate", "Template translate", "Theme cutaway-light"} <= titles
        await run.pilot.press("ctrl+p")
        await run.until(lambda: CommandPalette.is_open(run.app))
        await run.pilot.press(*"Preset_plain".replace("_", " "))
        await run.shows("Preset plain")
        await run.pilot.press("down", "enter")
        await run.until(lambda: run.session.exchange.settings.max_tokens == 3)


async def test_re_01_names_that_look_like_markup_stand_in_the_palette_as_they_are(file: Path) -> None:
    file.write_text(MINE + '[presets."[/]odd"]\ntemperature = 1\n[templates."[@click=app.quit]t[/]"]\ntext = "{a}"\n')
    async with opened(file, (100, 60)) as run:
        await run.pilot.press("ctrl+p")
        await run.shows("Ask again")  # all of them are listed
        await run.pilot.press(*"quit]t")
        await run.shows("Template [@click=app.quit]t[/]")
        await run.pilot.press(*["backspace"] * 6, *"/]odd")
        await run.shows("Preset [/]odd")
        await run.pilot.press("down", "enter")
        await run.until(lambda: temperature(run) == 1)


async def test_a_system_prompt_of_the_chat_itself_outlives_a_preset_without_one(file: Path) -> None:
    async with opened(file) as run:
        run.session.conversation.system = "mine"
        run.main.use_preset("plain")
        assert run.session.conversation.system == "mine"
        run.main.use_preset("pirate")
        assert run.session.conversation.system == "Speak like a pirate."


async def test_the_present_settings_are_saved_as_a_preset(file: Path) -> None:
    async with opened(file) as run:
        run.session.conversation.system = "Be exact."
        run.session.send(Configure(policy="static"))
        await run.until(lambda: run.session.state.switches.policy == "static")
        run.main.action_save_preset()
        await run.until(lambda: isinstance(run.app.screen, ValueDialog))
        await run.pilot.press("enter")
        await run.shows("a preset needs a name.")
        await run.pilot.press(*"exact", "enter")
        await run.shows("Saved as preset exact")
        assert load(file).presets["exact"] == {"system": "Be exact.", "temperature": 0.5, "policy": "static"}
        assert file.read_text().startswith(MINE.split("[templates")[0])


# -------------------------------------------------------------------------------------------- templates


async def test_a_template_is_filled_in_and_goes_into_the_composer(file: Path) -> None:
    async with opened(file) as run:
        await run.outside("F")
        await run.until(lambda: isinstance(run.app.screen, ChoiceDialog))
        await run.pilot.press("enter")
        await run.until(lambda: isinstance(run.app.screen, TemplateForm))
        await run.pilot.press("enter", "enter")
        await run.shows("language is empty")
        await run.pilot.press(*"French", "enter", *"a", "ctrl+j", *"b", "enter")
        await run.until(lambda: run.app.screen is run.main)
        assert run.main.composer.message == "recall French: a\nb"
        assert run.main.focused is run.main.composer


# ---------------------------------------------------------------------------------------------- themes


async def test_themes_are_tried_on_put_back_and_kept(file: Path) -> None:
    folder = file.parent / "themes"
    folder.mkdir()
    (folder / "broken.toml").write_text("primary = 3")
    async with opened(file) as run:
        (folder / "mine.toml").write_text('name = "a-mine"\n[colours]\nprimary = "#123456"\n')
        await run.outside("ampersand")
        await run.until(lambda: isinstance(run.app.screen, ThemesDialog))
        await run.shows("a-mine")
        await run.until(lambda: "'primary" in run.text())  # a long path breaks the sentence anywhere
        before = run.app.theme
        await run.pilot.press("home")
        await run.until(lambda: run.app.theme == "a-mine")
        await run.pilot.press("escape")
        await run.until(lambda: run.app.theme == before)
        await run.outside("ampersand")
        await run.until(lambda: run.app.screen.query(OptionList))
        await run.pilot.press("home", "enter")
        await run.shows("theme a-mine is kept")
        assert run.app.theme == "a-mine"
        assert load(file).values["theme"] == "a-mine"


# ------------------------------------------------------------------------------------------------ keys


KEYS = """
[keys]
regenerate = ["ctrl+g", "!"]
keys = "f11"
quit = "ctrl+x"
go_on = []
palette = "ctrl+k"
lanes = "alt+l"
"""


async def test_the_readers_keys_act_and_are_shown_everywhere(file: Path) -> None:
    file.write_text(MINE + KEYS)
    async with opened(file) as run:
        await run.shows("F11 keys · Ctrl+K every action")
        await run.until(lambda: " alt+l lanes" in run.text().lower())
        await run.ask("count 2")
        await run.pilot.press("ctrl+r")
        await run.pilot.press("ctrl+g")
        await run.until(lambda: len(run.session.conversation.path()[0].children) == 2 and not run.session.generating)
        await run.outside("r", "exclamation_mark")
        await run.until(lambda: len(run.session.conversation.path()[0].children) == 3 and not run.session.generating)
        await run.ask("slowly forever", wait=False)
        await run.until(lambda: len(run.session.conversation.leaf.text) > 4)
        await run.pilot.press("escape")
        await run.shows("■ stopped after")
        await run.until(lambda: "goes on" not in run.text())
        await run.pilot.press("f11")
        await run.until(lambda: isinstance(run.app.screen, KeysScreen))
        assert isinstance(run.app.screen, KeysScreen)
        assert "Ctrl+X                 Quit" in str(run.app.screen.text())
        await run.pilot.press("escape")
        await run.pilot.press("ctrl+k")
        await run.until(lambda: CommandPalette.is_open(run.app))
        await run.pilot.press("escape")
        await run.pilot.press("ctrl+q")
        await run.pilot.pause()
        assert run.app.is_running
        run.main.action_settings()  # also where another screen is open
        await run.pilot.press("ctrl+x")
        await run.until(lambda: not run.app._running, "the end")


async def test_keys_changed_by_hand_act_at_once_and_what_is_wrong_with_them_is_told(file: Path) -> None:
    async with opened(file, size=(120, 40)) as run:
        await changed_by_hand(run, file, MINE + '[keys]\njump = "ctrl+g"\nregenrate = "x"\n')
        assert "did you mean regenerate?" in told(run)
        await run.shows("Ctrl+G jump")
        await changed_by_hand(run, file, MINE + "[keys]\nquit = []\n")
        assert "nothing would quit" in told(run)
        await run.shows("Ctrl+O jump")
        await run.pilot.press("ctrl+q")
        await run.until(lambda: not run.app._running, "the end")
