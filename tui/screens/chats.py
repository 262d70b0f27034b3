"""All chats, the newest first, and a field that searches them."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from ...engine.errors import CutawayError
from ..printable import printable
from ..state.keeping import ConversationStore, Listed
from .dialogs import Dialog

PAGE = 50
SEARCH_AFTER = 0.15  # seconds without a key until what was typed is searched for


class ChatsDialog(Dialog[str]):
    """Returns the key of the chat chosen. Typing searches titles and messages; the list grows as it is walked."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "move(1)", "Next chat", priority=True),
        Binding("up", "move(-1)", "Chat before", priority=True),
        Binding("pagedown", "move(10)", "Ten chats on", priority=True),
        Binding("pageup", "move(-10)", "Ten chats back", priority=True),
    ]

    def __init__(self, store: ConversationStore, shown: str) -> None:
        super().__init__("chats")
        self.store = store
        self.shown = shown
        self.found: list[Listed] = []
        self._more = True
        self._due: Timer | None = None

    def body(self) -> ComposeResult:
        yield Input(placeholder="search titles and messages", id="words")
        yield OptionList(id="choices")
        yield Static(id="hint")

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self._list("")

    def on_input_changed(self) -> None:
        if self._due is not None:
            self._due.stop()
        self._due = self.set_timer(SEARCH_AFTER, self._search)

    def _search(self) -> None:
        self._due = None
        self._list(self.query_one(Input).value)

    def _list(self, words: str) -> None:
        """Show the first chats, or those that hold the words."""
        self.found, self._more = [], not words.strip()
        choices = self.query_one(OptionList)
        choices.clear_options()
        self._add(words)
        at = next((i for i, item in enumerate(self.found) if item.key == self.shown and not words.strip()), 0)
        choices.highlighted = at if self.found else None
        none = "No chat holds all these words." if words.strip() else "No chat is kept yet."
        self._hint("Enter opens · ↑ ↓ choose · Esc closes" if self.found else none)

    def _add(self, words: str) -> None:
        try:
            if words.strip():
                new = self.store.find(words, PAGE)
            else:
                new = self.store.listed(PAGE, len(self.found))
                self._more = len(new) == PAGE
        except CutawayError as error:
            self.notify(printable(str(error)), severity="error", markup=False)
            return
        self.found += new
        self.query_one(OptionList).add_options([Option(self._line(item)) for item in new])

    def _line(self, item: Listed) -> Content:
        mark = "▸ " if item.key == self.shown else "  "
        parts = [mark + " ".join(item.title.split()), (f"  {item.when} · {item.messages}", "dim")]
        if item.found:
            parts.append((f"\n    {item.found}", "dim"))
        return Content.assemble(*(printable(p) if isinstance(p, str) else (printable(p[0]), p[1]) for p in parts))

    def _hint(self, text: str) -> None:
        self.query_one("#hint", Static).update(Content(text))

    def action_move(self, by: int) -> None:
        choices = self.query_one(OptionList)
        if not self.found:
            return
        at = (choices.highlighted or 0) + by
        if at >= len(self.found) - 1 and self._more:
            self._add("")
        choices.highlighted = max(0, min(at, len(self.found) - 1))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self._due is not None:
            self._due.stop()
            self._search()
        self._choose(self.query_one(OptionList).highlighted)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._choose(event.option_index)

    def _choose(self, at: int | None) -> None:
        if at is not None and at < len(self.found):
            self.dismiss(self.found[at].key)
