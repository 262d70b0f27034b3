"""Sizes, controls, panels, palette and keys: what is where, and that nothing breaks on the way."""

from __future__ import annotations

import itertools

import pytest
from cutaway.engine.protocol import ClearCache, Configure, Load, Pause, Resume, StepOnce, Submit
from cutaway.tui.actions import ACTIONS
from cutaway.tui.controls.bar import ControlsBar
from cutaway.tui.screens.dialogs import ValueDialog
from cutaway.tui.screens.jump import JumpScreen
from cutaway.tui.screens.keys import KeysScreen
from cutaway.tui.screens.layout import PANELS, shown_panels, too_small
from hypothesis import given
from hypothesis import strategies as st
from textual.command import CommandPalette
from textual.widgets._toast import Toast

from .screen_run import Running, running

SIZES = [(80, 24), (70, 24), (40, 10), (20, 5), (1, 1), (80, 24)]
OPENERS = {
    "nothing": (),
    "palette": ("ctrl+p",),
    "keys": ("f1",),
    "chats": ("ctrl+l",),
    "jump": ("ctrl+o",),
    "panel": ("f6",),
    "maximised": ("f5", "f12"),
    "controls": ("f8",),
    "value": ("f8", "enter"),
    "toast": ("ctrl+c",),
}


@pytest.mark.parametrize("opened", OPENERS)
async def test_te_04_no_size_breaks_the_screen_whatever_is_open(opened: str) -> None:
    async with running(size=(160, 48)) as run:
        await run.ask("raw " + "a **bold** line\\n\\n- one\\n- two\\n\\n| a | b |\\n|-|-|\\n| c | d |\\n\\n" * 3)
        await run.pilot.press(*OPENERS[opened])
        for size in SIZES:
            await run.pilot.resize_terminal(*size)
            await run.settle()
            run.text()
            if opened == "nothing" and size == (20, 5):
                await run.shows("too small: 20x5")
        await run.pilot.press("escape", "escape")
        while run.app.screen is not run.main:
            await run.pilot.press("escape")
        run.main.action_show_chat()
        await run.settle()
        await run.shows("• two")
        await run.shows("✓ end")


@pytest.mark.parametrize("keys", [(), ("f6",)], ids=["the prompt", "a panel"])
async def test_a_window_that_was_too_small_for_a_while_has_the_focus_where_it_was(keys: tuple[str, ...]) -> None:
    async with running(size=(160, 48)) as run:
        await run.pilot.press(*keys)
        await run.settle()
        before = run.main.focused
        assert before is not None
        assert (before is run.main.composer) == (not keys)
        for size in ((5, 3), (1, 1), (160, 48)):
            await run.pilot.resize_terminal(*size)
            await run.settle()
        await run.until(lambda: run.main.focused is before, "the focus again")
        for size in ((5, 3), (80, 24)):
            await run.pilot.resize_terminal(*size)
            await run.settle()
        await run.until(lambda: run.main.focused is not None, "a focus in a narrow window")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_what_is_told_in_passing_hides_neither_the_message_being_written_nor_the_controls(
    size: tuple[int, int],
) -> None:
    async with running(size=size) as run:
        run.main.say("The settings have a mistake in line 3, which is told here at some length. " * 2, "warning")
        await run.until(lambda: (told := run.main.query(Toast)) and told.last().region.area, "the words")
        await run.pilot.pause()
        told = run.main.query_one(Toast).region
        assert told.height <= 5
        assert told.bottom <= run.main.composer.region.y
        assert not told.overlaps(run.main.query_one(ControlsBar).region)


@given(st.integers(1, 400), st.integers(-3, 200), st.sampled_from(("", *PANELS)))
def test_the_chosen_panel_always_has_a_place(width: int, rows: int, chosen: str) -> None:
    shown = shown_panels(width, rows, chosen)
    assert chosen in shown or not chosen
    assert list(shown) == [panel for panel in PANELS if panel in shown]


def test_too_small_names_both_sizes() -> None:
    assert too_small(80, 24) == ""
    assert too_small(19, 5) == "too small: 19x5, at least 20x6"


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (160, 48)])
async def test_every_panel_is_one_key_away_and_the_chat_too(size: tuple[int, int]) -> None:
    async with running(size=size) as run:
        await run.ask("count 3")
        for number, name in enumerate(PANELS, 2):
            await run.pilot.press(f"f{number}")
            panel = run.main.panel(name)
            await run.until(lambda panel=panel: run.main.focused is panel and panel.size.area > 0)
            if size[0] < 120:
                assert run.main.view.size.area == 0
                assert run.main.composer.size.area > 0
        await run.pilot.press("1")
        await run.until(lambda: run.main.view.size.area > 0)


