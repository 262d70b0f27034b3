"""Values of settings: checked, read from TOML or from what somebody typed, shown, and made ready for writing."""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Iterable
from typing import Any

from ...engine.errors import SettingError
from ...engine.settings import RANGES
from .schema import Setting

NOTHING = "none"  # how a file says that an optional setting has no value
_TRUE, _FALSE = ("true", "yes", "on", "1", "y", "t"), ("false", "no", "off", "0", "n", "f")


def check(setting: Setting, raw: Any) -> Any:
    """The value that `raw`, as TOML has it, stands for. Raises `SettingError` naming the setting and its range."""
    try:
        value = _shaped(setting, raw)
    except (TypeError, ValueError, OverflowError):
        raise refusal(setting, raw) from None
    if not _in_range(setting, value):
        raise refusal(setting, raw)
    return value


def refusal(setting: Setting, raw: Any) -> SettingError:
    """What is said of a value that can't be."""
    shown = repr(raw) if len(repr(raw)) <= 60 else repr(raw)[:59] + "…"
    return SettingError(setting.name, f"{setting.name} must be {setting.expects}, not {shown}.")


def _shaped(setting: Setting, raw: Any) -> Any:
    """`raw` in the type of the setting. Raises `TypeError` and `ValueError`."""
    if setting.optional and raw in (None, "", NOTHING):
        return None
    match setting.kind:
        case "number":
            return float(_only(raw, int, float))
        case "whole":
            return int(_only(raw, int))
        case "flag":
            return _only(raw, bool)
        case "choice" | "text":
            return _writable(_only(raw, str))
        case "texts":
            return tuple(_writable(_only(text, str)) for text in ([raw] if isinstance(raw, str) else _only(raw, list)))
        case "ids":
            return tuple(_only(number, int) for number in ([raw] if isinstance(raw, int) else _only(raw, list)))
        case "bias":
            return {int(token): float(_only(bias, int, float)) for token, bias in _only(raw, dict).items()}


def _only(raw: Any, *types: type) -> Any:
    if not isinstance(raw, types) or (isinstance(raw, bool) and bool not in types):
        raise TypeError
    return raw


def _writable(text: str) -> str:
    text.encode()  # a lone surrogate has no place in a file; UnicodeEncodeError is a ValueError
    if "\0" in text:
        raise ValueError
    return text


def _in_range(setting: Setting, value: Any) -> bool:
    if setting.section == "sampling":
        return bool(RANGES[setting.name][1](value))
    if setting.kind == "choice":
        return value in setting.choices
    if setting.low is not None and setting.high is not None:
        return setting.low <= value <= setting.high
    return True


def typed(setting: Setting, text: str) -> Any:
    """The value that a person means by `text`: in a variable, a flag or a field. Raises `SettingError`."""
    word = text.strip()
    if setting.kind in ("text",):
        return check(setting, text)
    if not word and setting.kind in ("texts", "ids", "bias"):
        return check(setting, {} if setting.kind == "bias" else [])
    if setting.optional and word.lower() in ("", "-", "–", "off", NOTHING):
        return None
    try:
        return check(setting, _typed(setting, word))
    except (ValueError, tomllib.TOMLDecodeError, SettingError):
        raise refusal(setting, text) from None


def _typed(setting: Setting, word: str) -> Any:
    match setting.kind:
        case "number":
            value = float(word.replace(",", "."))
            return value if math.isfinite(value) else word
        case "whole":
            return int(word.replace(",", "").replace("_", ""))
        case "flag":
            return True if word.lower() in _TRUE else False if word.lower() in _FALSE else word
        case "choice":
            return word.lower()
        case _ if word[:1] in "[{":
            return tomllib.loads(f"value = {word}")["value"]
        case "ids":
            return [int(part) for part in word.replace(",", " ").split()]
        case "bias":
            pairs = (part.partition("=") for part in word.replace(",", " ").split())
            return {token: float(bias) for token, _, bias in pairs}
        case _:
            return [word]


def told(setting: Setting, value: Any) -> str:
    """The value as it reads in lists and can be typed again."""
    if value is None:
        return NOTHING
    match setting.kind:
        case "flag":
            return "true" if value else "false"
        case "number":
            return f"{value:g}" if float(f"{value:g}") == value else repr(value)
        case "texts":
            return f"[{', '.join(map(quoted, value))}]"
        case "ids":
            return ", ".join(map(str, value))
        case "bias":
            return ", ".join(f"{token}={bias:g}" for token, bias in value.items())
        case _:
            return str(value)


def quoted(text: str) -> str:
    """A TOML string on one line (TOML 1.0: basic strings)."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    shown = (escapes.get(c) or (f"\\u{ord(c):04X}" if ord(c) < 32 or ord(c) == 127 else c) for c in text)
    return f'"{"".join(shown)}"'


def written(setting: Setting, value: Any) -> Any:
    """The value in the types that TOML has."""
    if value is None:
        return NOTHING
    match setting.kind:
        case "texts" | "ids":
            return list(value)
        case "bias":
            return {str(token): bias for token, bias in value.items()}
        case _:
            return value


def toml(value: Any) -> str:
    """A value of `written` as TOML on one line."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{quoted(k)} = {toml(v)}' for k, v in value.items())} }}" if value else "{}"
    return repr(value)


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is spelled most like `name`; empty if none is."""
    names = list(known)
    lowered = {one.lower(): one for one in reversed(names)}
    near = difflib.get_close_matches(name.lower().replace("-", "_"), lowered, n=1)
    return lowered[near[0]] if near else ""
