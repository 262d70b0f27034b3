"""Runs the tour's screen in a test: on the recording, or on an engine of the test's, at any size."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from cutaway.tui.session import Session
from cutaway.tui.tour.app import TourApp, make_screen
from cutaway.tui.tour.recorded import recorded_session
from cutaway.tui.tour.screen import TourScreen
from textual.pilot import Pilot

PATIENCE = 20.0  # seconds until a test that waits in vain fails


class TourRun:
    """The tour under test."""

    def __init__(self, app: TourApp, pilot: Pilot[None], screen: TourScreen) -> None:
        self.app = app
        self.pilot = pilot
        self.screen = screen

    def text(self) -> str:
        """What is on the terminal."""
        return "\n".join(strip.text for strip in self.app.screen._compositor.render_strips())

    async def until(self, condition: Callable[[], object], why: str = "") -> None:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            await asyncio.sleep(0.005)
            if condition():
                return
        raise AssertionError(f"waited in vain for {why or condition}; the screen shows:\n{self.text()}")

    async def shows(self, words: str) -> None:
        await self.until(lambda: words in self.text(), f"{words!r} on the screen")

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def run(self, setting: str) -> None:
        """Run the chapter with the setting that is chosen, until its outcome is there."""
        before = self.screen.tour.mark.outcomes.get(setting)
        await self.press("enter")
        await self.until(
            lambda: self.screen.tour.mark.outcomes.get(setting) is not before and not self.screen.stage.running,
            f"the outcome of {setting}",
        )
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
    app = TourApp(session, screen)
    async with app.run_test(size=size, notifications=True) as pilot:
        run = TourRun(app, pilot, screen)
        try:
            await run.until(lambda: screen._card is not None, "a model")
            await pilot.pause()
            yield run
        finally:
            await app.end_engine()
