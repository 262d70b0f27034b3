"""The settings of a running chat: what it was started with, and the file as it is now. No Textual.

`changed` is what differs since it was asked last; who shows the chat applies it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ...engine.errors import SettingError
from .document import NOTHING_USED, SettingsFile, load
from .layers import Layers, Valued
from .schema import BY_NAME, IN_PRESETS, SETTINGS
from .values import written
from .writing import ABSENT, put

NOWHERE = Path()  # the file of settings that have none


class Changed(msgspec.Struct, frozen=True):
    """What has changed: settings with their new values, whether keys did, and the file's problems that are new.

    `held` are settings that changed in the file but that a variable or a flag holds for this run: name -> which.
    """

    values: Mapping[str, Any]
    keys: bool = False
    problems: tuple[str, ...] = ()
    held: Mapping[str, str] = msgspec.field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.values or self.keys or self.problems or self.held)


class LiveSettings:
    """Watches the file by its time and size: a look costs one system call."""

    def __init__(self, layers: Layers) -> None:
        self.layers = layers
        self._seen = self._stamp()

    @property
    def file(self) -> SettingsFile:
        return self.layers.file

    def valued(self, name: str) -> Valued:
        return self.layers.valued(name)

    def value(self, name: str) -> Any:
        return self.layers.value(name)

    def look(self) -> Changed:
        """Read the file again if it was changed; a broken one changes nothing but is told."""
        stamp = self._stamp()
        if stamp == self._seen:
            return Changed({})
        self._seen = stamp
        return self._take(load(self.file.path))

    def _take(self, file: SettingsFile) -> Changed:
        before = self.layers
        news = tuple(problem for problem in file.problems if problem not in before.file.problems)
        if file.broken:
            told = tuple(problem.replace(NOTHING_USED, "What was set before stays.") for problem in news)
            self.layers = msgspec.structs.replace(
                before, file=msgspec.structs.replace(before.file, problems=file.problems)
            )
            return Changed({}, problems=told)
        preset = before.preset if before.preset in file.presets else ""
        self.layers = msgspec.structs.replace(before, file=file, preset=preset)
        held = {
            name: source
            for name in BY_NAME
            if file.values.get(name) != before.file.values.get(name)
            and (source := self.valued(name).source) not in ("file", "default")
        }
        return Changed(self._differences(before), file.keys != before.file.keys, news, held)

    def _differences(self, before: Layers) -> dict[str, Any]:
        return {s.name: new for s in SETTINGS if (new := self.value(s.name)) != before.value(s.name)}

    def use_preset(self, name: str) -> dict[str, Any]:
        """Let a preset be in force, above everything given at the start; "" for none.

        Returns all values that a preset may hold, as they are to be now. Raises `SettingError`.
        """
        if name:
            self.file.preset(name)
        self.layers = msgspec.structs.replace(self.layers, preset=name, preset_first=bool(name))
        return {setting: self.value(setting) for setting in IN_PRESETS}

    def save_preset(self, name: str, present: Mapping[str, Any]) -> Changed:
        """Write the `present` values as a preset, and let it be in force. Raises `SettingError`.

        It holds what differs from a default or from what would hold without it, and nothing else.
        """
        without = msgspec.structs.replace(self.layers, preset="")
        changes: dict[tuple[str, ...], Any] = {
            ("presets", name, key): ABSENT for key in self.file.presets.get(name, {})
        }
        for key, value in present.items():
            setting = BY_NAME[key]
            if value != setting.default or value != without.value(key):
                changes["presets", name, key] = written(setting, value)
        if not any(value is not ABSENT for value in changes.values()):
            raise SettingError("preset", "every setting is at its default, so there is nothing to save.")
        changed = self.put(changes)
        self.use_preset(name)
        return changed

    def write(self, name: str, value: Any) -> Changed:
        """Set a setting in the file, or with `ABSENT` take it out. Raises `SettingError`."""
        setting = BY_NAME[name]
        new = value if value is ABSENT else written(setting, value)
        return self.put({(setting.section, name): new})

    def put(self, changes: Mapping[tuple[str, ...], Any]) -> Changed:
        """Change the file, and take over what that changes. Raises `SettingError`."""
        if self.file.path == NOWHERE:
            raise SettingError("file", "this chat has no settings file.")
        put(self.file.path, changes)
        return self.look()

    def _stamp(self) -> tuple[int, int, int]:
        if self.file.path == NOWHERE:
            return (0, 0, 0)
        try:
            status = self.file.path.stat()
        except OSError:
            return (0, 0, 0)
        return (status.st_mtime_ns, status.st_size, status.st_ino)


def at_defaults() -> LiveSettings:
    """Settings of a chat that has no file: every one at its default."""
    return LiveSettings(Layers(SettingsFile(NOWHERE)))
