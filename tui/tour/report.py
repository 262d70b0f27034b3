"""The tour as Markdown: the six lines, every comparison, and a picture of every run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..printable import printable
from .chapter import Chapter
from .comparison import NONE, shown_figure
from .progress import Tour
from .summary import summary


def report(tour: Tour, date: str, pictures: Mapping[str, str]) -> str:
    """Markdown. `pictures` are "chapter-setting" and the path to link to."""
    lines = ["# One request, from prompt to streamed tokens", ""]
    lines += [f"- Question: {_text(tour.question)}", f"- Model: {_text(tour.model) or NONE}", f"- Date: {date}", ""]
    lines += [f"**{stage}**: {_text(figures)}  " for stage, figures in summary(tour)]
    for number, chapter in enumerate(tour.chapters, 1):
        lines += ["", f"## {number}. {chapter.title}", "", *_chapter(tour, chapter, pictures)]
    return "\n".join(lines) + "\n"


def write_report(tour: Tour, path: Path, date: str, pictures: Path | None) -> int:
    """Write the report, and the pictures kept in a folder into one beside it; returns how many pictures there are.

    Raises `OSError`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix("")
    links: dict[str, str] = {}
    for chapter in tour.chapters:
        for setting in tour.mark_of(chapter.name).outcomes:
            name = f"{chapter.name}-{setting}"
            source = pictures / f"{name}.svg" if pictures is not None else None
            if source is not None and source.is_file():
                beside.mkdir(exist_ok=True)
                (beside / source.name).write_bytes(source.read_bytes())
                links[name] = f"{beside.name}/{source.name}"
    path.write_text(report(tour, date, links), encoding="utf-8")
    return len(links)


def _chapter(tour: Tour, chapter: Chapter, pictures: Mapping[str, str]) -> list[str]:
    mark = tour.mark_of(chapter.name)
    first, second = chapter.settings
    lines = [f"*{chapter.question}*", ""]
    if mark.pick is not None:
        lines += [f"I picked: {chapter.picks[mark.pick]}", ""]
    lines += [f"| {chapter.control} | {first.name} | {second.name} |", "|---|---:|---:|"]
    for row in chapter.rows:
        outcomes = [mark.outcomes.get(setting.key) for setting in chapter.settings]
        cells = [NONE if o is None else _text(shown_figure(row, o.figures[row.key])) for o in outcomes]
        lines.append(f"| {row.name} | {cells[0]} | {cells[1]} |")
    if tour.both(chapter) is not None:
        lines += ["", chapter.shown]
    for setting in chapter.settings:
        if (link := pictures.get(f"{chapter.name}-{setting.key}")) is not None:
            lines += ["", f"![{chapter.title}: {setting.name}]({link})"]
    if chapter.sources:
        lines += ["", f"Sources: {'; '.join(chapter.sources)}."]
    return lines


def _text(text: str) -> str:
    """Text that is no Markdown and no HTML, on one line."""
    line = " ".join(printable(text).split())
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#" else c for c in line)
