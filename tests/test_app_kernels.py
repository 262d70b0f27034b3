"""What the screen says while our kernels are being compiled, and when they take over or can't."""

from __future__ import annotations

import msgspec
import pytest
from cutaway.engine.protocol import CardChanged, Failed, Load, ModelCard, Ready
from cutaway.tui.screens.topbar import TopBar
from cutaway.tui.session import Session
from cutaway.tui.tour.app import TourApp, make_screen

from .screen_engine import InProcessEngine
from .screen_run import Running, running, shown
from .tour_run import TourRun

TELLS = "answering with torch's kernels"  # what one row of the narrowest chat holds


def card(run: Running, **changes: object) -> ModelCard:
    assert run.session.state.card is not None
    return msgspec.structs.replace(run.session.state.card, **{"kernel": "torch bfloat16", **changes})


def toasts(run: Running) -> list[str]:
    return [notification.message for notification in run.app._notifications]


@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
async def test_a_reader_sees_that_they_are_compiled_and_then_that_they_answer(size: tuple[int, int]) -> None:
    async with running(size) as run:
        run.engine.push(Ready(card(run, compiling=True)))
        await run.shows(TELLS)
        await run.shows("◌ compiling")
        await run.ask("count 3")
        assert run.session.conversation.path()[-1].text == "1 2 3 "
        await run.shows(TELLS)
        run.engine.push(CardChanged(card(run, compiling=False, kernel="our int8")))
        await run.until(lambda: TELLS not in run.text(), "its end")
        await run.until(lambda: "◌ compiling" not in run.text(), "its end in the first row")
        await run.until(lambda: any("our int8" in told for told in toasts(run)), "the news")
        assert [told for told in toasts(run) if "kernels" in told] == ["Our own kernels answer from now on: our int8."]


async def test_the_seconds_go_on_by_themselves() -> None:
    async with running((160, 48)) as run:
        state = run.session.state
        now = state.now_ns()
        state.now_ns = lambda: now
        run.engine.push(Ready(card(run, compiling=True)))
        await run.shows("compiling 0 s")
        state.now_ns = lambda: now + 12_000_000_000
        await run.shows("compiling 12 s")
        await run.shows("(12 s)")
        assert run.main.query_one(TopBar).depends_on()[-1] == 12


async def test_a_failure_is_said_once_and_why() -> None:
    async with running((160, 48)) as run:
        run.engine.push(Ready(card(run, compiling=True)))
        await run.shows(TELLS)
        run.engine.push(CardChanged(card(run, compiling=False)))
        run.engine.push(Failed("Our own kernels can't serve: no room.", "The next start tries again.", "kernels"))
        await run.until(lambda: TELLS not in run.text(), "its end")
        await run.until(lambda: any("no room" in told for told in toasts(run)), "the reason")
        assert not any("from now on" in told for told in toasts(run))
        await run.ask("count 2")
        assert run.session.conversation.path()[-1].text == "1 2 "


async def test_another_kind_of_card_says_nothing() -> None:
    async with running((160, 48)) as run:
        run.engine.push(CardChanged(card(run, kernel="something else")))
        await run.until(lambda: run.session.state.card is not None and "else" in run.session.state.card.kernel, "it")
        await run.settle()
        assert toasts(run) == []


async def test_the_tour_compares_nothing_before_they_have_taken_over() -> None:
    engine = InProcessEngine()
    engine.hold = True
    session = Session(engine, Load(model="compiling", pages=256))
    screen, _ = make_screen(session, None)
    async with shown(TourRun, TourApp(session, screen), (160, 48)) as run:
        await run.shows("compiling our kernels")
        assert screen._card is None
        engine.push(Failed("Our own kernels can't serve.", "", "kernels"))  # of which the tour makes nothing
        engine.hold = False
        await run.until(lambda: screen._card is not None, "the model")
        assert screen.stage.card.kernel == "the fast one"
        await run.until(lambda: "compiling our kernels" not in run.text(), "its end")
