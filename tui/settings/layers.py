"""Where each setting's value comes from: default, file, preset, variable, flag; the later wins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ...engine.errors import SettingError
from .document import SettingsFile
from .schema import BY_NAME, SETTINGS, Setting
from .values import typed


class Valued(msgspec.Struct, frozen=True):
    """A value and what gave it: "default", "file", "preset NAME", the variable or the flag."""

    value: Any
    source: str

    @property
    def for_this_run(self) -> bool:
        """A flag or a variable gave it, so it wins over all that is kept."""
        return self.source.startswith(("-", "CUTAWAY_"))


class Layers(msgspec.Struct, frozen=True):
    """The settings of one run. `flags` and `variables` are by the setting's name, as read."""

    file: SettingsFile
    variables: Mapping[str, Any] = msgspec.field(default_factory=dict)
    flags: Mapping[str, Any] = msgspec.field(default_factory=dict)
    preset: str = ""
    preset_first: bool = False  # it was switched to while running, after the flags were given

    def valued(self, name: str) -> Valued:
        """The value in force, and its source."""
        setting = BY_NAME[name]
        preset = self.file.presets.get(self.preset, {})
        if self.preset_first and name in preset:
            return Valued(preset[name], f"preset {self.preset}")
        if name in self.flags:
            return Valued(self.flags[name], setting.option)
        if name in self.variables:
            return Valued(self.variables[name], setting.variable)
        if name in preset:
            return Valued(preset[name], f"preset {self.preset}")
        if name in self.file.values:
            return Valued(self.file.values[name], "file")
        return Valued(setting.default, "default")

    def value(self, name: str) -> Any:
        return self.valued(name).value

    def values(self) -> dict[str, Any]:
        """Every setting's value in force."""
        return {setting.name: self.value(setting.name) for setting in SETTINGS}

    def given(self) -> dict[str, Any]:
        """The values that file, preset or variables give."""
        preset = self.file.presets.get(self.preset, {})
        return {**self.file.values, **preset, **self.variables}


def read_variables(env: Mapping[str, str]) -> tuple[dict[str, Any], list[SettingError]]:
    """The settings that `CUTAWAY_*` give, and what is wrong with the others. An empty variable counts as unset."""
    values: dict[str, Any] = {}
    problems: list[SettingError] = []
    for setting in SETTINGS:
        text = env.get(setting.variable, "")
        if not text:
            continue
        try:
            values[setting.name] = typed(setting, _readable(text))
        except SettingError as error:
            problems.append(SettingError(setting.name, f"{setting.variable}: {error.message}"))
    return values, problems


def _readable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def parameter(setting: Setting, value: Any) -> tuple[str, Any]:
    """The name and the value of the command line's parameter for this setting."""
    match setting.name, value:
        case "delivery", _:
            return "buffered", value == "buffered"
        case "logit_bias", _:
            return setting.name, [f"{token}={bias}" for token, bias in value.items()]
        case "stop_ids", _:
            return setting.name, [str(token) for token in value]
        case "stop", _:
            return setting.name, list(value)
        case _:
            return setting.name, value
