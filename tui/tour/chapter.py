"""A chapter: what it says, what it asks, what it compares. Data only; `scripts.py` finds the code beside it."""

from __future__ import annotations

import operator
import tomllib
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from .errors import ChapterError

if TYPE_CHECKING:
    from .stage import Stage

Figure: TypeAlias = float | str
Figures: TypeAlias = Mapping[str, Figure]
Script: TypeAlias = Callable[["Stage", str], Awaitable[Figures]]
Unit: TypeAlias = Literal["count", "duration", "share", "rate", "number", "text"]
Relation: TypeAlias = Literal["", "<", ">", "=", "!="]
SummaryLine: TypeAlias = Literal["prompt", "lanes", "prefill", "memory", "next token", "delivery", ""]

PANELS = ("timeline", "tokens", "lanes", "triangle", "pages", "candidates", "cards", "summary")
_RELATIONS: dict[str, Callable[[Figure, Figure], bool]] = {
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
    "!=": operator.ne,
}


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One compared figure. Durations are in nanoseconds, shares from 0 to 1, rates a second."""

    key: str
    name: str
    unit: Unit = "count"
    holds: Relation = ""  # of the first setting's figure to the second's; empty: either way is fine

    def fulfilled(self, first: Figure, second: Figure) -> bool:
        """Whether the two figures stand to each other as the chapter says they do."""
        if not self.holds:
            return True
        if isinstance(first, str) != isinstance(second, str):
            return False
        return _RELATIONS[self.holds](first, second)


class Setting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of a control's two settings. `says` tells what it does, in a few words."""

    key: str
    name: str
    says: str


class Chapter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `NAME.toml` holds; `name` is the file's own."""

    number: int  # the order of chapters
    title: str
    text: str
    question: str
    picks: list[str]
    shown: str  # what both runs have shown, for when they have
    control: str
    settings: tuple[Setting, Setting]
    panels: list[str]
    rows: list[Row]
    sources: list[str] = []
    needs: list[str] = []  # capabilities of the model card without which it can't run
    line: SummaryLine = ""  # of the summary at the end
    headline: str = ""  # key of the figure that stands for the chapter in the short summary; empty: the first
    words: dict[str, str] = {}  # that appear here first, on the panels too, and what they mean
    name: str = ""

    def setting(self, key: str) -> Setting:
        return next(setting for setting in self.settings if setting.key == key)

    def broken(self, first: Figures, second: Figures) -> list[Row]:
        """The rows whose direction does not hold."""
        return [row for row in self.rows if not row.fulfilled(first[row.key], second[row.key])]


def read_chapter(name: str, text: str, where: str = "") -> Chapter:
    """Make a chapter from TOML `text`; `where` is the file to name in errors. Raises `ChapterError`."""
    where = where or f"{name}.toml"
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ChapterError(f"The chapter {where} is not TOML: {error}.") from None
    try:
        chapter = msgspec.convert({**values, "name": name}, Chapter)
    except msgspec.ValidationError as error:
        raise ChapterError(f"The chapter {where} is not complete: {error}.") from None
    keys = [row.key for row in chapter.rows]
    problems = {
        "picks must be from 2 to 4 sentences": not 2 <= len(chapter.picks) <= 4,
        "rows must be from 1 to 7": not 1 <= len(keys) <= 7,
        "two rows have the same key": len(set(keys)) < len(keys),
        "both settings have the same key": chapter.settings[0].key == chapter.settings[1].key,
        f"headline {chapter.headline!r} is no row's key": bool(chapter.headline) and chapter.headline not in keys,
        f"panels must be one to three of {', '.join(PANELS)}": not 1 <= len(chapter.panels) <= 3
        or not set(chapter.panels) <= set(PANELS),
    }
    for problem, found in problems.items():
        if found:
            raise ChapterError(f"The chapter {where} can't be used: {problem}.")
    return chapter
