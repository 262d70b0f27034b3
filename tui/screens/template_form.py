"""The fields of a prompt template, to be filled in."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from ..chat.composer import Composer
from ..printable import printable
from .dialogs import Dialog, TextEditor


class Field(TextEditor):
    """One field. Enter leaves it, empty or not."""

    def action_send(self) -> None:
        self.post_message(self.Sent(self.message))


class TemplateForm(Dialog[dict[str, str]]):
    """Returns what was written into each field. Enter goes to the next field, and from the last one ends."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "done", "Done", priority=True)]

    def __init__(self, name: str, fields: list[str]) -> None:
        super().__init__(f"template {name}")
        self.fields = fields

    def body(self) -> ComposeResult:
        with VerticalScroll(id="fields", can_focus=False):
            for number, field in enumerate(self.fields):
                yield Static(Content(printable(field)), classes="field")
                yield Field(id=f"field-{number}")
        yield Static("Enter next field, at the last one done · Tab between fields · Ctrl+J new line", id="hint")

    def on_mount(self) -> None:
        self._editor(0).focus()

    def _editor(self, number: int) -> Field:
        return self.query_one(f"#field-{number}", Field)

    def on_composer_sent(self, event: Composer.Sent) -> None:
        event.stop()
        number = next((n for n in range(len(self.fields)) if self._editor(n).has_focus), 0)
        if number + 1 < len(self.fields):
            self._editor(number + 1).focus()
        else:
            self.action_done()

    def action_done(self) -> None:
        values = {field: self._editor(number).message for number, field in enumerate(self.fields)}
        for number, field in enumerate(self.fields):
            if not values[field].strip():
                self._editor(number).focus()
                hint = self.query_one("#hint", Static)
                hint.update(Content(printable(f"{field} is empty: fill it in, or Esc leaves the template.")))
                hint.add_class("wrong")
                return
        self.dismiss(values)
