"""All themes; the one under the cursor is shown at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from ...engine import places
from ..printable import printable
from .dialogs import Dialog

if TYPE_CHECKING:
    from ..app import CutawayApp


class ThemesDialog(Dialog[str]):
    """Returns the theme chosen. Moving the cursor tries themes on; Esc puts the old one back."""

    def __init__(self) -> None:
        super().__init__("themes")
        self.names: list[str] = []
        self.before = ""

    def body(self) -> ComposeResult:
        yield OptionList(id="choices")
        yield Static(id="hint")

    @property
    def ours(self) -> CutawayApp:
        return cast("CutawayApp", self.app)

    def on_mount(self) -> None:
        self.ours.load_themes()
        self.before = self.app.theme
        self.names = sorted(self.ours.our_themes)
        choices = self.query_one(OptionList)
        choices.add_options([Option(Content(printable(self._line(name)))) for name in self.names])
        choices.highlighted = self.names.index(self.before) if self.before in self.names else 0
        choices.focus()
        told = [f"Enter keeps · Esc as it was · your own go into {places.config() / 'themes'}"]
        told += self.ours.theme_problems
        hint = self.query_one("#hint", Static)
        hint.update(Content(printable("\n".join(told))))
        hint.set_class(bool(self.ours.theme_problems), "wrong")

    def _line(self, name: str) -> str:
        theme = self.app.available_themes[name]
        return f"{'▸' if name == self.before else ' '} {name}  ·  {'dark' if theme.dark else 'light'}"

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self.app.theme = self.names[event.option_index]

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(self.names[event.option_index])

    def action_cancel(self) -> None:
        self.app.theme = self.before
        self.dismiss(None)
