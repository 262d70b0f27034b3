"""Places in the settings file by dotted names, and which texts may stand there."""

from __future__ import annotations

import contextlib
import dataclasses
import tomllib
from collections.abc import Mapping
from typing import Any

from ...engine.errors import SettingError
from .document import SERVER_KEYS, SERVER_LIMITS, TABLES, SettingsFile
from .schema import BY_NAME, IN_PRESETS, SETTINGS, Setting, find
from .values import nearest, told, typed, written


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A key of the file, by its path; `setting` is what it sets, where it is one of the schema."""

    keys: tuple[str, ...]
    setting: Setting | None = None

    def read(self, text: str) -> Any:
        """What to write there for `text`. Raises `SettingError`."""
        if self.setting is not None:
            return written(self.setting, typed(self.setting, text))
        if self.keys[0] == "keys":
            from ..keynames import read_key

            keys = _list(text)
            for key in keys:
                read_key(key)
            return keys[0] if len(keys) == 1 else keys
        if self.keys[-1] == "url" and not text.startswith(("http://", "https://")):
            raise SettingError("url", f"a server's url must begin with http:// or https://, not {text!r}.")
        return text

    def value(self, file: SettingsFile) -> str | None:
        """What holds there now, as text; None if nothing does."""
        match self.keys:
            case ("presets", name, key):
                preset = file.presets.get(name, {})
                return told(BY_NAME[key], preset[key]) if key in preset else None
            case ("templates", name, _):
                return file.templates.get(name)
            case ("servers", name, key):
                found = getattr(file.servers.get(name), key, None)
                return told(self.setting, found) if self.setting is not None and found is not None else found
            case ("keys", action):
                from .. import keymap

                return " ".join(keymap.made(file.keys, file.key_lines).keys(action))
        return None


def place(name: str, file: SettingsFile) -> Place:
    """The place that `name` means, such as "temperature" or "presets.coder.system".

    Raises `SettingError` with the nearest name for what there is not.
    """
    if (setting := find(name)) is not None:
        return Place((setting.section, setting.name), setting)
    table, _, rest = name.partition(".")
    if table == "keys" and rest:
        return Place(("keys", _action(rest)))
    known: Mapping[str, tuple[str, ...]] = {"presets": IN_PRESETS, "templates": ("text",), "servers": SERVER_KEYS}
    if table in known and "." in rest:
        called, _, key = rest.rpartition(".")
        if key in known[table]:
            shared = table == "presets" or key in SERVER_LIMITS
            return Place((table, called, key), BY_NAME.get(key) if shared else None)
        raise _unknown(key, known[table], f"[{table}.{called}] has no {key!r}")
    if table in TABLES:
        form = "ACTION" if table == "keys" else "NAME.KEY"
        raise SettingError(name, f"{name} is no setting.", f"It has the form {table}.{form}.")
    raise _unknown(name.rpartition(".")[2], [s.name for s in SETTINGS], f"there is no setting {name!r}")


def _list(text: str) -> list[str]:
    """Words, or a list as the file writes it: `["f11", "z"]`."""
    if text.lstrip().startswith("["):
        with contextlib.suppress(tomllib.TOMLDecodeError):
            return [str(item) for item in tomllib.loads(f"list = {text}")["list"]]
    return text.split()


def _action(name: str) -> str:
    from ..actions import ACTIONS

    known = [action.id for action in ACTIONS]
    if name not in known:
        raise _unknown(name, known, f"there is no action {name!r}")
    return name


def _unknown(name: str, known: Any, sentence: str) -> SettingError:
    near = nearest(name, known)
    hint = f"Did you mean {near}?" if near else "`cutaway settings schema` prints all there are."
    return SettingError(name, f"{sentence}.", hint)
