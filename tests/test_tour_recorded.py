"""The tour that is played where there is no model: every run is answered with what the real model did in it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from cutaway.engine.errors import TraceError
from cutaway.engine.protocol import Finished, Step
from cutaway.tui.tour import check
from cutaway.tui.tour.errors import StageError
from cutaway.tui.tour.progress import OFFERED, Tour
from cutaway.tui.tour.recorded import RecordedTour, recorded_session, trace_file
from cutaway.tui.tour.scripts import Play, load_chapters

from .cli_run import cutaway

PLAYS, _ = load_chapters()


async def test_all_chapters_play_from_the_recording_and_come_out_as_told() -> None:
    tour = Tour([play.chapter for play in PLAYS])
    async with check.staged(recorded_session(speed=None), OFFERED, recorded=True) as stage:
        checked = await check.walk(stage, PLAYS, tour, lambda text: None)
        assert stage.model == "SmolLM2-135M-Instruct (recorded)"
    assert len(checked) == 10
    assert check.verdicts(checked) == []
    assert tour.complete()


async def test_the_same_run_can_be_played_again_and_shows_the_same() -> None:
    play = next(play for play in PLAYS if play.chapter.name == "batch")
    async with check.staged(recorded_session(speed=None), OFFERED, recorded=True) as stage:
        first = await stage.perform(play, "static")
        other = await stage.perform(play, "continuous")
        assert await stage.perform(play, "static") == first
        assert other != first


async def test_a_run_that_is_stopped_in_the_middle_does_not_leak_into_the_next() -> None:
    play = next(play for play in PLAYS if play.chapter.name == "batch")
    async with check.staged(recorded_session(speed=50.0), OFFERED, recorded=True) as stage:
        running = asyncio.create_task(stage.perform(play, "static"))
        await stage.until(lambda: stage.view is not None and len(stage.view.steps) > 3)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await stage.perform(play, "continuous")
        assert stage.view is not None
        assert {lane.request.split("/")[2] for step in stage.view.steps for lane in step.lanes} == {"continuous"}


async def test_a_chapter_that_was_not_recorded_is_refused_in_words() -> None:
    async def run(stage, setting):
        await stage.ask("mine", "Hi.")
        return {}

    known = PLAYS[0].chapter
    play = Play(msgspec.structs.replace(known, name="unknown"), run)
    async with check.staged(recorded_session(speed=None), OFFERED, recorded=True) as stage:
        with pytest.raises(StageError, match="does not hold this chapter"):
            await stage.perform(play, "short")
        assert (await stage.perform(PLAYS[0], "short")).figures  # and the tour goes on


async def test_the_recording_plays_at_its_own_pace_when_told_to() -> None:
    engine = RecordedTour(trace_file(), speed=20.0)
    await engine.start()
    assert engine.question == OFFERED
    await engine.close()


async def test_a_file_that_holds_no_tour_is_told(tmp_path: Path) -> None:
    other = Path(__file__).parent / "traces" / "streamed.trace"
    with pytest.raises(TraceError, match="holds no tour"):
        await RecordedTour(other).start()


def test_the_recording_is_small_and_holds_both_settings_of_every_chapter() -> None:
    assert trace_file().stat().st_size < 1_000_000
    engine = RecordedTour(trace_file(), None)
    asyncio.run(engine.start())
    wanted = {f"{play.chapter.name}/{setting.key}" for play in PLAYS for setting in play.chapter.settings}
    assert set(engine._runs) == wanted
    for key, run in engine._runs.items():
        assert any(isinstance(entry.message, Step) and entry.message.lanes for entry in run.entries), key
        assert any(isinstance(entry.message, Finished) for entry in run.entries), key


def test_check_prints_every_comparison_as_a_table_and_ends_with_nought() -> None:
    done = cutaway("tour", "--check", "--recorded")
    out = done.stdout.decode()
    assert done.returncode == 0, done.stderr.decode()
    for number, play in enumerate(PLAYS, 1):
        assert f"{number:>2}  {play.chapter.title}" in out
        for row in play.chapter.rows:
            assert row.name in out
    assert "✗" not in out


def test_without_a_terminal_the_tour_says_what_it_needs() -> None:
    done = cutaway("tour", "--recorded")
    assert done.returncode == 2
    assert b"--check runs it without one" in done.stderr
