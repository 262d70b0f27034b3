"""The tour's screen by its keys: every chapter, both settings, leaving and coming back, and an engine that dies."""

from __future__ import annotations

from pathlib import Path

import pytest
from cutaway.engine.protocol import Configure, Failed, Load, Submit
from cutaway.tui.panels import Panel
from cutaway.tui.session import Session
from cutaway.tui.tour.actions import ACTIONS
from cutaway.tui.tour.keeping import NAME
from cutaway.tui.tour.progress import OFFERED
from cutaway.tui.tour.recorded import RecordedTour, recorded_session
from cutaway.tui.tour.scripts import load_chapters

from .screen_engine import InProcessEngine
from .screen_run import running
from .tour_run import TourRun, touring

PLAYS, _ = load_chapters()
SIZES = {"80x24": (80, 24), "160x48": (160, 48)}


async def take(run: TourRun, pick: str = "2") -> None:
    """Do a whole chapter as a reader does: answer, run, take the other setting, run."""
    first, second = run.screen.tour.chapter.settings
    await run.press(pick)
    await run.run(first.key)
    await run.press("right")
    await run.run(second.key)


@pytest.mark.parametrize("size", SIZES)
async def test_a_reader_takes_all_ten_chapters_by_keys_alone(size: str) -> None:
    async with touring(SIZES[size]) as run:
        tour = run.screen.tour
        for at, play in enumerate(PLAYS):
            assert tour.at == at
            await take(run)
            assert tour.done(tour.chapter), play.chapter.name
            words = run.text()
            for row in play.chapter.rows:
                assert row.name[:14] in words, (play.chapter.name, row.name)
            assert "—" not in "".join(line for line in words.splitlines() if "compared" in line)
            await run.press("n")
        assert tour.complete()
        await run.shows("The tour is done")


@pytest.mark.parametrize("at", range(len(PLAYS)))
async def test_a_chapter_text_fits_the_smallest_terminal_with_its_desk(at: int) -> None:
    async with touring((80, 24), chapter=at + 1) as run:
        words = " ".join(run.text().split())
        chapter = PLAYS[at].chapter
        for sentence in (" ".join(chapter.text.split()), *chapter.sources, chapter.question, *chapter.picks):
            end = sentence[-30:].strip()
            assert end in words, (chapter.name, end)
        assert "1-3 answer" in words


async def test_nothing_runs_before_the_question_is_answered_and_there_is_no_verdict() -> None:
    async with touring() as run:
        await run.press("enter")
        await run.shows("Answer the question first")
        assert not run.screen.tour.mark.seen
        await take(run, "1")  # not what it turns out to be
        words = run.text().lower()
        assert "you picked 1" in words
        assert "wrong" not in words
        assert "right" not in words


async def test_an_answer_can_be_changed_after_all_is_seen() -> None:
    async with touring() as run:
        await take(run, "1")
        await run.press("3")
        await run.shows("you picked 3")
        assert len(run.screen.tour.mark.outcomes) == 2


async def test_forward_back_and_jump() -> None:
    async with touring() as run:
        await run.press("b")
        await run.shows("This is the first chapter")
        await run.press("n", "n", "b")
        await run.shows("tour 2/10")
        await run.press("j")
        await run.shows("chapters: ✓ seen")
        await run.press("end", "enter")
        await run.shows("tour 10/10")
        await run.press("pageup")
        await run.shows("tour 9/10")


async def test_narrow_text_panels_and_request_take_turns() -> None:
    async with touring((80, 24), chapter=3) as run:
        await run.shows("One pass through the model")
        await take(run)
        await run.shows("lanes")
        assert "One pass through the model" not in run.text()
        await run.press("t")
        await run.shows("ITL")
        await run.press("t")
        await run.shows("your request")
        await run.press("t")
        await run.shows("One pass through the model")


async def test_wide_everything_is_on_the_screen() -> None:
    async with touring((160, 48), chapter=3) as run:
        await take(run)
        for words in ("One pass through the model", "lanes", "timeline", "your request", "compared"):
            await run.shows(words)


