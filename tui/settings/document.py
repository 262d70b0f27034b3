"""The settings file, read. Whatever is wrong in it is told with its line, left out, and never an error."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ...engine import places
from ...engine.errors import CutawayError, SettingError
from .lines import line_numbers
from .schema import BY_NAME, IN_PRESETS, SECTIONS, SETTINGS
from .values import check, nearest, told

NAME = "settings.toml"
TABLES: dict[str, str] = {  # beside the sections: what is called by names of the reader's own
    "presets": "Settings with a name, to be switched to",
    "templates": "Prompts with fields to fill in",
    "servers": "Servers that speak OpenAI's protocol",
    "keys": "Keys of the reader's own: ACTION = KEY or [KEY, …]",
}
NOTHING_USED = "Nothing of it is used; the defaults are."
ADDRESS = re.compile(r"^localhost\b|[.:/]")  # what a server's name does not hold
SERVER_LIMITS = ("first_token_limit_s", "gap_limit_s")  # of one server, instead of those in [engine]
SERVER_KEYS = ("url", "model", "key_env", *SERVER_LIMITS)


class Server(msgspec.Struct, frozen=True):
    """A server by its base URL; `key_env` names the environment variable that holds its key.

    Limits are in seconds, 0 for none; without one, the setting in [engine] holds.
    """

    url: str
    model: str = ""
    key_env: str = ""
    first_token_limit_s: int | None = None
    gap_limit_s: int | None = None


class SettingsFile(msgspec.Struct, frozen=True):
    """What a settings file says. `problems` are sentences; what they are about is left out of the rest."""

    path: Path
    values: Mapping[str, Any] = msgspec.field(default_factory=dict)  # by the setting's name
    presets: Mapping[str, Mapping[str, Any]] = msgspec.field(default_factory=dict)
    templates: Mapping[str, str] = msgspec.field(default_factory=dict)
    servers: Mapping[str, Server] = msgspec.field(default_factory=dict)
    keys: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    key_lines: Mapping[str, int] = msgspec.field(default_factory=dict)
    problems: tuple[str, ...] = ()
    broken: bool = False  # nothing of it could be used

    def preset(self, name: str) -> Mapping[str, Any]:
        """The settings of a preset. Raises `SettingError` with the nearest name there is."""
        return _named(self.presets, name, "preset", self.path)

    def template(self, name: str) -> str:
        """The text of a prompt template. Raises `SettingError` with the nearest name there is."""
        return _named(self.templates, name, "template", self.path)

    def server(self, name: str) -> Server:
        """A server. Raises `SettingError` with the nearest name there is."""
        return _named(self.servers, name, "server", self.path)


def _named(table: Mapping[str, Any], name: str, kind: str, path: Path) -> Any:
    if name in table:
        return table[name]
    if not table:
        raise SettingError(kind, f"there is no {kind} {name!r}.", f"[{kind}s.{name}] in {path} would make it.")
    near = nearest(name, table)
    hint = f"Did you mean {near}?" if near else f"There {'are' if len(table) > 1 else 'is'} {', '.join(sorted(table))}."
    raise SettingError(kind, f"there is no {kind} {name!r}.", hint)


def default_path() -> Path:
    """Where the settings file is, or would be. Raises `CutawayError` where there is no place for it."""
    return places.config() / NAME


def load(path: Path | None = None) -> SettingsFile:
    """Read the file at `path`, or the one in the config folder. A file that is not there says nothing. Never raises."""
    try:
        path = path or default_path()
    except CutawayError as error:
        return SettingsFile(Path(NAME), problems=(f"The settings can't be read: {error}",), broken=True)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return SettingsFile(path)
    except OSError as error:
        return _broken(path, f"can't be read: {error.strerror or error}")
    try:
        return read(data.decode("utf-8-sig"), path)
    except UnicodeDecodeError as error:
        return _broken(path, f"is not UTF-8 (byte {error.start + 1})")


def read(text: str, path: Path = Path(NAME)) -> SettingsFile:
    """What `text`, the content of the file at `path`, says. Never raises."""
    text = text.replace("\r\n", "\n")
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return _broken(path, f"is not TOML: {error}")
    return _Reader(path, text).read(content)


def _broken(path: Path, why: str) -> SettingsFile:
    return SettingsFile(path, problems=(f"{path} {why.rstrip('.')}. {NOTHING_USED}",), broken=True)


class _Reader:
    """Takes the content of one file apart and collects what is wrong with it."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.problems: list[str] = []
        self._lines = line_numbers(text)

    def read(self, content: dict[str, Any]) -> SettingsFile:
        values: dict[str, Any] = {}
        tables: dict[str, dict[str, Any]] = {name: {} for name in TABLES}
        for name, value in content.items():
            if name not in SECTIONS and name not in TABLES:
                self._unknown((name,), [*SECTIONS, *TABLES])
            elif not isinstance(value, dict):
                self._say((name,), f"{name} must be a table, [{name}]")
            elif name in SECTIONS:
                values |= self._section(name, value)
            else:
                tables[name] = value
        least, most = values.get("min_tokens", 0), values.get("max_tokens")
        if most is not None and least > most:
            del values["min_tokens"]
            self._say(("sampling", "min_tokens"), f"min_tokens ({least}) must not be above max_tokens ({most})")
        servers = self._servers(tables["servers"])
        presets = {name: self._preset(name, table) for name, table in self._tables("presets", tables["presets"])}
        self._drop_unknown(values, "preset", presets)
        if not ADDRESS.search(values.get("server", "")):
            self._drop_unknown(values, "server", servers)
        keys = self._keys(tables["keys"])
        return SettingsFile(
            self.path,
            values,
            presets,
            self._templates(tables["templates"]),
            servers,
            keys,
            {action: self._lines.get(("keys", action), 0) for action in keys},
            tuple(self.problems),
        )

    def _section(self, section: str, table: dict[str, Any]) -> dict[str, Any]:
        known = [setting.name for setting in SETTINGS if setting.section == section]
        return self._settings((section,), table, known)

    def _drop_unknown(self, values: dict[str, Any], name: str, known: Mapping[str, Any]) -> None:
        """Leave out a setting that names what the file does not have."""
        if values.get(name, "") not in ("", *known):
            near = nearest(values[name], known)
            hint = f"; did you mean {near}?" if near else f": [{name}s.{values[name]}] would make it"
            self._say((BY_NAME[name].section, name), f"there is no {name} {values.pop(name)!r}{hint}")

    def _preset(self, name: str, table: dict[str, Any]) -> dict[str, Any]:
        return self._settings(("presets", name), table, IN_PRESETS)

    def _settings(self, place: tuple[str, ...], table: dict[str, Any], known: Sequence[str]) -> dict:
        values: dict[str, Any] = {}
        for key, raw in table.items():
            if key not in known:
                self._unknown((*place, key), known)
                continue
            try:
                values[key] = check(BY_NAME[key], raw)
            except SettingError as error:
                default = told(BY_NAME[key], BY_NAME[key].default)
                used = "" if place[0] in ("presets", "servers") else f"; {default or 'the default'} is used"
                self._say((*place, key), error.message.rstrip(".") + used)
        return values

    def _tables(self, kind: str, tables: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        for name, value in tables.items():
            if not isinstance(value, dict):
                self._say((kind, name), f"[{kind}] holds tables, such as [{kind}.{name}], not single keys")
        return [(name, value) for name, value in tables.items() if isinstance(value, dict)]

    def _templates(self, tables: dict[str, Any]) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, table in self._tables("templates", tables):
            self._strings(("templates", name), table, ("text",))
            if isinstance(table.get("text"), str):
                found[name] = table["text"]
            else:
                self._say(("templates", name), f'template {name} lacks its text = "…"')
        return found

    def _servers(self, tables: dict[str, Any]) -> dict[str, Server]:
        found: dict[str, Server] = {}
        for name, table in self._tables("servers", tables):
            limits = {key: value for key, value in table.items() if key in SERVER_LIMITS}
            texts = {key: value for key, value in table.items() if key not in limits}
            given = self._strings(("servers", name), texts, SERVER_KEYS)
            waits = self._settings(("servers", name), limits, SERVER_LIMITS)
            if given.get("url", "").startswith(("http://", "https://")):
                found[name] = Server(**given, **waits)
            else:
                self._say(("servers", name), f"server {name} needs a url that begins with http:// or https://")
        return found

    def _strings(self, place: tuple[str, ...], table: dict[str, Any], known: tuple[str, ...]) -> dict[str, str]:
        for key, value in table.items():
            if key not in known:
                self._unknown((*place, key), known)
            elif not isinstance(value, str):
                self._say((*place, key), f"{key} must be a text, not {value!r}")
        return {key: table[key] for key in known if isinstance(table.get(key), str)}

    def _keys(self, table: dict[str, Any]) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for action, keys in table.items():
            listed = [keys] if isinstance(keys, str) else keys
            if isinstance(listed, list) and all(isinstance(key, str) for key in listed):
                found[action] = tuple(key for key in listed if key)
            else:
                self._say(("keys", action), f'{action} must be a key, such as "ctrl+x", or several: ["f9", "p"]')
        return found

    def _unknown(self, path: tuple[str, ...], known: Sequence[str]) -> None:
        *tables, key = path
        where = f" in [{'.'.join(tables)}]" if tables else ""
        setting = BY_NAME.get(key)
        if setting is not None and tables[:1] != ["presets"]:
            hint = f"it belongs in [{setting.section}]"
        elif near := nearest(key, known):
            hint = f"did you mean {near}?"
        else:
            hint = f"there {'is' if len(known) == 1 else 'are'} {', '.join(known)}"
        self._say(path, f"unknown key {key!r}{where}; {hint}")

    def _say(self, path: tuple[str, ...], sentence: str) -> None:
        line = self._lines.get(path, 0)
        where = f"{self.path} line {line}" if line else str(self.path)
        self.problems.append(f"{where}: {sentence}{'' if sentence.endswith('?') else '.'}")