async def test_a_panel_can_be_maximised_and_put_back() -> None:
    async with running(size=(120, 40)) as run:
        await run.ask("count 3")
        await run.pilot.press("f5")
        before = run.main.panel("pages").size
        await run.pilot.press("f12")
        await run.until(lambda: run.main.panel("pages").size.width > before.width)
        await run.pilot.press("escape")
        await run.until(lambda: run.main.panel("pages").size == before)


async def test_a_tab_can_be_clicked() -> None:
    async with running() as run:
        x = run.frame()[2].index("lanes")
        await run.pilot.click(offset=(x, 2))
        await run.until(lambda: run.main.focused is run.main.panel("lanes"))


async def test_jump_mode_goes_to_the_place_of_a_letter() -> None:
    async with running(size=(120, 40)) as run:
        await run.pilot.press("ctrl+o")
        await run.until(lambda: isinstance(run.app.screen, JumpScreen))
        jump = run.app.screen
        assert isinstance(jump, JumpScreen)
        letter, place = next((k, w) for k, w in jump.places.items() if w is run.main.panel("pages"))
        await run.pilot.press(letter)
        await run.until(lambda: run.main.focused is place)


async def test_the_palette_offers_every_action() -> None:
    async with running() as run:
        titles = {command.title for command in run.app.get_system_commands(run.main)}
        assert {action.title for action in ACTIONS if action.palette} <= titles
        await run.pilot.press("ctrl+p")
        await run.until(lambda: CommandPalette.is_open(run.app))
        await run.pilot.press(*"pause")
        await run.shows("Pause the engine")


async def test_the_key_list_is_made_from_the_bindings() -> None:
    async with running(size=(120, 48)) as run:
        await run.outside("question_mark")
        await run.until(lambda: isinstance(run.app.screen, KeysScreen))
        keys = run.app.screen
        assert isinstance(keys, KeysScreen)
        told = str(keys.text())
        for action in ACTIONS:
            if action.keys or action.letters:
                assert action.title in told
        assert "Ctrl+J Alt+Enter Shift+Enter\n" in told
        rows = [line for line in told.splitlines() if line.startswith("  ") and not line.endswith("Shift+Enter")]
        assert {row[24] for row in rows} == {" "}
        assert "Enter" in told


async def test_a_wrapped_line_of_the_key_list_goes_on_under_its_words() -> None:
    async with running(size=(80, 24)) as run:
        await run.outside("question_mark")
        await run.shows("composer and back")
        await run.shows("Esc closes")
        first = next(line for line in run.frame() if "Stop the reply" in line)
        assert (
            next(line for line in run.frame() if "composer and back" in line)[: first.index("Stop")].strip("│╭╰─ ")
            == ""
        )
        assert len(run.frame()[0]) == 80


def test_every_action_has_a_method_and_no_key_two_meanings() -> None:
    from cutaway.tui.screens.main import MainScreen

    for action in ACTIONS:
        assert hasattr(MainScreen, f"action_{action.name.split('(')[0]}"), action.name
    keys = [key for action in ACTIONS for group in (action.keys, action.letters) for key in group.split(",") if key]
    assert len(keys) == len(set(keys))


# ------------------------------------------------------------------------------------------------ controls


SWITCHES = {
    "delivery": (Configure(delivery="buffered"), "▤ buffered"),
    "policy": (Configure(policy="static"), "▦ static"),
    "prefix_cache": (Configure(prefix_cache=False), "□ no prefix cache"),
    "kv_reuse": (Configure(kv_reuse=False), "∑ recompute"),
    "pause": (Pause(), "▸ resume"),
}


@pytest.mark.parametrize("switch", SWITCHES)
async def test_a_switch_shows_what_the_engine_says_and_not_what_was_pressed(switch: str) -> None:
    command, words = SWITCHES[switch]
    async with running(size=(160, 40)) as run:
        handled = run.engine.core.handle
        run.engine.core.handle = lambda command: None
        await run.main.run_action(switch)
        await run.until(lambda: command in run.engine.sent)
        await run.settle()
        assert words not in run.text()
        run.engine.core.handle = handled
        await run.main.run_action(switch)
        await run.shows(words)
        assert run.engine.sent.count(command) == 2


async def click_control(run: Running, words: str) -> None:
    y = next(y for y, line in enumerate(run.frame()) if words in line and y > 20)
    await run.pilot.click(offset=(run.frame()[y].index(words) + 1, y))


async def test_switches_work_by_mouse() -> None:
    async with running(size=(160, 40)) as run:
        await click_control(run, "⟳ continuous")
        await run.shows("▦ static")
        await click_control(run, "‖ pause")
        await run.shows("▸ resume")
        await click_control(run, "▸ resume")
        await run.shows("‖ pause")
        assert isinstance(run.engine.sent[-1], Resume)


