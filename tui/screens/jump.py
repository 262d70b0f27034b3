"""Jump mode: a letter on every place that can be gone to."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

LETTERS = "asdfghjklqwertyuiopzxcvbnm"


class JumpScreen(ModalScreen[Widget | None]):
    """Shows a letter at each widget's corner and returns the widget whose letter is pressed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,ctrl+c", "cancel", "Close", priority=True)]
    DEFAULT_CSS = """
    JumpScreen { background: transparent; }
    JumpScreen .letter { position: absolute; width: 3; height: 1; text-style: bold reverse; }
    """

    def __init__(self, places: list[Widget]) -> None:
        super().__init__()
        self.places = dict(zip(LETTERS, places, strict=False))

    def compose(self) -> ComposeResult:
        for letter, widget in self.places.items():
            mark = Static(Content(f" {letter} "), classes="letter")
            mark.styles.offset = (widget.region.x, widget.region.y)
            yield mark

    def on_key(self, event: events.Key) -> None:
        event.stop()
        if event.character and event.character.lower() in self.places:
            self.dismiss(self.places[event.character.lower()])

    def on_click(self) -> None:
        self.dismiss(None)

    def action_cancel(self) -> None:
        self.dismiss(None)
