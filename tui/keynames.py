"""Names of keys: as people write them, as Textual knows them, as they are shown. No Textual needed."""

from __future__ import annotations

import unicodedata

from ..engine.errors import SettingError
from .settings.values import nearest

_NAMED = {
    "escape": "Esc", "enter": "Enter", "tab": "Tab", "space": "Space", "backspace": "⌫", "delete": "Del",
    "insert": "Ins", "home": "Home", "end": "End", "pageup": "PgUp", "pagedown": "PgDn", "up": "↑", "down": "↓",
    "left": "←", "right": "→",
}  # fmt: skip
_FUNCTION = {f"f{number}": f"F{number}" for number in range(1, 25)}
_OTHERS = {"esc": "escape", "return": "enter", "del": "delete", "ins": "insert", "pgup": "pageup", "pgdn": "pagedown",
           "page_up": "pageup", "page_down": "pagedown", " ": "space",
           **{sign: name for name, sign in _NAMED.items()}}  # fmt: skip
_MODIFIERS = ("alt", "ctrl", "shift", "super", "hyper", "meta")
# Where Textual's name of a character is not Unicode's.
_CHARACTERS = {"solidus": "slash", "reverse_solidus": "backslash", "commercial_at": "at", "hyphen_minus": "minus",
               "plus_sign": "plus", "low_line": "underscore"}  # fmt: skip
_UNICODE = {ours: theirs for theirs, ours in _CHARACTERS.items()}


def read_key(text: str) -> str:
    """The key that `text` means, in Textual's spelling: "Ctrl+X" is "ctrl+x", "?" is "question_mark".

    Raises `SettingError` with the nearest name for what is no key.
    """
    rest, modifiers = text.strip() or text[:1], set()
    while "+" in rest[1:]:
        modifier, _, after = rest.partition("+")
        if modifier.lower() not in _MODIFIERS or not after:
            break
        modifiers.add(modifier.lower())
        rest = after
    key = _base(rest, text)
    if len(key) == 1 and key.isalpha():
        if modifiers == {"shift"}:
            return key.upper()
        if modifiers:
            key = key.lower()
    return "+".join([*sorted(modifiers), key])


def _base(rest: str, text: str) -> str:
    lowered = rest.lower()
    name = _OTHERS.get(rest) or _OTHERS.get(lowered) or lowered
    if name in _NAMED or name in _FUNCTION:
        return name
    if len(rest) == 1 and rest.isprintable():
        return _named(rest)
    if _character(name):
        return name
    near = nearest(rest, [*_NAMED, *_FUNCTION, *_OTHERS, *_UNICODE])
    raise SettingError("keys", f"{text!r} is no key{f'; did you mean {near}?' if near else ', such as ctrl+x or f9.'}")


def _named(character: str) -> str:
    """Textual's name of a character."""
    if character.isalnum():
        return character
    name = unicodedata.name(character, "").lower().replace("-", "_").replace(" ", "_")
    return _CHARACTERS.get(name, name) or character


def _character(name: str) -> str:
    """The character that has this name in Textual; empty if none has."""
    if len(name) == 1:
        return name
    spelled = _UNICODE.get(name, name)
    for hyphens in (0, 1, 9):  # "less_than_sign" is LESS-THAN SIGN
        try:
            return unicodedata.lookup(spelled.replace("_", "-", hyphens).replace("_", " "))
        except KeyError:
            continue
    return ""


def display(key: str) -> str:
    """A key in Textual's spelling as a person reads it: "Ctrl+R", "F2", "?"."""
    *modifiers, base = key.split("+")
    shown = _NAMED.get(base) or _FUNCTION.get(base) or _character(base) or base
    if modifiers:
        return "+".join([*(modifier.title() for modifier in modifiers), shown.upper() if len(shown) == 1 else shown])
    return shown


def acts_everywhere(key: str) -> bool:
    """Whether a key neither types a character nor moves a cursor, so that it can act while a message is written."""
    *modifiers, base = key.split("+")
    return base == "escape" or base in _FUNCTION or bool({"ctrl", "alt", "super", "meta", "hyper"} & set(modifiers))