async def test_numbers_are_moved_typed_and_checked() -> None:
    async with running(size=(160, 40)) as run:
        await run.pilot.press("f8", "up", "up")
        await run.shows("T 0.80")
        await run.pilot.press("right", "enter")
        await run.until(lambda: isinstance(run.app.screen, ValueDialog))
        await run.pilot.press("7", "enter")
        await run.shows("top_p must be a number above 0")
        await run.pilot.press("backspace", *"0.9", "enter")
        await run.shows("top-p 0.90")
        assert run.session.exchange.settings.top_p == 0.9
        await run.ask("count 2")
        command = run.engine.last(Submit)
        assert isinstance(command, Submit)
        assert (command.settings.temperature, command.settings.top_p) == (0.8, 0.9)


async def test_a_changed_number_reaches_the_reply_that_is_being_written() -> None:
    async with running(size=(160, 40)) as run:
        await run.ask("slowly forever", wait=False)
        await run.until(lambda: run.session.generating)
        run.main.query_one(ControlsBar).focus()
        await run.pilot.press("up")
        await run.until(lambda: isinstance(run.engine.sent[-1], Configure))
        command = run.engine.last(Configure)
        assert isinstance(command, Configure)
        assert command.request == run.session.conversation.path()[-1].reply.request
        assert command.settings is not None
        assert command.settings.temperature == 0.75


async def test_pause_holds_and_step_makes_one_iteration() -> None:
    async with running(size=(160, 40)) as run:
        await run.outside("p")
        await run.until(lambda: run.session.state.switches.paused)
        await run.ask("count 5", wait=False)
        await run.until(lambda: isinstance(run.engine.sent[-1], Submit))
        for step in itertools.count(1):
            await run.pilot.press("f10")
            await run.until(lambda step=step: run.engine.core.iteration == step)
            if step == 3:
                break
        assert isinstance(run.engine.sent[-1], StepOnce)
        await run.until(lambda: run.session.conversation.path()[-1].text == "1 2 3 ")
        await run.pilot.press("f9")
        await run.until(lambda: run.session.conversation.path()[-1].text == "1 2 3 4 5 ")


async def test_traffic_fills_the_lanes_and_can_be_stopped(tmp_path) -> None:
    async with running(size=(160, 40), load=Load(model="scripted", pages=2048, max_lanes=4)) as run:
        run.engine.hold = True
        await run.outside("t")
        await run.until(lambda: len([c for c in run.engine.sent if isinstance(c, Submit)]) == 8)
        run.engine.core.step()
        await run.until(lambda: len(run.session.state.lanes.records) == 1)
        assert len(run.session.traffic) == 8
        await run.outside("T")
        await run.until(lambda: not run.session.traffic)
        file = tmp_path / "prompts.txt"
        file.write_text("count 2\ncount 3\n")
        await run.main.run_action("traffic_file")
        await run.until(lambda: isinstance(run.app.screen, ValueDialog))
        await run.pilot.press(*"missing", "enter")
        await run.shows("The traffic file missing can't be read: No such file or directory.")
        run.app.screen.query_one("#value").value = "~nobody-at-all/prompts.txt"
        await run.pilot.press("enter")
        await run.shows("The traffic file ~nobody-at-all/prompts.txt can't be read")
        run.app.screen.query_one("#value").value = str(file)
        await run.pilot.press("enter")
        await run.until(lambda: len([c for c in run.engine.sent if isinstance(c, Submit)]) == 10)


async def test_the_control_that_enter_would_use_is_marked_while_the_controls_have_the_focus() -> None:
    async with running(size=(160, 40)) as run:
        controls = run.main.controls

        def marked() -> list[str]:
            return [text for line in controls._painted[1] for text, style in line.parts if style == "cursor"]

        await run.settle()
        await run.outside("f8")
        await run.until(lambda: controls.has_focus)
        assert marked() == ["T 0.70"]
        await run.pilot.press("escape")
        await run.until(lambda: not controls.has_focus)
        assert marked() == []


async def test_what_is_told_in_passing_is_not_told_again_below_itself() -> None:
    async with running() as run:
        await run.ask("count 2")
        await run.outside("right", "right", "right")
        await run.shows("No branch on that side.")
        await run.pilot.pause()
        assert run.text().count("No branch on that side.") == 1


async def test_the_cache_can_be_cleared() -> None:
    async with running(size=(160, 40)) as run:
        await run.outside("C")
        await run.until(lambda: isinstance(run.engine.sent[-1], ClearCache))
