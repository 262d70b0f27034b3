"""Runs the application in a test: on the in-process engine, at any size, until it is what the test waits for."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

from cutaway.engine.client import Engine
from cutaway.engine.protocol import Load, SamplingSettings
from cutaway.tui.app import CutawayApp
from cutaway.tui.screens.main import MainScreen
from cutaway.tui.session import Session
from cutaway.tui.settings.live import LiveSettings
from textual.pilot import Pilot

from .patience import PATIENCE
from .screen_engine import InProcessEngine


class Shown:
    """An application under test: what is on its screen, and waiting for that to become what the test wants."""

    def __init__(self, app: CutawayApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot
        self.session = app.session
        self.patience = PATIENCE

    def frame(self) -> list[str]:
        """The screen as lines of text."""
        width, height = self.app.size
        return [
            "".join(segment.text for segment in strip).ljust(width)
            for strip in self.app.screen._compositor.render_strips()[:height]
        ]

    def text(self) -> str:
        return "\n".join(self.frame())

    async def until(self, condition: Callable[[], object], why: str = "") -> None:
        """Let the application run until the condition holds; fails after a while."""
        end = time.monotonic() + self.patience
        while time.monotonic() < end:
            await asyncio.sleep(0.005)
            if condition():
                return
        raise AssertionError(f"waited in vain for {why or condition}; the screen shows:\n{self.text()}")

    async def shows(self, words: str) -> None:
        await self.until(lambda: words in self.text(), f"{words!r} on the screen")


class Running(Shown):
    """The chat under test and what a test does with it."""

    @property
    def engine(self) -> InProcessEngine:
        """For tests that run on one."""
        engine = self.session.link.engine
        assert isinstance(engine, InProcessEngine)
        return engine

    @property
    def main(self) -> MainScreen:
        assert self.app.main is not None
        return self.app.main

    async def type(self, text: str) -> None:
        """Put text into the composer as typing does."""
        names = {" ": "space", "\n": "ctrl+j", "\\": "backslash"}
        await self.pilot.press(*(names.get(character, character) for character in text))

    async def ask(self, text: str, wait: bool = True) -> None:
        """Send a message; wait for the reply's end."""
        self.main.composer.focus()
        self.main.composer.put(text)
        await self.pilot.press("enter")
        if wait:
            await self.until(lambda: not self.session.generating and self.main.composer.text == "", "the reply's end")
            await self.settle()

    async def outside(self, *keys: str) -> None:
        """Press keys with the chat focused, where single letters act."""
        self.main.view.focus()
        await self.pilot.press(*keys)

    async def settle(self) -> None:
        """Let everything that is due be painted."""
        await self.until(lambda: not self.main.due, "the paint that is due")


R = TypeVar("R", bound=Shown)


@contextlib.asynccontextmanager
async def shown(
    kind: type[R], app: CutawayApp, size: tuple[int, int] = (80, 24), patience: float = PATIENCE
) -> AsyncIterator[R]:
    """The application as it comes up; its engine is ended after."""
    async with app.run_test(size=size, notifications=True) as pilot:
        run = kind(app, pilot)
        run.patience = patience
        try:
            yield run
        finally:
            await app.end_engine()


@contextlib.asynccontextmanager
async def loaded(
    app: CutawayApp, size: tuple[int, int] = (80, 24), patience: float = PATIENCE
) -> AsyncIterator[Running]:
    """The application with its model loaded and everything painted."""
    async with shown(Running, app, size, patience) as run:
        await run.until(lambda: app.session.state.card is not None, "the model")
        await run.settle()
        yield run


@contextlib.asynccontextmanager
async def running(
    size: tuple[int, int] = (80, 24),
    load: Load | None = None,
    settings: SamplingSettings | None = None,
    state_folder: Path | None = None,
    engine: Engine | None = None,
    patience: float = PATIENCE,
    live: LiveSettings | None = None,
) -> AsyncIterator[Running]:
    """The application with a loaded model: the scripted one in this process, unless another engine is given."""
    session = Session(engine or InProcessEngine(), load or Load(model="scripted", pages=2048), settings)
    async with loaded(CutawayApp(session, state_folder, settings=live), size, patience) as run:
        yield run
