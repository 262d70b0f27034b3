"""Which keys do what: the table of actions with the reader's own keys from `[keys]` of the settings. No Textual needed.

A key that would type or move the cursor acts outside the composer only; the others act everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..engine.errors import SettingError
from .actions import ACTIONS, Action
from .keynames import acts_everywhere, display, read_key
from .settings.values import nearest

if TYPE_CHECKING:
    from textual.binding import Binding

_BY_ID = {action.id: action for action in ACTIONS}
TAKEN = {"ctrl+j": "makes a new line in a message", "alt+enter": "makes a new line in a message",
         "shift+enter": "makes a new line in a message", "ctrl+m": "is Enter in a terminal",
         "ctrl+i": "is Tab in a terminal"}  # fmt: skip


class Keymap:
    """Keys by action. `problems` are sentences about those that could not be used."""

    def __init__(self, keys: Mapping[str, tuple[str, ...]], problems: tuple[str, ...] = ()) -> None:
        self._keys = dict(keys)
        self.problems = problems

    def keys(self, action: str) -> tuple[str, ...]:
        """The keys of an action, in Textual's spelling."""
        return self._keys.get(action, ())

    def shown(self, action: str) -> str:
        """An action's first key as a person reads it; empty if it has none."""
        return next((display(key) for key in self.keys(action)), "")

    def letter(self, action: str) -> str:
        """The key to name outside the composer: one that needs no modifier, if there is one."""
        plain = [key for key in self.keys(action) if not acts_everywhere(key)]
        return display(plain[0]) if plain else self.shown(action)

    def all_shown(self, action: str) -> str:
        """ "Ctrl+R or r"; empty if it has none."""
        return " or ".join(display(key) for key in self.keys(action))

    def hint(self, action: str, what: str, letter: bool = False) -> str:
        """ "Esc stops"; empty where the action has no key."""
        key = self.letter(action) if letter else self.shown(action)
        return f"{key} {what}" if key else ""

    def without(self, *actions: str) -> Keymap:
        """These keys for where some actions can't be offered."""
        return Keymap({action: keys for action, keys in self._keys.items() if action not in actions}, self.problems)

    def bindings(self, action: Action) -> list[Binding]:
        """Textual's bindings of an action."""
        from textual.binding import Binding

        return [
            Binding(key, action.name, action.title, show=False, priority=acts_everywhere(key))
            for key in self.keys(action.id)
        ]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keymap) and self._keys == other._keys

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def _standard() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for action in ACTIONS:
        found[action.id] = tuple(key for keys in (action.keys, action.letters) for key in keys.split(",") if key)
    return found


STANDARD = Keymap(_standard())


def made(own: Mapping[str, tuple[str, ...]], lines: Mapping[str, int] | None = None) -> Keymap:
    """The standard keys with the reader's own: `own` has the keys by action, `lines` where in the file it says so.

    Keys that can't be had are left out and told in `problems`; a keymap without a way to quit is refused whole.
    """
    keys = _standard()
    owners: dict[str, str] = {}
    problems: list[str] = []

    def say(action: str, sentence: str) -> None:
        line = (lines or {}).get(action, 0)
        problems.append(f"{f'line {line}' if line else '[keys]'}: {sentence}")

    for name, wanted in own.items():
        action = name if name in _BY_ID else name.replace("-", "_").lower()
        if action not in _BY_ID:
            near = nearest(name, _BY_ID)
            hint = f"did you mean {near}?" if near else "`cutaway settings keys` lists the actions."
            say(name, f"there is no action {name!r}; {hint}")
            continue
        keys[action] = ()
        for text in wanted:
            try:
                key = read_key(text)
            except SettingError as error:
                say(name, f"{action}: {error.message}")
                continue
            if key in TAKEN:
                say(name, f"{display(key)} {TAKEN[key]}, so {action} can't have it.")
            elif key in owners and owners[key] != action:
                say(name, f"{display(key)} is given to {owners[key]} and to {action}; {owners[key]} keeps it.")
            elif key not in owners:
                owners[key] = action
                keys[action] += (key,)
    given = {name if name in _BY_ID else name.replace("-", "_").lower() for name in own}
    for action in _BY_ID:
        for key in [key for key in keys[action] if owners.get(key, action) != action and action not in given]:
            keys[action] = tuple(other for other in keys[action] if other != key)
            left = f"keeps {' and '.join(map(display, keys[action]))}" if keys[action] else "has no key now"
            say(owners[key], f"{display(key)} now belongs to {owners[key]}; {action} {left}.")
    if not _can_quit(keys):
        problem = 'with these keys nothing would quit, so none of them is used; give quit one, such as quit = "ctrl+q".'
        line = (lines or {}).get("quit", 0)
        return Keymap(_standard(), (f"{f'line {line}' if line else '[keys]'}: {problem}",))
    return Keymap(keys, tuple(problems))


def _can_quit(keys: Mapping[str, tuple[str, ...]]) -> bool:
    """A key that acts everywhere, or one outside the composer and a key that leads there."""
    return any(map(acts_everywhere, keys["quit"])) or bool(keys["quit"] and any(map(acts_everywhere, keys["escape"])))
