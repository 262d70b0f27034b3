"""All chats, the newest first, and a field that searches them."""

from __future__ import annotations

from collections.abc import Callable
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
        Binding("delete", "delete", "Delete this chat, or bring it back", priority=True),
    ]

    def __init__(self, store: ConversationStore, shown: str, delete: Callable[[str], None]) -> None:
        super().__init__("chats")
        self.store = store
        self.shown = shown
        self.delete = delete  # the chat with this key, open or not
        self.gone: set[str] = set()  # deleted here: they stay in the list as long as it is open
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
        if not self.found:
            self._hint("No chat holds all these words." if words.strip() else "No chat is kept yet.")

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
        title = " ".join(item.title.split())
        if item.key in self.gone:
            return Content.assemble((printable(f"✗ {title}  deleted"), "dim"))
        mark = "▸ " if item.key == self.shown else "  "
        parts = [mark + title, (f"  {item.when} · {item.messages}", "dim")]
        if item.found:
            parts.append((f"\n    {item.found}", "dim"))
        return Content.assemble(*(printable(p) if isinstance(p, str) else (printable(p[0]), p[1]) for p in parts))

    def _hint(self, text: str) -> None:
        self.query_one("#hint", Static).update(Content(text))

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        gone = self.found[event.option_index].key in self.gone
        self._hint(f"Enter opens · Del {'brings it back' if gone else 'deletes'} · ↑ ↓ choose · Esc closes")

    def action_delete(self) -> None:
        words, choices = self.query_one(Input), self.query_one(OptionList)
        if words.cursor_position < len(words.value):
            words.action_delete_right()  # there it is a key of the field
            return
        at = choices.highlighted
        if at is None or at >= len(self.found):
            return
        key = self.found[at].key
        if key in self.gone:
            self._restore(key)
        else:
            self.gone.add(key)
            self.delete(key)
        choices.replace_option_prompt_at_index(at, self._line(self.found[at]))
        choices.post_message(OptionList.OptionHighlighted(choices, choices.get_option_at_index(at), at))

    def _restore(self, key: str) -> None:
        self.gone.discard(key)
        self.store.restore_key(key)

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
            key = self.found[at].key
            if key in self.gone:
                self._restore(key)
            self.dismiss(key)
