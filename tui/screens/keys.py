"""Every key there is, read from the bindings themselves."""

from __future__ import annotations

import textwrap
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


def _row(keys: str, what: str, width: int) -> str:
    """One line of the list, and those below it where it is wrapped: these begin where its words do."""
    above = ""
    if len(keys) > KEY_WIDTH:  # they have a line of their own
        above, keys = f"  {keys}\n", ""
    begin = f"  {keys:<{KEY_WIDTH}} "
    if width < 2 * len(begin):
        return f"{above}{begin}{what}\n"
    return above + textwrap.fill(what, width, initial_indent=begin, subsequent_indent=" " * (KEY_WIDTH + 3)) + "\n"


class KeysScreen(Dialog[None]):
    """The key list, made from the bindings given."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("f1,question_mark,q", "cancel", "Close", priority=True)]
    FOOT = "↑ ↓ move · Esc closes"

    def __init__(self, groups: list[tuple[str, list[Binding]]]) -> None:
        super().__init__("keys")
        self.groups = groups

    def body(self) -> ComposeResult:
        with VerticalScroll(id="rows"):
            yield Static(self.text(), id="list")

    def on_resize(self) -> None:
        # After the layout: the width that is left for the list, beside its scrollbar.
        self.call_after_refresh(self._fill)

    def _fill(self) -> None:
        for listed in self.query("#list").results(Static):  # none where the list was closed meanwhile
            listed.update(self.text(listed.content_size.width))

    def text(self, width: int = 0) -> Content:
        """The whole list as one text, wrapped for this many columns; 0: every key on one line."""
        parts: list[tuple[str, str] | str] = []
        for title, bindings in self.groups:
            rows = key_names(bindings)
            if rows:
                parts.append((f"{title}\n", "bold"))
                parts.extend(_row(keys, what, width) for keys, what in rows)
                parts.append("\n")
        return Content.assemble(*parts)
