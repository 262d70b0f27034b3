"""A tiny app that shows one panel, for tests: what the panel draws is read back from the screen's strips."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

from cutaway.engine.protocol import Event, Step, TextDelta
from cutaway.tui.panels import ForkRequested, InspectRequested, Panel, SelectionChanged
from cutaway.tui.state import EngineState, Limits, Selection
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.strip import Strip

from .hand_events import MS

P = TypeVar("P", bound=Panel)


def told(events: Iterable[Event], limits: Limits | None = None) -> EngineState:
    """A state that has taken these events, each of them 1 ms after it happened."""
    state = EngineState(limits)
    at = 1_000 * MS
    for event in events:
        if isinstance(event, TextDelta):
            at = event.time_ns + MS
        elif isinstance(event, Step):
            at = event.started_ns + 11 * MS
        state.apply(event, at)
    return state


class Host(App[None], Generic[P]):
    """Shows one panel and collects what it posts."""

    def __init__(self, panel: P) -> None:
        super().__init__()
        self.panel = panel
        self.posted: list[ForkRequested | InspectRequested | SelectionChanged] = []

    def compose(self) -> ComposeResult:
        yield self.panel

    def on_fork_requested(self, message: ForkRequested) -> None:
        self.posted.append(message)

    def on_inspect_requested(self, message: InspectRequested) -> None:
        self.posted.append(message)

    def on_selection_changed(self, message: SelectionChanged) -> None:
        self.posted.append(message)

    def strips(self) -> list[Strip]:
        """The whole screen."""
        return list(self.screen._compositor.render_strips())

    def rows(self) -> list[str]:
        """The panel's content rows, trailing blanks cut."""
        region = self.panel.content_region
        return [strip.text[region.x : region.right].rstrip() for strip in self.strips()[region.y : region.bottom]]

    def borders(self) -> str:
        """The border's top and bottom rows."""
        strips = self.strips()
        return strips[0].text + strips[-1].text


@asynccontextmanager
async def hosted(
    kind: type[P], state: EngineState, selection: Selection | None = None, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[Host[P], Pilot[None]]]:
    """Run a panel in an app of this size, painted once and focused if it can be."""
    app = Host(kind(state, selection or Selection()))
    async with app.run_test(size=size) as pilot:
        if app.panel.can_focus:
            app.panel.focus()
        await pilot.pause()
        yield app, pilot
