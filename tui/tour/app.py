"""`cutaway tour` as an application of its own, and the tour opened from the chat."""

from __future__ import annotations

from pathlib import Path

from textual.screen import Screen

from ...engine import places
from ..app import CutawayApp, run_app
from ..commands.flags import EngineFlags
from ..playback import Playback
from ..printable import printable
from ..screens.base import MainBase
from ..session import Session
from .keeping import ProgressFile
from .progress import Tour
from .recorded import RecordedTour, recorded_session
from .screen import TourScreen
from .scripts import load_chapters
from .stage import Stage


class TourApp(CutawayApp):
    """The application with the tour as its only screen."""

    TITLE = "cutaway tour"
    CSS_PATH = ["../chat/view.tcss", "../screens/main.tcss", "../screens/dialogs.tcss", "screen.tcss"]

    def __init__(self, session: Session, tour_screen: TourScreen, theme: str = "") -> None:
        super().__init__(session, None, theme)
        self.tour_screen = tour_screen

    def get_default_screen(self) -> Screen[None]:
        return self.tour_screen


def make_screen(
    session: Session,
    state_folder: Path | None,
    config_folder: Path | None = None,
    question: str = "",
    chapter: int | None = None,
    restart: bool = False,
) -> tuple[TourScreen, list[str]]:
    """The tour where the reader left it, and sentences about chapters that can't be used."""
    plays, problems = load_chapters(config_folder / "tour" if config_folder is not None else None)
    tour = Tour([play.chapter for play in plays])
    file = ProgressFile(state_folder)
    if not restart and (kept := file.read()) is not None:
        tour.resume(kept)
    if question:
        tour.ask(question)
    if chapter is not None and not tour.jump(chapter - 1):
        problems.append(f"There is no chapter {chapter}; there are {len(plays)}.")
    recorded = isinstance(session.link.engine, RecordedTour)
    stage = Stage(session, tour.question, "frame" if recorded else "screen", recorded)
    return TourScreen(plays, tour, stage, file), problems


async def show(
    flags: EngineFlags, question: str, chapter: int | None, restart: bool, recorded: bool, theme: str
) -> int:
    """Show the tour until the reader leaves it; returns the exit status."""
    session = recorded_session() if recorded else Session(flags.engine(), flags.load)
    screen, problems = make_screen(session, places.state(), places.config(), question, chapter, restart)
    app = TourApp(session, screen, theme)
    app.problems += problems
    return await run_app(app)


def open_tour(main: MainBase) -> None:
    """Show the tour over the chat, on the chat's engine; it is given back as it was."""
    session = main.session
    if isinstance(session, Playback):
        main.say("This is a recording of a chat. `cutaway tour --recorded` plays a recorded tour.", "warning")
        return
    if session.generating or session.traffic:
        main.say("The tour measures: stop the reply (Esc) or the traffic (T) first.", "warning")
        return
    main.wake_engine()
    screen, problems = make_screen(session, places.state(), places.config())
    for problem in problems:
        main.say(printable(problem), "warning")
    main.app.push_screen(screen, lambda _: main.path_changed())
