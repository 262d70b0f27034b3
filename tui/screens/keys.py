"""Every key there is, read from the bindings themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from ..keynames import display
from .dialogs import Dialog

KEY_WIDTH = 22


def bindings_of(owner: type) -> list[Binding]:
    """The bindings a class declares itself, one an entry."""
    return list(Binding.make_bindings(owner.__dict__.get("BINDINGS", ())))


def key_names(bindings: Iterable[Binding]) -> list[tuple[str, str]]:
    """(keys, what they do): the keys of one deed together, in the order of declaration."""
    keys: dict[str, list[str]] = {}
    for binding in bindings:
        if binding.description:
            keys.setdefault(binding.description, []).append(_name(binding))
    return [(" ".join(dict.fromkeys(names)), what) for what, names in keys.items()]


def _name(binding: Binding) -> str:
    return binding.key_display or display(binding.key)


class KeysScreen(Dialog[None]):
    """The key list, made from the bindings given."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("f1,question_mark,q", "cancel", "Close", priority=True)]

    def __init__(self, groups: list[tuple[str, list[Binding]]]) -> None:
        super().__init__("keys")
        self.groups = groups

    def body(self) -> ComposeResult:
        with VerticalScroll(id="rows"):
            yield Static(self.text(), id="list")

    def text(self) -> Content:
        """The whole list as one text."""
        parts: list[tuple[str, str] | str] = []
        for title, bindings in self.groups:
            rows = key_names(bindings)
            if rows:
                parts.append((f"{title}\n", "bold"))
                parts.extend(f"  {keys:<{KEY_WIDTH}} {what}\n" for keys, what in rows)
                parts.append("\n")
        return Content.assemble(*parts)
