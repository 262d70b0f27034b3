"""A finding: something that was looked at, how it is, and the one thing to do where it is wrong."""

from __future__ import annotations

import dataclasses
import getpass
import platform
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from ...engine import places

State = Literal["ok", "note", "wrong"]
_MARKS: dict[State, str] = {"ok": "✓", "note": "!", "wrong": "✗"}
_COMMON = {"root", "user", "localhost", "home", "admin", "cutaway", "linux", "darwin"}  # names that tell nobody's


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. `action` is one sentence: what to do about it."""

    group: str
    name: str
    value: str
    state: State = "ok"
    action: str = ""


def private_names() -> tuple[str, ...]:
    """What must not be told: the user's name and the host's, where they are somebody's."""
    names: list[str] = []
    for ask in (getpass.getuser, platform.node):
        try:
            names.append(ask())
        except (OSError, KeyError, ImportError):
            continue
    return tuple(dict.fromkeys(n for n in names if len(n) > 2 and n.lower() not in _COMMON))


def concealed(text: str, home: Path, names: Iterable[str]) -> str:
    """`text` with the home folder as ~ and these names left out."""
    shown = re.sub(rf"{re.escape(str(home))}(?=[/\\\s'\":;,.)]|$)", "~", text) if len(home.parts) > 1 else text
    for name in names:
        shown = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "…", shown)
    return shown


def conceal(findings: Iterable[Finding]) -> list[Finding]:
    """The findings with nothing private in them."""
    home, names = places.named("~"), private_names()
    return [
        dataclasses.replace(f, value=concealed(f.value, home, names), action=concealed(f.action, home, names))
        for f in findings
    ]


def lines(findings: Iterable[Finding], columns: int = 0, width: int = 13) -> list[str]:
    """The report as text: groups, a mark a line, and what to do below what is wrong.

    Wrapped to `columns`; 0: not at all. `width` is that of the names.
    """
    told: list[str] = []
    group = ""
    for found in findings:
        if found.group != group:
            group = found.group
            told += ["", group] if told else [group]
        told += [
            line.rstrip() for line in _wrapped(f"  {_MARKS[found.state]} {found.name:<{width}} ", found.value, columns)
        ]
        if found.action:
            told += _wrapped(f"    {'':<{width}} → ", found.action, columns)
    return told


def _wrapped(head: str, text: str, columns: int) -> list[str]:
    room = columns - len(head)
    if room < 20:
        return [head + text]
    parts = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
    return [head + parts[0], *(" " * len(head) + part for part in parts[1:])]
