"""The row that finds words in the chat shown: what to look for, and which match of how many this is."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static


class FindBar(Horizontal):
    """Says what is looked for; whoever has the messages says what was found with `tell`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "turn(1)", "Next match (also Enter, Ctrl+F)", priority=True),
        Binding("up", "turn(-1)", "Match before", priority=True),
    ]

    class Looked(Message):
        """Other words are looked for."""

        def __init__(self, words: str) -> None:
            super().__init__()
            self.words = words

    class Turned(Message):
        """Another match is wanted."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    class Closed(Message):
        """The reader has found it, or gives up."""

    def compose(self) -> ComposeResult:
        yield Static("find ")
        yield Input(id="find-words", select_on_focus=True)
        yield Static(id="find-told")

    @property
    def opened(self) -> bool:
        return self.has_class("open")

    @property
    def words(self) -> str:
        """What is looked for."""
        return self.query_one(Input).value

    def open(self) -> None:
        """Show the row and write in it."""
        self.add_class("open")
        self.query_one(Input).focus()

    def tell(self, text: str) -> None:
        """Which match of how many."""
        self.query_one("#find-told", Static).update(Content(f" {text}" if text else ""))

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Looked(event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Turned(1))

    def action_turn(self, by: int) -> None:
        self.post_message(self.Turned(by))

    def action_close(self) -> None:
        self.remove_class("open")
        self.post_message(self.Closed())
