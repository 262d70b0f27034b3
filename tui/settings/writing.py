"""Changes of the settings file that keep its comments and its order."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...engine.errors import SettingError

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

HEADER = "# Settings of cutaway. `cutaway settings schema` prints all there are.\n\n"
ABSENT = object()  # as a value: take the key away

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

Changes = Mapping[tuple[str, ...], Any]


def put(path: Path, changes: Changes) -> None:
    """Set keys, by their paths, to values that TOML has; tables are made as needed.

    The file is replaced whole or stays as it was. Raises `SettingError` where it is not TOML or can't be written.
    """
    try:
        before = path.read_bytes().decode("utf-8-sig") if path.exists() else HEADER
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError("file", f"{path} can't be read: {error}.") from None
    _replace(path, changed(before, changes, path))


def changed(text: str, changes: Changes, path: Path = Path("settings.toml")) -> str:
    """`text` with the changes made. Raises `SettingError` where `text` is not TOML, or holds another thing there."""
    try:
        wanted = tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        raise SettingError("file", f"{path} is not TOML: {error}.", "Mend it first; nothing was changed.") from None
    import tomlkit  # here, because it takes a while

    document = tomlkit.parse(text)
    for keys, value in changes.items():
        _set(wanted, keys, value, dict)
        _edit(document, keys, value)
    new = tomlkit.dumps(document)
    # What a person wrote must not suffer from what a library does not foresee.
    with contextlib.suppress(tomllib.TOMLDecodeError):
        if tomllib.loads(new.replace("\r\n", "\n")) == wanted:
            return new
    names = ", ".join(".".join(keys) for keys in changes)
    raise SettingError("file", f"{names} can't be changed in {path} as it is written there.", "Change it by hand.")


def _edit(document: TOMLDocument, keys: tuple[str, ...], value: Any) -> None:
    import tomlkit

    _set(document, keys, value if value is ABSENT else _item(value), tomlkit.table)


def _set(table: Any, keys: tuple[str, ...], value: Any, new_table: Callable[..., Any]) -> None:
    for name in keys[:-1]:
        if name not in table:
            if value is ABSENT:
                return
            # A table that only holds others needs no header of its own.
            table[name] = new_table() if new_table is dict or name == keys[-2] else new_table(True)
        table = table[name]
        if not hasattr(table, "items"):
            raise SettingError(name, f"{name} is no table, so {keys[-1]} can't be in it.", "Mend it by hand.")
    if value is not ABSENT:
        table[keys[-1]] = value
    elif keys[-1] in table:
        del table[keys[-1]]


def _item(value: Any) -> Any:
    """The value as a person would write it: a text of several lines on several lines, a map on one."""
    import tomlkit

    if isinstance(value, str) and "\n" in value and not _CONTROL.search(value):
        text = value.replace("\\", "\\\\")
        if '"""' in text or text.endswith('"'):
            text = text.replace('"', '\\"')
        return tomlkit.value(f'"""\n{text}"""')
    if isinstance(value, dict):
        table = tomlkit.inline_table()
        table.update(value)
        return table
    return tomlkit.item(value)


def _replace(path: Path, text: str) -> None:
    try:
        path = path.resolve()  # a link, into a folder of dotfiles say, stays one
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        new = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode())
            new.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o644)
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
    except OSError as error:
        raise SettingError("file", f"{path} can't be written: {error.strerror or error}.") from None