async def test_the_panels_show_the_run_of_the_chosen_setting() -> None:
    async with touring((160, 48), chapter=3) as run:
        await take(run)
        assert run.screen.panels[0].state.lanes.records[-1].policy == "continuous"
        await run.press("left")
        await run.until(lambda: run.screen.panels[0].state.lanes.records[-1].policy == "static")
        assert run.screen.panels[0].state is run.screen.stage.views["batch", "static"].state


async def test_the_readers_request_is_a_on_every_panel() -> None:
    async with touring((160, 48), chapter=4) as run:
        await take(run)
        view = run.screen.stage.views["prefill", "whole"]
        assert view.request("mine").letter == "A"
        assert view.request("B").letter == "B"


async def test_leaving_and_coming_back_resumes_where_one_was(tmp_path: Path) -> None:
    async with touring(state_folder=tmp_path) as run:
        await take(run)
        await run.press("n", "n", "2", "q")
        await run.until(lambda: not run.app.is_running, "the end")
    async with touring(state_folder=tmp_path) as run:
        assert run.screen.tour.at == 2
        assert run.screen.tour.mark.pick == 1
        await run.press("b", "b")
        await run.shows("✓ question alone")
        assert run.screen.tour.done(PLAYS[0].chapter)
    async with touring(state_folder=tmp_path, restart=True) as run:
        assert run.screen.tour.at == 0
        assert not run.screen.tour.mark.seen


async def test_a_panel_is_reached_by_tab_and_left_by_escape() -> None:
    async with touring((160, 48), chapter=2) as run:
        await take(run)
        await run.press("tab")
        assert isinstance(run.screen.focused, Panel)
        await run.shows("Esc leaves the panel")
        await run.press("left", "escape")
        assert run.screen.focused is None
        await run.shows("1-3 answer")


async def test_the_words_of_all_chapters_so_far_are_a_key_away() -> None:
    async with touring(chapter=7) as run:
        await run.press("w")
        await run.shows("token: a piece of a word")
        await run.press("end")
        await run.shows("seed")


async def test_every_action_is_in_the_key_list() -> None:
    async with touring((160, 60)) as run:
        await run.press("question_mark")
        await run.shows("On the tour")
        words = run.text()
        for action in ACTIONS:
            assert action.title in words


async def test_a_recording_says_so_and_keeps_its_question() -> None:
    async with touring() as run:
        await run.shows("RECORDED, no model runs")
        await run.press("e")
        await run.shows("This is a recording")


