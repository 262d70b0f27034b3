"""Small screens that ask for one thing: a value, a text, one of several."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from ...engine.errors import CutawayError
from ..chat.composer import Composer
from ..printable import printable

T = TypeVar("T")


class Dialog(ModalScreen[T], Generic[T]):
    """A box over the main screen; Esc closes it with nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,ctrl+c", "cancel", "Close", priority=True)]
    FOOT: ClassVar[str] = ""  # in the frame's lower edge: how to leave a box that says it nowhere else

    def __init__(self, title: str) -> None:
        super().__init__()
        self.heading = title

    def compose(self) -> ComposeResult:
        with Vertical(id="box") as box:
            box.border_title = Content(printable(self.heading))
            box.border_subtitle = Content(self.FOOT)
            yield from self.body()

    def body(self) -> ComposeResult:
        raise NotImplementedError

    def action_cancel(self) -> None:
        self.dismiss(None)


class ValueDialog(Dialog[T]):
    """Asks for one line, and says what is wrong with it until nothing is."""

    def __init__(self, title: str, value: str, hint: str, read: Callable[[str], T]) -> None:
        super().__init__(title)
        self.value = value
        self.hint = hint
        self.read = read

    def body(self) -> ComposeResult:
        yield Input(self.value, id="value", select_on_focus=True)
        yield Static(Content(printable(self.hint)), id="hint")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        try:
            result = self.read(event.value)
        except CutawayError as error:
            self.query_one("#hint", Static).update(Content(printable(str(error))))
            self.query_one("#hint").add_class("wrong")
            return
        self.dismiss(result)


class TextDialog(Dialog[tuple[str, bool]]):
    """Edits a longer text. Returns it, and whether to go on writing from its end."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "done(False)", "Save", priority=True),
        Binding("ctrl+g", "done(True)", "Save and let the model write on", priority=True),
    ]

    def __init__(self, title: str, text: str, can_go_on: bool = False, hint: str = "") -> None:
        super().__init__(title)
        self.text = text
        self.can_go_on = can_go_on
        self.hint = hint

    def body(self) -> ComposeResult:
        yield TextEditor(id="text")
        more = " · Ctrl+G save and let the model write on" if self.can_go_on else ""
        yield Static(
            Content(f"Ctrl+S or Enter save{more} · Ctrl+J new line · Esc leave it as it was {self.hint}"), id="hint"
        )

    def on_mount(self) -> None:
        self.query_one(TextEditor).put(self.text)

    def on_composer_sent(self, event: Composer.Sent) -> None:
        event.stop()
        self.action_done(False)

    def action_done(self, go_on: bool) -> None:
        self.dismiss((self.query_one(TextEditor).message, go_on and self.can_go_on))


class TextEditor(Composer):
    """The composer without a history: up and down stay in the text."""

    def _recall(self, text: str | None) -> None:
        return


class ChoiceDialog(Dialog[int]):
    """One of several lines; returns its number."""

    def __init__(self, title: str, choices: list[str], chosen: int = 0) -> None:
        super().__init__(title)
        self.choices = choices
        self.chosen = chosen

    def body(self) -> ComposeResult:
        yield OptionList(*(Option(Content(printable(choice))) for choice in self.choices), id="choices")

    def on_mount(self) -> None:
        choices = self.query_one(OptionList)
        choices.highlighted = min(self.chosen, len(self.choices) - 1) if self.choices else None
        choices.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(event.option_index)
