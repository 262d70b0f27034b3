"""Runs the tour's screen in a test: on the recording, or on an engine of the test's, at any size."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from cutaway.tui.session import Session
from cutaway.tui.tour.app import TourApp, make_screen
from cutaway.tui.tour.recorded import recorded_session
from cutaway.tui.tour.screen import TourScreen

from .screen_run import Shown, shown


class TourRun(Shown):
    """The tour under test."""

    @property
    def screen(self) -> TourScreen:
        assert isinstance(self.app, TourApp)
        return self.app.tour_screen

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.settle()

    async def run(self, setting: str) -> None:
        """Run the chapter with the setting that is chosen, until its outcome is there."""
        before = self.screen.tour.mark.outcomes.get(setting)
        await self.press("enter")
        await self.until(
            lambda: self.screen.tour.mark.outcomes.get(setting) is not before and not self.screen.stage.running,
            f"the outcome of {setting}",
        )
        await self.settle()

    async def settle(self) -> None:
        """Let everything that is due be painted."""
        await self.until(lambda: self.screen._next is None or self.screen.stage.running, "the paint that is due")
        await self.pilot.pause()


@contextlib.asynccontextmanager
async def touring(
    size: tuple[int, int] = (80, 24),
    state_folder: Path | None = None,
    session: Session | None = None,
    speed: float | None = None,
    **how: object,
) -> AsyncIterator[TourRun]:
    """The tour, with a model behind it."""
    session = session or recorded_session(speed)
    screen, _ = make_screen(session, state_folder, **how)  # pyright: ignore[reportArgumentType]
    async with shown(TourRun, TourApp(session, screen), size) as run:
        await run.until(lambda: screen._card is not None, "a model")
        await run.settle()
        yield run
