"""What is compared, as rows of text. No Textual."""

from __future__ import annotations

from ..panels.line import Line, safe
from ..panels.units import count, duration, percent, rate
from .chapter import Chapter, Figure, Row
from .progress import Mark

NONE = "—"


def shown_figure(row: Row, figure: Figure) -> str:
    """A figure with its unit, as people read it."""
    if isinstance(figure, str):
        return safe(figure)
    match row.unit:
        case "duration":
            return duration(figure)
        case "share":
            return percent(figure)
        case "rate":
            return f"{rate(figure)} tok/s"
        case "number":
            return f"{figure:.2f}"
        case _:
            return count(figure)


def comparison(chapter: Chapter, mark: Mark, chosen: str, width: int) -> list[Line]:
    """A head with the two settings, and a row for each figure; what was not tried yet is a dash."""
    names = max(len(row.name) for row in chapter.rows)
    column = max(8, min(26, (width - min(names, 32) - 2) // 2))
    first = max(8, width - 2 * column - 2)
    head = Line().fit("compared", first, "dim")
    for setting in chapter.settings:
        tried = "✓" if setting.key in mark.outcomes else "○"
        style = "strong" if setting.key == chosen else "dim"
        name = f"{tried} {setting.name}"
        head.add(" ").fit(name if len(name) <= column else setting.name, column, style, right=True)
    lines = [head]
    for row in chapter.rows:
        line = Line().fit(row.name, first)
        for setting in chapter.settings:
            outcome = mark.outcomes.get(setting.key)
            text = NONE if outcome is None else shown_figure(row, outcome.figures.get(row.key, NONE))
            line.add(" ").fit(text, column, "dim" if outcome is None else "strong", right=True)
        lines.append(line)
    return lines
