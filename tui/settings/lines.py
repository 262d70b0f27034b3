"""Where in a TOML file a key stands. tomllib tells values only, and a problem is found faster with its line."""

from __future__ import annotations

import re
import tomllib

_HEADER = re.compile(r"\s*\[\[?([^#]*?)\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_QUOTES = ('"""', "'''")


def line_numbers(text: str) -> dict[tuple[str, ...], int]:
    """The line, from 1, of every table and key, by its path. Keys inside arrays and inline tables are not told."""
    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    inside = ""  # the quotes of the string of several lines that goes on
    for number, line in enumerate(text.split("\n"), 1):
        if inside:
            inside = "" if inside in line else inside
            continue
        if header := _HEADER.match(line):
            table = _path(f"[{header[1]}]")
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            path = table + _path(f"{key[1]} = 0")
            for depth in range(len(table) + 1, len(path) + 1):
                found.setdefault(path[:depth], number)
            inside = next((quotes for quotes in _QUOTES if line.count(quotes) % 2), "")
    return found


def _path(line: str) -> tuple[str, ...]:
    try:
        value = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return ()
    names: list[str] = []
    while isinstance(value, dict) and value:
        name, value = next(iter(value.items()))
        names.append(name)
    return tuple(names)
