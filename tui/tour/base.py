"""What the parts of the tour's screen share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from textual.screen import Screen

from ..panels import Panel
from ..printable import printable
from .desk import Desk
from .keeping import ProgressFile
from .progress import Tour
from .scripts import Play
from .stage import Stage
from .view import View


class TourBase(Screen[None]):
    """The tour, its stage, and where the progress is kept."""

    def __init__(self, plays: Sequence[Play], tour: Tour, stage: Stage, file: ProgressFile) -> None:
        super().__init__()
        self.plays = list(plays)
        self.tour = tour
        self.stage = stage
        self.file = file

    @property
    def desk(self) -> Desk:
        return self.query_one(Desk)

    @property
    def play(self) -> Play:
        return self.plays[self.tour.at]

    @property
    def shown(self) -> View:
        """The run of the chapter and setting that are shown; one without events if there was none."""
        key = (self.tour.chapter.name, self.desk.chosen)
        view = self.stage.views.get(key)
        return view or View.fresh(*key, self.stage.session)

    def say(self, text: str, severity: Literal["information", "warning", "error"] = "information") -> None:
        """Tell the reader something in passing."""
        self.notify(printable(text), severity=severity, markup=False, timeout=6)

    def keep(self) -> None:
        """Write down where the reader is."""
        had = self.file.problem
        self.file.write(self.tour.kept())
        if self.file.problem and not had:
            self.say(self.file.problem, "warning")

    def tell(self, sentence: str = "") -> None:
        """Say something where the advice stands; nothing brings the advice back."""
        self.desk.told = printable(sentence).replace("\n", " ")
        self.desk.update()

    @property
    def pictures(self) -> Path | None:
        """Where the pictures of runs are kept."""
        return self.file.path.parent / "tour" if self.file.path is not None else None

    @property
    def panels(self) -> list[Panel]:
        """The chapter's panels, as they are on the screen."""
        return [child for child in self.query_one("#panels").children if isinstance(child, Panel)]

    async def show_panels(self) -> None:
        """Put the panels of the shown run on the screen, if they are not there."""
        raise NotImplementedError

    def chapter_changed(self) -> None:
        """Another chapter is shown, or the same one from its beginning."""
        raise NotImplementedError

    def view_changed(self) -> None:
        """Another run is shown."""
        raise NotImplementedError
