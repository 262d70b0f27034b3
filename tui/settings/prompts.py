"""The system prompt that the setting means while a chat is open: a text, or the text of a file named with @."""

from __future__ import annotations

from ...engine import places
from ...engine.errors import SettingError


def system_text(value: str) -> str:
    """`value`, or what the file holds that it names. Raises `SettingError` where that can't be read."""
    if not value.startswith("@") or value.startswith("@@"):
        return value.removeprefix("@")
    path = places.named(value[1:])
    try:
        return path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise SettingError("system", f"system: {path} can't be read: {error.strerror or error}.") from None
