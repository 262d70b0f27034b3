"""Sentences that name keys, with the keys that the reader has. No Textual."""

from __future__ import annotations

from collections.abc import Iterable

from ..keymap import Keymap
from .layout import PANELS


def join(hints: Iterable[str]) -> str:
    """ "Enter sends · Ctrl+J new line": the hints that there are."""
    return " · ".join(hint for hint in hints if hint)


def greeting(keys: Keymap) -> list[tuple[str, str]]:
    """What an empty chat says: (text, style names)."""
    first, last = keys.shown(PANELS[0]), keys.shown(PANELS[-1])
    told = [
        f"{keys.all_shown('keys')} keys" if keys.keys("keys") else "",
        keys.hint("palette", "every action"),
        keys.hint("jump", "jump"),
        f"{first} to {last} panels" if first and last else "",
        keys.hint("traffic", "background traffic"),
    ]
    return [("Ask something. The panels show what the engine does to answer.", ""), ("", ""), (join(told), "dim")]


def composing(keys: Keymap, writing: bool, generating: bool) -> str:
    """What the composer's border says: how to stop a reply that comes, and how to send or to begin to write."""
    stops = keys.hint("escape", "stops") or keys.hint("stop", "stops") or keys.hint("interrupt", "stops")
    how = ["Enter sends", "Ctrl+J new line"]
    if not writing:
        how = [keys.hint("write", "writes", letter=True), keys.hint("keys", "keys", letter=True)]
    return join([stops if generating else "", *how])


def starts_again(keys: Keymap) -> str:
    """How a dead engine comes back."""
    key = keys.letter("restart")
    return f"{key}, or your next message, starts the engine again." if key else "Your next message starts it again."
