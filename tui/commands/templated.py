"""A question made from a prompt template: fields from -f, from the question or pipe, or asked for."""

from __future__ import annotations

import sys

import click

from ..settings.templates import fields, fill
from . import question


def asked(text: str, given: tuple[str, ...], words: tuple[str, ...]) -> str:
    """The question that the template `text` makes.

    `given` are FIELD=VALUE. What is asked beside them fills the one field that is missing; without one it comes below.
    Raises `UsageError`, or `SettingError` naming the missing fields where nobody can be asked.
    """
    values: dict[str, str] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"-f needs FIELD=VALUE, not {pair!r}.")
        values[name.strip()] = question.text_or_file(value)
    missing = [name for name in fields(text) if name not in values]
    beside = question.read(words) if words else question.piped(not missing)
    if beside.strip() and len(missing) == 1:
        values[missing.pop()] = beside.rstrip("\n")
        beside = ""
    if sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty():
        for name in missing:
            values[name] = click.prompt(name, err=True)
    made = fill(text, values)
    return f"{made}\n\n{beside}" if beside.strip() else made
