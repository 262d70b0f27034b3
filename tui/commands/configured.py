"""Commands whose flags take their defaults from the settings file, a preset and `CUTAWAY_*`."""

from __future__ import annotations

import os
from typing import Any

import click
from click.core import ParameterSource

from ...engine.errors import SettingError
from ..settings.document import SettingsFile, load
from ..settings.layers import Layers, parameter, read_variables
from ..settings.schema import BY_NAME, SETTINGS
from . import completing, exits, question

_META = "cutaway.settings"


def from_outside() -> Layers:
    """The settings without any flags: the file's and the variables'. A variable that can't be read is told."""
    variables, problems = read_variables(os.environ)
    for problem in problems:
        exits.say(f"note: {problem}")
    file = load()
    preset = variables.get("preset") or file.values.get("preset", "")
    return Layers(file, variables, preset=preset if preset in file.presets else "")


class Configured(click.Command):
    """Reads the settings before the flags are parsed; what is wrong in the file is told and never stops the start."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        variables, problems = read_variables(os.environ)
        if problems and not ctx.resilient_parsing:  # a shell that completes asks for names only
            raise problems[0]
        _use(ctx, Layers(load(), variables))
        return super().parse_args(ctx, args)


def _use(ctx: click.Context, layers: Layers) -> None:
    """Let the flags that are not given have these values."""
    ctx.meta[_META] = layers
    ctx.default_map = dict(parameter(BY_NAME[name], value) for name, value in layers.given().items())


def _preset(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    layers: Layers = ctx.meta[_META]
    if not value:
        return
    try:
        layers.file.preset(value)
    except SettingError as error:
        if ctx.get_parameter_source("preset") is ParameterSource.COMMANDLINE:
            raise
        exits.say(f"note: {error}")
        return
    _use(ctx, Layers(layers.file, layers.variables, preset=value))


# Eager: what it holds is known before the other flags look for their defaults.
preset_flag = click.option(
    "--preset", metavar="NAME", is_eager=True, expose_value=False, callback=_preset,
    shell_complete=completing.presets,
    help="Settings with a name, [presets.NAME] in the settings file.",
)  # fmt: skip


def settings() -> Layers:
    """The settings of the command that runs, its flags included."""
    ctx = click.get_current_context()
    layers: Layers = ctx.meta[_META]
    flags: dict[str, Any] = {}
    for setting in SETTINGS:
        name = "buffered" if setting.name == "delivery" else setting.name
        if name in ctx.params and ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            flags[setting.name] = _given(setting.name, ctx.params[name])
    return Layers(layers.file, layers.variables, flags, layers.preset)


def _given(name: str, value: Any) -> Any:
    """A flag's value as the setting has it; sampling flags are still the text that was given."""
    setting = BY_NAME[name]
    if name == "delivery":
        return "buffered" if value else "streamed"
    if setting.section != "sampling" or not isinstance(value, str | tuple | list):
        return value
    if setting.kind == "texts":
        return tuple(value)
    from ..settings.values import typed

    try:
        return typed(setting, value if isinstance(value, str) else ", ".join(value))
    except SettingError:
        return setting.default  # the command refuses it in a moment, in its own words


def system(value: str) -> str:
    """The system prompt that the setting means, read from its file where it names one with @.

    Raises `UsageError` for a file that a flag names; one that the settings name is told and left out.
    """
    try:
        return question.text_or_file(value)
    except click.UsageError as error:
        if was_given("system"):
            raise
        exits.say(f"note: {settings().valued('system').source}: system: {error.message}")
        return ""


def tell_problems(file: SettingsFile) -> None:
    """Say on standard error what is wrong with the settings file."""
    for problem in file.problems:
        exits.say(f"note: {problem}")


def was_given(name: str) -> bool:
    """Whether the flag with this name stands on the command line."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE
