"""The chapter's question, its control, what is compared, and what to do next."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message

from ..panels.line import Line, wrap
from ..panels.panel import Panel
from ..state import EngineState, Selection
from .advice import advice
from .comparison import comparison
from .progress import Tour


class Desk(Panel, can_focus=False):
    """Drawn from the tour. `chosen` is the setting that Enter runs; `told` stands instead of the advice."""

    TITLE = ""
    SCROLLS = False
    BINDINGS: ClassVar[list[BindingType]] = []
    DEFAULT_CSS = """
    Desk { border: none; height: auto; padding: 0 1; overflow: hidden; }
    """

    class Picked(Message):
        """An answer was clicked; counted from 0."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    class Chosen(Message):
        """A setting was clicked."""

        def __init__(self, setting: str) -> None:
            super().__init__()
            self.setting = setting

    def __init__(self, tour: Tour, id: str) -> None:
        super().__init__(EngineState(), Selection(), id=id)
        self.tour = tour
        self.chosen = tour.chapter.settings[0].key
        self.told = ""
        self.version = 0
        self._picks: dict[int, int] = {}  # row -> pick
        self._control = (0, 0, 0)  # row, and where the second setting begins and ends

    def update(self) -> None:
        """Draw what has changed."""
        self.version += 1
        self.refresh(layout=True)
        self.repaint()

    def depends_on(self) -> Hashable:
        return self.version

    def waiting(self) -> str:
        return ""

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.draw(width, viewport.height))

    def draw(self, width: int, height: int) -> list[Line]:
        rows = [Line(part, "strong") for part in wrap(f"? {self.tour.chapter.question}", width)]
        self._picks = {}
        rows += self._seen(width) if self.tour.both(self.tour.chapter) else self._answers(len(rows), width)
        rows.append(self._settings(len(rows), width))
        rows += comparison(self.tour.chapter, self.tour.mark, self.chosen, width)
        told = self.told or advice(self.tour, self.chosen)
        style = "bad strong" if told.startswith("✗") else "accent"
        return rows + [Line(part, style) for part in wrap(told if self.told else f"▸ {told}", width)[:2]]

    def _answers(self, row: int, width: int) -> list[Line]:
        rows: list[Line] = []
        for number, pick in enumerate(self.tour.chapter.picks):
            picked = self.tour.mark.pick == number
            for at, part in enumerate(wrap(pick, max(10, width - 6))):
                head = f"{number + 1} {'●' if picked else '○'} " if at == 0 else "    "
                self._picks[row + len(rows)] = number
                rows.append(Line(f"  {head}{part}", "accent strong" if picked else ""))
        return rows

    def _seen(self, width: int) -> list[Line]:
        """What was picked, and what both runs have shown: no verdict."""
        chapter, pick = self.tour.chapter, self.tour.mark.pick
        rows = [Line(f"  you picked {pick + 1}: {chapter.picks[pick]}", "accent")] if pick is not None else []
        return rows + [Line(part) for part in wrap(chapter.shown, width)]

    def _settings(self, row: int, width: int) -> Line:
        chapter = self.tour.chapter
        line = Line(f"{chapter.control}  ", "dim")
        starts: list[int] = []
        for setting in chapter.settings:
            chosen = setting.key == self.chosen
            starts.append(line.width)
            line.add(f" {setting.name} ", "cursor" if chosen else "").add("  ")
        self._control = (row, starts[1], line.width)
        says = chapter.setting(self.chosen).says
        if line.width + len(says) <= width:
            line.add(says, "dim")
        return line

    def clicked(self, x: int, y: int) -> None:
        if y in self._picks:
            self.post_message(self.Picked(self._picks[y]))
            return
        row, second, end = self._control
        if y == row and x < end:
            self.post_message(self.Chosen(self.tour.chapter.settings[x >= second].key))
