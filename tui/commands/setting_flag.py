"""The flag of a setting, made from the schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..settings.schema import BY_NAME, Setting
from ..settings.values import told
from . import completing

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_MODEL = "SmolLM2-135M-Instruct"  # engine.models.default knows more, and takes its time to import

_SHORT = {"model": "-m", "system": "-s"}
_ONE_WAY = ("plain", "offline", "deterministic", "ignore_eos")  # no flag takes them back


def setting_flag(name: str) -> Callable[[F], F]:
    """The option of the setting called `name`; `configured.Configured` gives it what file and variables say.

    Sampling settings stay text: `engine.settings.parse` reads them, so that a wrong one is told in the same words
    everywhere.
    """
    setting = BY_NAME[name]
    if name == "delivery":
        return click.option("--buffered/--streamed", "buffered", default=False, help="Show the reply when it is whole.")
    names = [setting.option, name]
    if name in _SHORT:
        names.insert(1, _SHORT[name])
    if setting.kind == "flag" and name not in _ONE_WAY:
        names[0] += f"/--no-{setting.option[2:]}"
    return click.option(*names, **_type(setting), help=_help(setting))


def _type(setting: Setting) -> dict[str, Any]:
    if setting.kind in ("texts", "ids", "bias"):
        return {"multiple": True, "metavar": setting.unit}
    if setting.kind == "flag":
        # None: not said, so that the engine is only told what somebody wants.
        return {"is_flag": True, "default": None if setting.takes == "now" and setting.default else setting.default}
    if setting.section == "sampling":
        return {"metavar": setting.unit}
    if setting.kind == "choice":
        default = None if setting.takes == "now" else setting.default
        return {"type": click.Choice(setting.choices), "default": default}
    if setting.kind == "whole":
        low, high = setting.low, setting.high
        assert low is not None
        assert high is not None
        return {"type": click.IntRange(int(low), int(high)), "metavar": setting.unit, "default": setting.default}
    completed = {"shell_complete": completing.models} if setting.name == "model" else {}
    return {"metavar": setting.unit, "default": setting.default, **completed}


def _help(setting: Setting) -> str:
    if setting.name == "model":
        return f"{setting.help}  [default: {DEFAULT_MODEL}]"
    if setting.kind == "flag":
        return f"{setting.help}  [default: on]" if setting.default else setting.help
    if setting.kind in ("texts", "ids", "bias"):
        return f"{setting.help} Can be repeated."
    worth = setting.default not in (None, "", (), {}) and (setting.default or setting.takes == "start")
    return f"{setting.help}  [default: {told(setting, setting.default)}]" if worth else setting.help
