"""How far the reader is: pure state, with no engine and no screen in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec

from .chapter import Chapter, Figure

OFFERED = "Why is the sky so blue?"  # six words
LONGEST_QUESTION = 400  # characters


class Outcome(msgspec.Struct, frozen=True):
    """What one run of one setting has shown."""

    figures: dict[str, Figure]
    reply: str = ""  # of the reader's own request
    model: str = ""
    question: str = ""


class Mark(msgspec.Struct):
    """What the reader did in one chapter."""

    pick: int | None = None  # counted from 0
    seen: set[str] = set()  # settings whose outcome has been shown, ever
    outcomes: dict[str, Outcome] = {}  # the newest of each, for this question and this model


class Kept(msgspec.Struct):
    """What is written to disk."""

    version: int = 1
    chapter: str = ""
    question: str = OFFERED
    model: str = ""
    marks: dict[str, Mark] = {}


@dataclasses.dataclass
class Tour:
    """Where the reader is and what has been seen.

    A chapter is done when both of its settings have been seen. What is compared was measured with the same question on
    the same model: another of either forgets the figures, and no more than those.
    """

    chapters: Sequence[Chapter]
    question: str = OFFERED
    model: str = ""
    at: int = 0
    marks: dict[str, Mark] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.chapters:
            raise ValueError("a tour has at least one chapter")

    @property
    def chapter(self) -> Chapter:
        return self.chapters[self.at]

    @property
    def mark(self) -> Mark:
        return self.mark_of(self.chapter.name)

    def mark_of(self, name: str) -> Mark:
        return self.marks.setdefault(name, Mark())

    def done(self, chapter: Chapter) -> bool:
        """Both outcomes have been exposed."""
        mark = self.marks.get(chapter.name)
        return mark is not None and {setting.key for setting in chapter.settings} <= mark.seen

    def complete(self) -> bool:
        return all(self.done(chapter) for chapter in self.chapters)

    # --------------------------------------------------------------------------------------------- moving

    def jump(self, at: int) -> bool:
        """Go to a chapter by its place; False: there is none."""
        if not 0 <= at < len(self.chapters):
            return False
        self.at = at
        return True

    def forward(self) -> bool:
        return self.jump(self.at + 1)

    def back(self) -> bool:
        return self.jump(self.at - 1)

    # ----------------------------------------------------------------------------------------- what was done

    def pick(self, number: int) -> bool:
        """Answer the chapter's question, or answer it differently; False: there is no such answer."""
        if not 0 <= number < len(self.chapter.picks):
            return False
        self.mark.pick = number
        return True

    def expose(self, name: str, setting: str, outcome: Outcome) -> None:
        """Take what a run has shown. One of another question or model than the tour's now is not compared."""
        mark = self.mark_of(name)
        mark.seen.add(setting)
        if (outcome.question, outcome.model) == (self.question, self.model):
            mark.outcomes[setting] = outcome

    def untried(self, chapter: Chapter) -> list[str]:
        """Settings without figures, in order."""
        mark = self.marks.get(chapter.name, Mark())
        return [setting.key for setting in chapter.settings if setting.key not in mark.outcomes]

    def both(self, chapter: Chapter) -> tuple[Outcome, Outcome] | None:
        """The two outcomes to compare; None: one is missing."""
        mark = self.marks.get(chapter.name, Mark())
        first, second = (mark.outcomes.get(setting.key) for setting in chapter.settings)
        return (first, second) if first is not None and second is not None else None

    def ask(self, question: str) -> bool:
        """Follow another question from here on; False: it is empty or the same."""
        question = " ".join(question.split())[:LONGEST_QUESTION]
        if not question or question == self.question:
            return False
        self.question = question
        self._forget_figures()
        return True

    def on(self, model: str) -> bool:
        """Say which model answers; True: it is another one, so the figures are gone."""
        if model == self.model:
            return False
        had = self.model
        self.model = model
        self._forget_figures()
        return bool(had)

    def _forget_figures(self) -> None:
        for mark in self.marks.values():
            mark.outcomes.clear()

    # -------------------------------------------------------------------------------------------- on disk

    def kept(self) -> Kept:
        """What to write down so that `resume` leads here again."""
        marks = {name: mark for name, mark in self.marks.items() if mark != Mark()}
        return Kept(1, self.chapter.name, self.question, self.model, marks)

    def resume(self, kept: Kept) -> None:
        """Go on where that was written, as far as the chapters are still the same."""
        self.question = kept.question or OFFERED
        self.model = kept.model
        self.marks = {}
        for at, chapter in enumerate(self.chapters):
            if chapter.name == kept.chapter:
                self.at = at
            if (mark := kept.marks.get(chapter.name)) is not None:
                self.marks[chapter.name] = _still_fitting(chapter, mark)


def _still_fitting(chapter: Chapter, mark: Mark) -> Mark:
    """Without what a chapter that has been rewritten no longer knows."""
    settings = {setting.key for setting in chapter.settings}
    rows = {row.key for row in chapter.rows}
    pick = mark.pick if mark.pick is not None and 0 <= mark.pick < len(chapter.picks) else None
    outcomes = {key: o for key, o in mark.outcomes.items() if key in settings and rows <= set(o.figures)}
    return Mark(pick, mark.seen & settings, outcomes)
