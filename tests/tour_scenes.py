"""What is looked at: a chapter of the recorded tour after both of its runs, on a screen of some size.

Snapshot tests compare these scenes with what was accepted; `make screenshots` makes the README's picture of one.
"""

from __future__ import annotations

import asyncio
import dataclasses

from cutaway.tui.panels import Panel
from cutaway.tui.tour.app import TourApp, make_screen
from cutaway.tui.tour.recorded import recorded_session
from cutaway.tui.tour.screen import TourScreen
from textual.pilot import Pilot

from .patience import PATIENCE
from .scenes import AT_REST, _until


@dataclasses.dataclass(frozen=True)
class TourScene:
    """Chapter `number` (from 1). `answer` is pressed, then both settings run; `keys` are pressed at the end."""

    number: int
    size: tuple[int, int]
    theme: str = "dark"
    answer: str = "2"
    runs: int = 2
    keys: tuple[str, ...] = ()

    def app(self) -> TourApp:
        session = recorded_session(speed=None)
        screen, _ = make_screen(session, None, chapter=self.number)
        return TourApp(session, screen, self.theme)

    async def play(self, pilot: Pilot[None]) -> None:
        """Do the chapter and bring the screen to rest: what it shows then depends on nothing else."""
        assert isinstance(pilot.app, TourApp)
        screen = pilot.app.tour_screen
        await _until(pilot, lambda: screen._card is not None)
        await pilot.press(self.answer)
        for key in ("left", "right")[: self.runs]:
            await pilot.press(key)
            many = len(screen.tour.mark.outcomes)
            await pilot.press("enter")
            await _until(pilot, lambda many=many: len(screen.tour.mark.outcomes) > many and not screen.stage.running)
        await pilot.press(*self.keys)
        await settle(pilot, screen)


async def settle(pilot: Pilot[None], screen: TourScreen) -> None:
    """Wait for what is due, then have everything drawn as it stands."""
    await _until(pilot, lambda: screen._next is None)
    await screen.show_panels()
    frames: list[str] = []
    async with asyncio.timeout(PATIENCE):
        while len(frames) < AT_REST or len(set(frames[-AT_REST:])) > 1:
            for panel in screen.query(Panel):
                panel.state.pool.flashes.clear()
                panel.repaint()
            await pilot.pause()
            frames.append("\n".join(strip.text for strip in screen._compositor.render_strips()))