async def test_the_tour_is_saved_as_markdown_with_a_picture_of_every_run(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with touring((120, 40), state_folder=tmp_path / "state") as run:
        await take(run)
        await run.press("n")
        await take(run)
        await run.press("s")
        await run.shows("save the tour")
        await run.press("enter")
        await run.until(lambda: list(tmp_path.glob("tour-*.md")), "the report")
    [report] = tmp_path.glob("tour-*.md")
    text = report.read_text()
    assert "Why is the sky so blue?" in text
    assert "| tokens in the prompt |" in text
    assert text.count("![") == 4
    for link in (line.split("(")[-1].rstrip(")") for line in text.splitlines() if line.startswith("![")):
        assert (tmp_path / link).read_text().startswith("<svg")
    assert sum(line.startswith("**") for line in text.splitlines()) == 6


async def test_a_report_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    async with touring((120, 40)) as run:
        await run.press("s")
        await run.shows("save the tour")
        for wrong in ("", "/", ".."):
            run.app.screen.query_one("#value").value = wrong  # pyright: ignore[reportAttributeAccessIssue]
            await run.press("enter")
            await run.shows("is no file's name")
        run.app.screen.query_one("#value").value = "/dev/null/x.md"  # pyright: ignore[reportAttributeAccessIssue]
        await run.press("enter")
        await run.shows("Not saved")


# ------------------------------------------------------------------------------------------- a live engine


def scripted() -> tuple[Session, InProcessEngine]:
    engine = InProcessEngine()
    return Session(engine, Load(model="scripted", pages=2048)), engine


async def test_another_question_is_followed_from_there_on() -> None:
    session, engine = scripted()
    async with touring(session=session, chapter=8) as run:
        await run.press("2")
        await run.run("streamed")
        await run.press("e")
        await run.shows("your question")
        await run.press(*"why", "enter")
        assert run.screen.tour.question == "why"
        await run.until(lambda: not run.screen.tour.mark.outcomes)
        await run.run("streamed")
        last = engine.last(Submit)
        assert isinstance(last, Submit)
        assert last.messages[-1].content == "why"


async def test_an_engine_that_dies_in_a_run_is_told_and_started_again_and_the_chapter_is_kept() -> None:
    session, engine = scripted()
    async with touring(session=session, chapter=8) as run:
        await run.press("2")
        await run.run("streamed")
        await run.press("right")
        engine.hold = True
        await run.press("enter")
        await run.until(lambda: run.screen.stage.running)
        engine.die()
        await run.shows("The engine was killed")
        engine.hold = False
        await run.shows("The engine is back")
        assert engine.starts == 2
        assert run.screen.tour.at == 7
        assert set(run.screen.tour.mark.outcomes) == {"streamed"}
        await run.run("buffered")
        assert run.screen.tour.done(run.screen.tour.chapter)


async def test_an_engine_that_dies_again_and_again_is_not_started_for_ever() -> None:
    session, engine = scripted()
    async with touring(session=session, chapter=8) as run:
        run.screen._restarts = 1
        engine.die()
        await run.shows("R starts the engine again")
        assert engine.starts == 1
        await run.press("R")
        await run.shows("The engine is back")
        assert engine.starts == 2


async def test_where_no_model_can_be_had_the_recording_takes_over_and_says_so(tmp_path: Path) -> None:
    class Offline(InProcessEngine):
        async def send(self, command: object) -> None:
            self.push(Failed("The model is not here and there is no network.", "Connect once.", "download"))

    session = Session(Offline(), Load())
    async with touring(session=session, state_folder=tmp_path, question="What is rain?") as run:
        await run.shows("RECORDED, no model runs")
        assert run.screen.tour.question == OFFERED
        await run.press("3")
        await run.run("short")
        assert '"What is rain?"' in (tmp_path / NAME).read_text()  # for the next time


async def test_a_run_can_be_stopped_and_begun_again() -> None:
    session = recorded_session(speed=0.2)
    async with touring(session=session) as run:
        await run.press("1", "enter")
        await run.until(lambda: run.screen.stage.running)
        await run.press("x")
        await run.shows("Stopped")
        assert not run.screen.tour.mark.seen
        assert isinstance(session.link.engine, RecordedTour)
        session.link.engine.speed = None
        await run.run("short")


# ------------------------------------------------------------------------------------------- from the chat


async def test_from_the_chat_the_tour_takes_the_chats_engine_and_gives_it_back() -> None:
    async with running((120, 40)) as chat:
        await chat.ask("count 3")
        await chat.outside("g")
        await chat.shows("tour 1/10")
        assert chat.engine.starts == 1
        await chat.pilot.press("j", "down", "down", "down", "down", "down", "down", "down", "enter")
        await chat.shows("tour 8/10")
        await chat.pilot.press("2", "right", "enter")
        await chat.shows("✓ buffered")
        await chat.pilot.press("q")
        await chat.until(lambda: chat.app.screen is chat.main, "the chat")
        await chat.until(lambda: chat.session.state.switches.delivery == "streamed", "the switches as they were")
        assert isinstance(chat.engine.last(Configure), Configure)
        await chat.ask("count 4")
        assert chat.session.conversation.path()[-1].text.split() == ["1", "2", "3", "4"]


async def test_the_tour_does_not_begin_beside_a_reply_that_is_being_written() -> None:
    async with running((120, 40)) as chat:
        chat.engine.hold = True
        await chat.ask("count 30", wait=False)
        await chat.until(lambda: chat.session.generating)
        await chat.outside("g")
        await chat.shows("The tour measures")
        assert chat.app.screen is chat.main
        chat.engine.hold = False
