"""The tour on the real engine: every chapter, both settings, and each comparison's direction from the events."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cutaway.engine.client import EngineClient
from cutaway.engine.protocol import Load
from cutaway.tui.session import Session
from cutaway.tui.tour import check, figures
from cutaway.tui.tour.errors import StoppedError
from cutaway.tui.tour.progress import OFFERED, Tour
from cutaway.tui.tour.scripts import Play, load_chapters
from cutaway.tui.tour.stage import Stage

from . import tiny_folder

pytestmark = [pytest.mark.model, pytest.mark.timeout(300)]

PLAYS, _ = load_chapters()


@pytest.fixture(autouse=True)
def a_busy_machine_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are compared until they come out undisturbed; what is counted has one try."""
    monkeypatch.setattr(check, "TRIES", 12)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with check.staged(Session(EngineClient(), Load(pages=256)), OFFERED) as made:
        yield made


def play(name: str) -> Play:
    return next(play for play in PLAYS if play.chapter.name == name)


async def test_all_ten_chapters_run_with_both_settings_and_every_comparison_comes_out_as_told(stage: Stage) -> None:
    tour = Tour([play.chapter for play in PLAYS])
    checked = await check.walk(stage, PLAYS, tour, lambda text: None)
    assert [one.skipped for one in checked] == [""] * 10
    assert check.verdicts(checked) == []
    assert tour.complete()
    said = {one.play.chapter.name: one for one in checked}
    # What does not hang on how fast the machine is, said once more in plain figures.
    batch = said["batch"]
    assert batch.first is not None
    assert batch.second is not None
    assert (batch.first.figures["reused"], batch.second.figures["reused"]) == (0, 1)
    assert batch.second.figures["iterations"] == 32
    assert batch.first.figures["iterations"] == 44
    whole, chunked = stage.views["prefill", "whole"], stage.views["prefill", "chunked"]
    assert figures.computed(whole, "mine") == figures.computed(chunked, "mine")
    assert whole.reply() == chunked.reply()
    cold, reused = stage.views["prefix", "cold"], stage.views["prefix", "reused"]
    spared = reused.sample("mine").cached
    assert spared % 16 == 0
    assert spared > 100
    assert figures.computed(cold, "mine") - figures.computed(reused, "mine") == spared
    assert figures.shared_pages(cold) == 0
    assert figures.shared_pages(reused) == spared // 16
    for setting in ("reuse", "recompute"):
        view = stage.views["memory", setting]
        needed = figures.computed_by_token(view, "mine")
        assert needed[0] == len(view.request("mine").prompt)
        assert needed[1:] == ([1] * 31 if setting == "reuse" else [needed[0] + n for n in range(1, 32)])
    assert stage.views["memory", "reuse"].reply() == stage.views["memory", "recompute"].reply()
    buffered = stage.views["delivery", "buffered"]
    assert len(buffered.texts) == 1
    assert len(stage.views["delivery", "streamed"].texts) > 3


async def test_a_model_other_than_the_default_is_led_through_all_ten_chapters_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "TRIES", 1)
    # With room to write on, so that the neighbour of the chapter on prefixes is still there when it is needed.
    folder = tiny_folder.make(tmp_path / "tiny", max_position_embeddings=2048)
    session = Session(EngineClient(), Load(model=str(folder), precision="float32", pages=256))
    tour = Tour([play.chapter for play in PLAYS])
    async with check.staged(session, OFFERED) as stage:
        checked = await check.walk(stage, PLAYS, tour, lambda text: None)
    assert tour.complete()
    # So small a model takes no time that could be compared.
    assert [row.name for one in checked for row in one.broken if row.unit not in ("duration", "rate")] == []


async def test_the_engine_is_given_back_as_it_was_found() -> None:
    session = Session(EngineClient(), Load(pages=256, max_lanes=4, token_budget=64))
    async with check.staged(session, OFFERED) as stage:
        before = session.state.switches
        await stage.perform(play("batch"), "static")
        assert session.state.switches != before
        stage.detach()
        stage.attach()
        await stage.until(lambda: session.state.switches == before)


async def test_an_engine_that_is_killed_in_a_run_is_told_and_the_run_can_be_had_again(stage: Stage) -> None:
    session = stage.session
    link = session.link
    assert isinstance(link.engine, EngineClient)
    killed = False

    def kill() -> None:
        nonlocal killed
        if stage.running and stage.view is not None and len(stage.view.steps) > 3 and not killed:
            killed = True
            pid = link.engine.pid  # pyright: ignore[reportAttributeAccessIssue]
            assert pid is not None
            os.kill(pid, signal.SIGKILL)

    stage.changed = kill
    with pytest.raises(StoppedError):
        await stage.perform(play("memory"), "recompute")
    session.trouble = None
    link.restart()
    await stage.until(lambda: not link.ready)
    await stage.ready()
    outcome = await stage.perform(play("memory"), "reuse")
    assert outcome.figures["last"] == 1
