"""The words that chapters and panels use, each with what it means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from ..screens.dialogs import Dialog


class WordsScreen(Dialog[None]):
    """A list of words; Esc or w closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("w,q", "cancel", "Close", priority=True)]
    FOOT = "↑ ↓ move · Esc closes"
    DEFAULT_CSS = """
    WordsScreen #box { width: 76; height: 80%; }
    WordsScreen #rows { height: 1fr; }
    """

    def __init__(self, words: Mapping[str, str]) -> None:
        super().__init__("words, up to this chapter")
        self.words = words

    def body(self) -> ComposeResult:
        with VerticalScroll(id="rows"):
            yield Static(words_text(self.words))


def words_text(words: Mapping[str, str]) -> Content:
    """One word a line, in bold, and its meaning."""
    parts: list[str | tuple[str, str]] = []
    for word, meaning in words.items():
        parts += [(word, "bold"), f": {meaning}\n"]
    return Content.assemble(*parts)
