"""Every number gathered on the way, in six lines. No Textual."""

from __future__ import annotations

from typing import get_args

from .chapter import Chapter, Row, SummaryLine
from .comparison import NONE, shown_figure
from .progress import Outcome, Tour

LINES: tuple[str, ...] = tuple(line for line in get_args(SummaryLine) if line)


def summary(tour: Tour) -> list[tuple[str, str]]:
    """(stage, its figures) for the six stages of a request's life, chapter by chapter, "first → second"."""
    return [
        (line, "; ".join(_of(tour, chapter) for chapter in tour.chapters if chapter.line == line) or NONE)
        for line in LINES
    ]


def brief(tour: Tour) -> list[tuple[str, str]]:
    """As `summary`, with the headline of each chapter only."""
    return [
        (line, ", ".join(_headline(tour, chapter) for chapter in tour.chapters if chapter.line == line) or NONE)
        for line in LINES
    ]


def _of(tour: Tour, chapter: Chapter) -> str:
    both = tour.both(chapter)
    if both is None:
        return f"{chapter.title} {NONE}"
    return ", ".join(_figure(row, *both) for row in chapter.rows if row.unit != "text")


def _headline(tour: Tour, chapter: Chapter) -> str:
    row = next((row for row in chapter.rows if row.key == chapter.headline), chapter.rows[0])
    both = tour.both(chapter)
    return f"{row.name} {NONE}" if both is None else _figure(row, *both)


def _figure(row: Row, *outcomes: Outcome) -> str:
    first, second = (shown_figure(row, outcome.figures[row.key]) for outcome in outcomes)
    return f"{row.name} {first}" if first == second else f"{row.name} {first} → {second}"
