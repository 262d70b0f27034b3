"""`cutaway settings`: every setting with where its value comes from; read, change and explain them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import click

from ...engine.errors import SettingError
from ..settings.document import SettingsFile, default_path, load
from ..settings.schema import SECTIONS, SETTINGS, find
from ..settings.values import told
from . import exits
from .configured import from_outside, tell_problems
from .models import Actions
from .output import Output


@click.group("settings", cls=Actions)
def command() -> None:
    """Show, read and change settings.

    They come from the settings file, from CUTAWAY_* variables and from flags, the later winning. NAME is a setting's
    name, such as temperature, or what the file calls it: sampling.temperature, presets.coder.system, keys.quit.

    \b
    Examples:
      cutaway settings                        all of them, and what gave each its value
      cutaway settings set temperature 0.2
      cutaway settings set presets.coder.system "You are a careful programmer."
      cutaway settings get keys.quit
      cutaway settings unset temperature      its default again
      cutaway settings schema                 a file with everything in it, explained
    """


@command.command("list")
def list_() -> int:
    """List every setting, its value, and what gave it."""
    layers = from_outside()
    output = Output()
    for section in SECTIONS:
        output.write(f"[{section}]\n")
        for setting in SETTINGS:
            if setting.section == section:
                valued = layers.valued(setting.name)
                value = " ".join(told(setting, valued.value).split()) or ('""' if setting.kind == "text" else "none")
                output.write(f"  {setting.name:<20} {_cut(value, 34):<34} {valued.source}\n")
    for line in _named(layers.file):
        output.write(f"{line}\n")
    tell_problems(layers.file)
    return exits.OK


def _named(file: SettingsFile) -> Iterator[str]:
    for kind, names in (("presets", file.presets), ("templates", file.templates), ("servers", file.servers)):
        if names:
            yield f"[{kind}]  {', '.join(names)}"
    if file.keys:
        yield f"[keys]  {', '.join(file.keys)}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


@command.command("get")
@click.argument("name")
def get(name: str) -> int:
    """Print the value of the setting NAME."""
    setting = find(name)
    layers = from_outside()
    if setting is not None:
        Output().write(told(setting, layers.value(setting.name)) + "\n")
        return exits.OK
    from ..settings.paths import place

    found = place(name, layers.file).value(layers.file)
    if found is None:
        raise SettingError(name, f"{name} is not set.")
    Output().write(f"{found}\n")
    return exits.OK


@command.command(
    "set", short_help="Set NAME to VALUE in the settings file.", context_settings={"ignore_unknown_options": True}
)
@click.argument("name")
@click.argument("value")
def set_(name: str, value: str) -> int:
    """Set NAME to VALUE in the settings file, whose comments and order stay."""
    from ..settings.paths import place
    from ..settings.writing import put

    file = load()
    where = place(name, file)
    put(file.path, {where.keys: where.read(value)})
    setting = find(name)
    if setting is not None and (variable := os.environ.get(setting.variable)):
        exits.say(f"note: {setting.variable}={variable} still wins over the file.")
    return exits.OK


@command.command("unset", short_help="Take NAME out of the settings file.")
@click.argument("name")
def unset(name: str) -> int:
    """Take NAME out of the settings file, so that its default holds again."""
    from ..settings.paths import place
    from ..settings.writing import ABSENT, put

    file = load()
    if file.path.exists():
        put(file.path, {place(name, file).keys: ABSENT})
    return exits.OK


@command.command("path")
def path() -> int:
    """Print where the settings file is, or would be."""
    Output().write(f"{default_path()}\n")
    return exits.OK


@command.command("schema", short_help="Print a file with every setting, explained.")
def schema() -> int:
    """Print a settings file with everything in it, explained and commented out."""
    from ..settings.documented import documented

    Output().write(documented())
    return exits.OK


@command.command("keys")
def keys() -> int:
    """List the actions that [keys] can give keys to, and their keys."""
    from .. import keymap
    from ..actions import ACTIONS

    file = load()
    made = keymap.made(file.keys, file.key_lines)
    output = Output()
    for action in ACTIONS:
        output.write(f"{action.id:<16} {made.all_shown(action.id) or '-':<18} {action.title}\n")
    for problem in made.problems:
        exits.say(f"note: {file.path} {problem}")
    return exits.OK
