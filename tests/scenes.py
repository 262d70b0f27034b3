"""What is looked at: a trace played up to somewhere, on a screen of some size and look, with something in front.

Snapshot tests compare these scenes with what was accepted; `make screenshots` makes the README's pictures of them.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path

from cutaway.tui.app import CutawayApp
from cutaway.tui.panels import Panel
from cutaway.tui.playback import Playback
from cutaway.tui.screens.main import MainScreen
from textual.pilot import Pilot
from textual.widgets import TextArea

from .patience import PATIENCE

TRACES = Path(__file__).parent / "traces"
AT_REST = 4  # equal frames after which nothing moves any more

SMALL, MIDDLE, LARGE = (80, 24), (120, 40), (160, 48)


@dataclasses.dataclass(frozen=True)
class Scene:
    """`upto`: steps to play, all if None. `keys` are pressed at the end; `choose` then changes the selection."""

    trace: str
    size: tuple[int, int] = LARGE
    theme: str = "dark"
    upto: int | None = None
    keys: tuple[str, ...] = ()
    choose: Callable[[Playback], None] = lambda session: None

    def app(self) -> CutawayApp:
        session = Playback(TRACES / f"{self.trace}.trace", speed=None, upto=self.upto)
        return CutawayApp(session, theme=self.theme)

    async def play(self, pilot: Pilot[None]) -> None:
        """Play the trace and bring the screen to rest: what it shows then depends on nothing else."""
        app = pilot.app
        assert isinstance(app, CutawayApp)
        assert isinstance(app.session, Playback)
        assert app.main is not None
        await _until(pilot, lambda: app.session.over)
        for area in app.main.query(TextArea):
            area.cursor_blink = False
            area.notify_style_update()  # it keeps lines that it drew while the cursor was out
        await pilot.press(*self.keys)
        self.choose(app.session)
        app.main.selection_moved()
        await settle(pilot, app.main)


async def settle(pilot: Pilot[None], main: MainScreen) -> None:
    """Wait for the paint that is due, then have everything drawn as it stands."""
    await _until(pilot, lambda: not main.due)
    frames: list[str] = []
    async with asyncio.timeout(PATIENCE):
        # What scrolls goes to its place after the first repaint, and what that moves after the next.
        while len(frames) < AT_REST or len(set(frames[-AT_REST:])) > 1:
            for panel in main.query(Panel):
                panel.repaint()
            await pilot.pause()
            frames.append("\n".join(strip.text for strip in main._compositor.render_strips()))


async def _until(pilot: Pilot[None], condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await pilot.pause()
            await asyncio.sleep(0.01)


def maximised(panel: str) -> tuple[str, ...]:
    """The keys that give a panel the whole screen."""
    number = ("tokens", "lanes", "triangle", "pages", "candidates", "timeline").index(panel)
    return (f"f{number + 2}", "f12")


def token(request: str, position: int) -> Callable[[Playback], None]:
    """Select the token at a position of a request."""
    return lambda session: session.selection.select_token(request, 0, position)
