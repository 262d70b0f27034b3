"""The application: themes, palette, signals, and one session shown on one screen."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.driver import Driver
from textual.filter import LineFilter, Monochrome, NoColor
from textual.screen import Screen

from ..engine import places
from .chat.composer import Composer
from .chat.drafts import Drafts, History
from .chat.markdown import prepare
from .chat.visible import visible
from .keymap import Keymap, made
from .keynames import acts_everywhere
from .looks import DEFAULT, Colourless, load_themes, no_colour
from .printable import printable
from .screens.main import MainScreen
from .session import Session
from .settings.live import LiveSettings, at_defaults
from .sturdy import driver

if TYPE_CHECKING:
    from textual.command import Provider

SIGNALS = ("SIGTERM", "SIGHUP")


def _palette() -> type[Provider]:
    from .palette import Actions  # only where it is opened

    return Actions


class CutawayApp(App[None]):
    """Shows a session. `run_session` runs it with its engine."""

    TITLE = "cutaway"
    CSS_PATH = ["chat/view.tcss", "screens/main.tcss", "screens/dialogs.tcss"]
    ENABLE_COMMAND_PALETTE = True
    COMMANDS: ClassVar = {_palette}

    def __init__(
        self,
        session: Session,
        state_folder: Path | None = None,
        theme: str = "",
        settings: LiveSettings | None = None,
    ) -> None:
        self.colourless = no_colour()
        self.terminal: Driver | None = None
        super().__init__(driver_class=driver(self._take_terminal))
        self.session = session
        self.state_folder = state_folder
        self.animation_level = "none"
        self.settings = settings or at_defaults()
        self.our_themes: frozenset[str] = frozenset()
        self.theme_problems: list[str] = []
        self.load_themes()
        self.problems = [*self.settings.file.problems, *self.theme_problems]
        self.theme = DEFAULT
        if problem := self.choose_theme(theme or self.settings.value("theme")):
            self.problems.append(problem)
        self.set_class(self.colourless, "-no-colour")
        self.use_keys(made(self.settings.file.keys))
        self.main: MainScreen | None = None
        self._early: list[events.Event] | None = []  # keys from before the first frame
        self.link: asyncio.Task[None] | None = None

    def use_keys(self, keymap: Keymap) -> None:
        """Let the keys that quit, and the palette's, act on every screen, in the place of Textual's own."""
        keys = self._bindings.key_to_bindings
        for key in [key for key, bound in keys.items() if bound[0].action in ("quit", "command_palette")]:
            del keys[key]
        for action, does in (("quit", "quit"), ("palette", "command_palette")):
            for key in filter(acts_everywhere, keymap.keys(action)):
                keys[key] = [Binding(key, does, show=False, priority=True)]

    def load_themes(self) -> None:
        """Read the theme files, also those that came or changed since."""
        themes, self.theme_problems = load_themes(places.config() / "themes")
        for theme in themes.values():
            self.register_theme(theme)
        self.our_themes = frozenset(themes)

    def choose_theme(self, name: str) -> str:
        """Show the theme called so, with or without "cutaway-"; returns what is wrong, or nothing."""
        found = next((one for one in (name, f"cutaway-{name}") if one in self.our_themes), None)
        if found is None:
            return f"There is no theme {name!r}; there are {', '.join(sorted(self.our_themes))}."
        self.theme = found
        return ""

    def refresh_css(self, animate: bool = True) -> None:
        # A theme chosen before there is a screen needs its variables only: the rules are read once, with the screen.
        if self.screen_stack:
            super().refresh_css(animate)
        else:
            self.stylesheet.set_variables(self.get_css_variables())

    def get_default_screen(self) -> Screen[None]:
        folder = self.state_folder
        history = History(folder / "prompts.jsonl" if folder is not None else None)
        drafts = Drafts(folder) if folder is not None else None
        self.main = MainScreen(self.session, history, drafts, self.settings)
        return self.main

    def on_mount(self) -> None:
        # Begun here, so that what it calls runs as a part of this application.
        self.link = asyncio.create_task(self.session.link.run())
        self.app_resume_signal.subscribe(self, self._paint_all)
        for problem in self.problems:
            self.notify(printable(problem), severity="warning", markup=False, timeout=20)

    def _paint_all(self, _: object) -> None:
        """The shell has had the terminal: nothing of what was painted before is there."""
        for screen in self.screen_stack:
            screen.refresh(layout=True)

    def get_line_filters(self) -> list[LineFilter]:
        # Textual takes any NO_COLOR for set and leaves greys; an empty one is none, and greys are colours.
        filters = [f for f in super().get_line_filters() if not isinstance(f, Monochrome | NoColor)]
        return [*filters, Colourless()] if self.colourless else filters

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        keymap = screen.keymap if isinstance(screen, MainScreen) else None
        for action in getattr(screen, "PALETTE", ()):
            if action.palette:
                own = " or ".join(key for key in (action.keys, action.letters) if key)
                keys = keymap.all_shown(action.id) if keymap is not None else own
                yield SystemCommand(action.title, keys, partial(screen.run_action, action.name))
        if isinstance(screen, MainScreen):
            for name in self.settings.file.presets:
                yield SystemCommand(f"Preset {printable(name)}", "Switch to it", partial(screen.use_preset, name))
            for name in self.settings.file.templates:
                yield SystemCommand(f"Template {printable(name)}", "Fill it in", partial(screen.use_template, name))
        for name in sorted(self.our_themes):
            yield SystemCommand(f"Theme {printable(name)}", "Change the colours", partial(setattr, self, "theme", name))

    async def on_ready(self) -> None:
        early, self._early = self._early or [], None
        for event in early:
            await self.on_event(event)
        if self.main is not None:
            self.main.open_store()
        prepare()  # while a model loads: later it would take its time from the reply
        # What was imported stays: leave it out of every later collection.
        gc.freeze()
        # What a reply brings stays: looking through it early is for nothing, and later the screen sees to it.
        gc.set_threshold(50_000, 20, 20)
        gc.enable()

    async def on_event(self, event: events.Event) -> None:
        # What is typed before the first frame waits for it: there is nothing yet that would take it.
        if self._early is not None and isinstance(event, events.Key | events.Paste):
            self._early.append(event)
            return
        # The composer keeps what is pasted and shows it safely; every other field would draw it as it is.
        if isinstance(event, events.Paste) and not isinstance(self.focused, Composer):
            event.text = visible(event.text)
        await super().on_event(event)

    def write_to_terminal(self, sequence: str) -> None:
        """Send an escape sequence of ours to the terminal."""
        if self.terminal is not None:
            self.terminal.write(sequence)

    def _take_terminal(self, terminal: Driver) -> None:
        self.terminal = terminal

    def keep_draft(self) -> None:
        """Whatever happens next, what was being written will be there again."""
        if self.main is not None:
            self.main.keep_draft()

    async def action_quit(self) -> None:
        """Quit from any screen, with the draft kept."""
        self.keep_draft()
        self.exit()

    async def end_engine(self) -> None:
        """End the engine, and wait until it is gone."""
        if self.link is not None:
            self.link.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.link

    def end(self, number: int) -> None:
        """A signal asks us to end: put the terminal back and say so with the exit status."""
        self.keep_draft()
        self.exit(return_code=128 + number)


async def run_session(session: Session, state_folder: Path | None = None, settings: LiveSettings | None = None) -> int:
    """Show the session until the reader quits; returns the exit status. The engine is ended in any case."""
    return await run_app(CutawayApp(session, state_folder, settings=settings))


async def run_app(app: CutawayApp) -> int:
    """Run an application until it ends; returns the exit status. Its engine is ended in any case."""
    loop = asyncio.get_running_loop()
    for name in SIGNALS:
        number = getattr(signal, name, None)
        if number is not None:
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(number, app.end, int(number))
    try:
        await app.run_async()
    finally:
        await app.end_engine()
    return app.return_code or 0
