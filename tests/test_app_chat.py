"""The chat on screen: asking, stopping, branching, copying, following, on the scripted engine in this process."""

from __future__ import annotations

from pathlib import Path

import pytest
from cutaway.engine.protocol import Abort, Fork, Load, SamplingSettings, Submit
from cutaway.tui.chat import clipboard
from cutaway.tui.screens.dialogs import TextDialog
from cutaway.tui.state.conversation import Reply
from textual import events
from textual.geometry import Offset
from textual.widgets import TextArea

from .screen_run import Running, running


@pytest.fixture(autouse=True)
def copied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text that is copied; no clipboard of the machine is touched."""
    texts: list[str] = []

    def copy(text: str, write: object, env: object = None) -> str:
        texts.append(text)
        return f"Copied {len(text)} characters."

    monkeypatch.setattr(clipboard, "copy", copy)
    return texts


def replies(run: Running) -> list[tuple[str, str]]:
    return [(node.role, node.text) for node in run.session.conversation.path()]


# ------------------------------------------------------------------------------------------------- talking


async def test_a_reply_streams_in_and_says_why_it_ended() -> None:
    async with running() as run:
        await run.ask("count 3")
        assert replies(run) == [("user", "count 3"), ("assistant", "1 2 3 ")]
        await run.shows("✓ end · 3 tokens")
        await run.shows("ctx 5/4096")


async def test_enter_sends_exactly_what_was_typed_before_it_however_fast_the_keys_come() -> None:
    async with running() as run:
        for key in [*"count", "space", "2", "enter", *"next"]:
            run.app.post_message(events.Key(key, " " if key == "space" else key if len(key) == 1 else "\r"))
        await run.until(lambda: replies(run)[-1:] == [("assistant", "1 2 ")], "the whole message to be answered")
        assert replies(run)[0] == ("user", "count 2")
        assert run.main.composer.text == "next"


async def test_escape_stops_a_reply_and_keeps_what_was_said() -> None:
    async with running() as run:
        await run.ask("slowly forever", wait=False)
        await run.until(lambda: run.session.generating and len(replies(run)[-1][1]) > 4)
        await run.shows("Esc stops")
        await run.pilot.press("escape")
        await run.shows("■ stopped after")
        assert replies(run)[-1][1].startswith("1 2 ")
        assert isinstance(run.engine.last(Abort), Abort)


async def test_a_reply_cut_by_length_says_so_and_goes_on_when_asked() -> None:
    async with running(settings=SamplingSettings(max_tokens=5)) as run:
        await run.ask("count 9")
        await run.shows("✂ cut at 5 tokens — c goes on")
        await run.outside("c")
        await run.until(lambda: not run.session.generating)
        command = run.engine.last(Submit)
        assert isinstance(command, Submit)
        assert command.continue_last
        assert command.messages[-1].content == "1 2 3 4 5 "
        assert replies(run)[-1][1].startswith("1 2 3 4 5 You said: ")


async def test_asking_again_makes_a_branch_and_the_old_reply_can_be_walked_back_to() -> None:
    async with running() as run:
        await run.ask("count 2")
        await run.pilot.press("ctrl+r")
        await run.until(lambda: len(run.session.conversation.path()[0].children) == 2 and not run.session.generating)
        await run.shows("‹ 2/2 ›")
        await run.outside("left")
        await run.shows("‹ 1/2 ›")


async def test_a_reply_without_a_question_before_it_says_that_it_can_not_be_asked_again() -> None:
    async with running() as run:
        run.session.conversation.add("assistant", "Hello, I was imported.", reply=Reply("", status="end"))
        run.main.path_changed()
        await run.outside("r")
        await run.shows("No question stands before this")
        assert len(replies(run)) == 1


async def test_an_edited_question_is_answered_in_a_new_branch() -> None:
    async with running() as run:
        await run.ask("count 2")
        await run.outside("left_square_bracket", "e")
        await run.until(lambda: isinstance(run.app.screen, TextDialog))
        await run.pilot.press("backspace", "3", "enter")
        await run.until(lambda: replies(run) == [("user", "count 3"), ("assistant", "1 2 3 ")])
        await run.outside("left_square_bracket", "left")
        assert replies(run) == [("user", "count 2"), ("assistant", "1 2 ")]


async def test_an_edited_reply_stands_as_written_and_the_chat_goes_on_from_it() -> None:
    async with running() as run:
        await run.ask("count 2")
        await run.outside("e")
        await run.until(lambda: isinstance(run.app.screen, TextDialog))
        await run.pilot.press("X", "enter")
        await run.shows("✎ edited by you")
        await run.ask("recall")
        assert replies(run)[-1][1] == "user: count 2 | assistant: 1 2 X | user: recall"


async def test_the_system_prompt_is_sent_first_once_it_is_set() -> None:
    async with running() as run:
        await run.outside("S")
        await run.until(lambda: isinstance(run.app.screen, TextDialog))
        await run.pilot.press(*"Be_kind", "ctrl+s")
        await run.ask("recall")
        assert replies(run)[-1][1] == "system: Be_kind | user: recall"


async def test_a_fork_makes_a_new_branch_with_the_kept_text() -> None:
    async with running() as run:
        await run.ask("count 5")
        from cutaway.tui.panels import ForkRequested

        request = run.session.conversation.path()[-1].reply.request
        run.main.panel("candidates").post_message(ForkRequested(request, 0, 2, 7))
        await run.until(lambda: len(run.session.conversation.path()[0].children) == 2 and not run.session.generating)
        assert replies(run)[-1][1] == "1 2  <7>4 5 "
        command = run.engine.last(Fork)
        assert isinstance(command, Fork)
        assert (command.source, command.at, command.forced) == (request, 2, 7)


async def test_several_chats_are_kept_and_each_keeps_its_draft() -> None:
    async with running() as run:
        await run.ask("count 2")
        await run.type("half")
        await run.pilot.press("ctrl+n")
        assert run.main.composer.text == ""
        assert replies(run) == []
        await run.ask("count 3")
        await run.outside("less_than_sign")
        await run.shows("chat 1/2 · count 2")
        assert run.main.composer.text == "half"
        assert replies(run)[-1] == ("assistant", "1 2 ")


async def test_a_rejected_request_says_why_and_can_be_tried_again() -> None:
    async with running(load=Load(model="scripted", window=4)) as run:
        await run.ask("one two three four five six", wait=False)
        await run.shows("✗ failed: The prompt has 6 tokens")
        await run.shows("r tries again")


@pytest.mark.parametrize("size", [(120, 30), (80, 24), (160, 48)])
async def test_what_happens_at_the_limit_is_said_before_it_happens_and_whole(size: tuple[int, int]) -> None:
    async with running(size=size, load=Load(model="scripted", window=20)) as run:
        await run.ask("count 15")
        await run.shows("of the window is full. At 20 tokens")
        await run.shows("stay here.")
        await run.shows("▲ctx 17/20")


async def test_the_first_paint_of_a_buffered_reply_is_told_though_nothing_comes_after() -> None:
    async with running(size=(160, 48)) as run:
        await run.outside("d")
        await run.shows("▤ buffered")
        await run.ask("count 5")
        await run.until(lambda: any(" ▲ " in row and "ms ■" in row for row in run.frame()), "its times")


async def test_the_death_of_the_engine_keeps_what_was_said_and_r_starts_it_again() -> None:
    async with running(size=(120, 30)) as run:
        await run.ask("slowly forever", wait=False)
        await run.until(lambda: len(replies(run)[-1][1]) > 4)
        said = replies(run)[-1][1]
        run.engine.die()
        await run.shows("✗ failed: The engine was killed (signal 9). Start it")
        await run.shows("✗ no engine")
        await run.until(lambda: "●" not in run.text())  # no stage is lit any more
        assert replies(run)[-1][1].startswith(said)
        await run.outside("R")
        await run.until(lambda: run.session.link.ready)
        assert run.engine.starts == 2
        await run.ask("count 2")
        assert replies(run)[-1][1] == "1 2 "


async def test_the_next_message_starts_a_dead_engine_again() -> None:
    async with running(size=(120, 30)) as run:
        run.engine.die()
        await run.shows("✗ The engine was killed (signal 9). Start it again.")
        await run.ask("count 2")
        assert replies(run)[-1][1] == "1 2 "
        assert run.engine.starts == 2
        await run.until(lambda: "The engine was killed" not in run.text())


async def test_a_question_asked_while_the_model_loads_is_answered_when_it_is_there() -> None:
    async with running() as run:
        run.session.link.ready = False
        await run.ask("count 2", wait=False)
        await run.shows("◌ waiting for the engine")
        assert not [command for command in run.engine.sent if isinstance(command, Submit)]
        run.session.link._release()
        await run.until(lambda: replies(run)[-1][1] == "1 2 ")


# --------------------------------------------------------------------------------- 09 rendering of model text


@pytest.mark.parametrize("text", ["[/INST] hi", "[@click=app.quit]x[/]", "[b]bold[/b]", "[/]"])
async def test_re_01_markup_from_the_user_and_the_model_is_shown_literally(text: str) -> None:
    async with running() as run:
        await run.ask(text)
        assert run.text().count(text) >= 2


async def test_re_03_a_crash_anywhere_leaves_the_draft_recoverable(tmp_path: Path) -> None:
    draft = "```\n# [/mnt/x] \n```"

    async def crash() -> None:
        async with running(state_folder=tmp_path) as run:
            run.main.composer.put(draft)
            await run.until(lambda: list(tmp_path.glob("draft-*.txt")), "the draft on disk")
            run.main.call_later(lambda: 1 / 0)
            await run.until(lambda: not run.app._running, "the crash")

    with pytest.raises(ZeroDivisionError):
        await crash()
    (kept,) = tmp_path.glob("draft-*.txt")
    kept.rename(tmp_path / "draft-999999999.txt")
    async with running(state_folder=tmp_path) as run:
        assert run.main.composer.text == draft
        await run.ask(draft)
        await run.shows("│ # [/mnt/x]")


async def test_re_04_a_bracket_in_a_title_leaves_the_rest_of_the_line_alone() -> None:
    async with running(load=Load(model="ZLEX [b + x")) as run:
        run.session.conversation.named = "ZLEX [b + x"
        run.main.path_changed()
        await run.settle()
        assert "chat 1/1 · ZLEX [b + x" in run.frame()[3]
        assert "cutaway  ZLEX [b + x  cpu none" in run.frame()[0]
        styles = {segment.style.color for segment in run.app.screen._compositor.render_strips()[0] if segment.style}
        assert len(styles) > 2


@pytest.mark.parametrize("text", ["[@click=app.quit]x[/]", "[@click=]x[/]"])
async def test_re_05_a_click_on_foreign_text_does_nothing(text: str) -> None:
    async with running() as run:
        await run.ask(text)
        rows = [(y, line.index("]x[/]") + 1) for y, line in enumerate(run.frame()) if "]x[/]" in line]
        assert rows
        for y, x in rows:
            await run.pilot.click(offset=(x, y))
        await run.pilot.pause()
        assert run.app.is_running
        assert run.text().count(text) >= 2


async def test_re_06_no_escape_of_a_reply_gets_into_a_frame_and_the_text_is_kept() -> None:
    async with running() as run:
        await run.ask("raw A\\x1b]52;c;SEk=\\x07B\\x1b[2JC\\x9b31mD\\x1bcE")
        assert replies(run)[-1][1] == "A\x1b]52;c;SEk=\x07B\x1b[2JC\x9b31mD\x1bcE"
        await run.shows("A␛]52;c;SEk=␇B␛[2JC")
        assert not set("\x1b\x07\x9b") & set(run.text())


async def test_re_08_code_is_still_there_after_resize_and_theme_change() -> None:
    async with running() as run:
        await run.ask("raw Ex:\\n\\n```py\\nx=1\\n```\\n")
        for size in ((60, 20), (130, 40), (80, 24)):
            await run.pilot.resize_terminal(*size)
            run.app.theme = "cutaway-light" if run.app.theme != "cutaway-light" else "cutaway-dark"
            await run.settle()
            await run.shows("│ x=1")


async def test_re_08_the_code_block_can_be_copied(copied: list[str]) -> None:
    async with running() as run:
        await run.ask("raw Ex:\\n\\n```py\\nx=1\\n```\\n")
        await run.outside("k")
        assert copied == ["x=1"]


# -------------------------------------------------------------------------------------- 10 terminal behaviour


@pytest.mark.parametrize(("pasted", "kept"), [("one\ntwo\nthree", "one\ntwo\nthree"), ("a\r\nb", "a\nb")])
async def test_te_01_a_paste_keeps_all_lines_and_sends_nothing(pasted: str, kept: str) -> None:
    async with running() as run:
        run.app.post_message(events.Paste(pasted))
        await run.until(lambda: run.main.composer.text == kept)
        assert replies(run) == []
        await run.pilot.press("enter")
        await run.until(lambda: replies(run)[0] == ("user", kept))


async def test_te_01_a_very_long_paste_is_kept_whole_and_typing_stays_quick() -> None:
    async with running() as run:
        pasted = "漢字" * 50_000 + "\nend"
        run.app.post_message(events.Paste(pasted))
        await run.until(lambda: "⟦paste 1: 100,004 characters, 2 lines⟧" in run.main.composer.text)
        await run.type(" x")
        assert run.main.composer.message == pasted + " x"


async def test_te_02_there_is_always_a_key_for_a_new_line_and_it_is_named() -> None:
    async with running() as run:
        await run.pilot.press("a", "ctrl+j", "b", "alt+enter", "c", "backslash", "enter", "d")
        assert run.main.composer.text == "a\nb\nc\nd"
        assert replies(run) == []
        await run.shows("Ctrl+J new line")


async def test_the_prompt_grows_with_its_lines_up_to_a_part_of_the_screen() -> None:
    async with running() as run:
        heights = [run.main.composer.size.height]
        for _ in range(14):
            await run.pilot.press("ctrl+j")
            await run.settle()
            heights.append(run.main.composer.size.height)
        assert heights[:4] == [1, 2, 3, 4]
        assert heights[-1] == heights[-2] == 10
        assert run.main.view.size.height > 0


async def test_the_prompts_before_come_back_at_the_edges_and_the_draft_after_them() -> None:
    async with running() as run:
        await run.ask("count 1")
        await run.ask("count 2")
        await run.type("draft")
        await run.pilot.press("up", "up")
        assert run.main.composer.text == "count 1"
        await run.pilot.press("down", "down")
        assert run.main.composer.text == "draft"


async def test_te_09_ctrl_c_copies_a_selection_and_goes_on(copied: list[str]) -> None:
    async with running() as run:
        await run.type("some words")
        run.main.composer.select_all()
        await run.pilot.press("ctrl+c")
        assert copied == ["some words"]
        assert run.app.is_running
        await run.pilot.press("ctrl+c")
        assert run.app.return_code is None


async def test_te_09_ctrl_c_stops_a_reply() -> None:
    async with running() as run:
        await run.ask("slowly forever", wait=False)
        await run.until(lambda: len(replies(run)[-1][1]) > 4)
        await run.pilot.press("ctrl+c")
        await run.shows("■ stopped after")
        assert run.app.is_running


async def test_te_09_ctrl_c_says_how_to_quit_and_quits_the_second_time() -> None:
    async with running() as run:
        await run.pilot.press("ctrl+c")
        await run.shows("Ctrl+C again, or Ctrl+Q, quits.")
        assert run.app.is_running
        await run.pilot.press("ctrl+c")
        await run.until(lambda: not run.app._running, "the end")


async def test_te_13_the_view_stays_where_the_reader_scrolled_until_end_is_pressed() -> None:
    async with running() as run:
        await run.ask("raw " + "line\\n\\n" * 60)
        view = run.main.view
        assert view.following
        await run.ask("slowly forever", wait=False)
        await run.until(lambda: len(replies(run)[-1][1]) > 20)
        await run.pilot.press("escape")
        await run.until(lambda: not run.session.generating)
        await run.ask("slowly forever", wait=False)
        await run.until(lambda: len(replies(run)[-1][1]) > 20)
        view.focus()
        await run.pilot.press(*["up"] * 10)
        top, line = view.scroll_offset.y, run.frame()[6][:76]
        said = len(replies(run)[-1][1])
        await run.until(lambda: len(replies(run)[-1][1]) > said + 60)
        await run.shows("▼ new text below · End follows")
        assert (view.scroll_offset.y, run.frame()[6][:76]) == (top, line)
        await run.shows("▼ new text below · End follows")
        await run.pilot.press("end")
        await run.until(lambda: view.following and view.scroll_offset.y == view.max_scroll_y)
        await run.until(lambda: "new text below" not in run.text())


async def test_te_13_a_shrinking_last_block_does_not_follow_again() -> None:
    async with running() as run:
        await run.ask("raw " + "line\\n\\n" * 60)
        view = run.main.view
        view.focus()
        await run.pilot.press(*["up"] * 3)
        assert not view.following
        node = run.session.conversation.path()[-1]
        node.text = node.text[: -len("line\n\n") * 2]
        node.touch()
        run.main.changed([node])
        await run.settle()
        assert not view.following


async def test_te_15_a_long_code_line_is_copied_as_it_is_by_key_and_by_mouse(copied: list[str]) -> None:
    code = "value = [" + ", ".join(str(n) for n in range(1000, 1036)) + "]"
    assert len(code) > 200
    async with running() as run:
        await run.ask(f"raw ```python\\n\\t{code}\\n```")
        await run.outside("k")
        assert copied == [f"\t{code}"]
        frame = run.frame()
        first = max(y for y, line in enumerate(frame) if "value = [1000" in line)
        last = next(y for y, line in enumerate(frame) if y > first and "1035]" in line)
        assert last > first
        end = (frame[last].index("1035]") + 4, last)
        await run.pilot.mouse_down(offset=(frame[first].index("value"), first))
        await run.pilot.hover(offset=end)
        await run.pilot.mouse_up(offset=end)
        await run.pilot.press("ctrl+c")
        assert copied[-1] == code


async def test_a_selection_over_formatted_text_copies_its_source(copied: list[str]) -> None:
    async with running() as run:
        await run.ask("raw some **bold** and `code`, *done*")
        y = next(y for y, line in enumerate(run.frame()) if "some bold and code" in line)
        x = run.frame()[y].index("some bold")
        await run.pilot.mouse_down(offset=(x, y))
        await run.pilot.hover(offset=(x + 18, y))
        await run.pilot.mouse_up(offset=(x + 18, y))
        await run.pilot.press("ctrl+c")
        assert copied == ["some **bold** and `code`,"]


async def test_a_click_on_a_word_selects_its_token_everywhere() -> None:
    async with running(size=(120, 40)) as run:
        await run.ask("count 9")
        y = next(y for y, line in enumerate(run.frame()) if "1 2 3 4" in line[:50])
        x = run.frame()[y].index("5 6")
        await run.pilot.click(offset=Offset(x, y))
        await run.settle()
        selection = run.session.selection
        assert selection.position == 2 + 4
        assert run.main.view.marked is not None
        assert run.main.view.marked[1:] == (8, 10)


async def test_single_letters_are_text_in_the_composer_and_actions_outside() -> None:
    async with running() as run:
        await run.type("zpq?")
        assert run.main.composer.text == "zpq?"
        assert isinstance(run.app.focused, TextArea)
        await run.outside("p")
        await run.until(lambda: run.session.state.switches.paused)


async def test_keys_typed_faster_than_the_screen_keeps_up_act_in_their_order() -> None:
    async with running() as run:
        await run.type("old")
        for key, character in (("ctrl+u", None), ("n", "n"), ("x", "x"), ("backspace", None), ("o", "o")):
            run.app.post_message(events.Key(key, character))
        await run.until(lambda: run.main.composer.text == "no", "the keys in their order")


async def test_a_question_sent_from_above_follows_its_reply_and_says_so_no_more() -> None:
    async with running() as run:
        for _ in range(3):
            await run.ask("count 40")
        run.main.view.focus()
        await run.pilot.press("home")
        await run.shows("End follows")
        await run.ask("count 3")
        assert run.main.view.following
        await run.until(lambda: "End follows" not in run.text(), "the hint's end")
