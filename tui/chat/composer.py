"""Where a message is written: grows with it, keeps a history, and sends only on Enter."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea

from .drafts import History
from .visible import visible

PASTE_LIMIT = 8_000  # characters; a longer paste is held aside, because editing slows down with the length
MARK = "⟦paste {number}: {characters:,} characters, {lines:,} lines⟧"


class Composer(TextArea):
    """A prompt of several lines.

    A long paste appears as one mark and is put in its place when the message is sent: nothing of it is lost, and
    typing stays quick.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "Send"),
        Binding("ctrl+j,alt+enter,shift+enter", "newline", "New line (also: \\ at the end, then Enter)"),
        Binding("up", "cursor_up", "Line above; at the first line, the prompt before", show=False),
        Binding("down", "cursor_down", "Line below; at the last line, the prompt after", show=False),
    ]

    class Sent(Message):
        """The reader sends `text`."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, prompts: History | None = None, *, id: str | None = None) -> None:
        super().__init__(
            id=id, soft_wrap=True, show_line_numbers=False, tab_behavior="focus", highlight_cursor_line=False
        )
        self.cursor_blink = False  # every blink draws the whole of it anew, also while a reply is written
        self.prompts = prompts or History()
        self._pastes: dict[str, str] = {}

    @property
    def message(self) -> str:
        """The text as it is sent: with the long pastes in their places."""
        text = self.text
        for mark, pasted in self._pastes.items():
            text = text.replace(mark, pasted)
        return text

    def put(self, text: str) -> None:
        """Put other text in, the cursor at its end."""
        self._pastes.clear()
        self.load_text("")
        self.insert_text(text)

    def insert_text(self, text: str) -> None:
        """Insert at the cursor as a paste does: every line is kept, nothing is sent."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if len(text) > PASTE_LIMIT:
            lines = text.count("\n") + 1
            mark = MARK.format(number=len(self._pastes) + 1, characters=len(text), lines=lines)
            self._pastes[mark] = text
            text = mark
        self.replace(text, *self.selection, maintain_selection_offset=False)

    def action_send(self) -> None:
        row, column = self.cursor_location
        line = self.document.get_line(row)
        if line.endswith("\\") and column == len(line) and self.cursor_at_last_line:
            self.replace("\n", (row, column - 1), (row, column), maintain_selection_offset=False)
            return
        text = self.message
        if text.strip():
            self.post_message(self.Sent(text))

    def sent(self, text: str) -> None:
        """The message was taken: remember it and begin anew, with what was typed since."""
        self.prompts.add(text)
        now = self.message
        self.put(now.removeprefix(text) if now.startswith(text) else "")

    async def _on_key(self, event: events.Key) -> None:
        # As priority bindings our keys would overtake the characters before them, which wait in this widget's queue;
        # as usual ones, looked up only after the event has bubbled to the app, those after them would overtake.
        for binding in self._bindings.key_to_bindings.get(event.key, ()):
            if not binding.priority and await self.app.run_action(binding.action, self):
                event.stop()
                event.prevent_default()
                return

    def action_newline(self) -> None:
        self.replace("\n", *self.selection, maintain_selection_offset=False)

    def action_cursor_up(self, select: bool = False) -> None:
        if not select and self.navigator.is_first_wrapped_line(self.cursor_location):
            self._recall(self.prompts.older(self.message))
        else:
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        if not select and self.navigator.is_last_wrapped_line(self.cursor_location):
            self._recall(self.prompts.newer())
        else:
            super().action_cursor_down(select)

    def _recall(self, text: str | None) -> None:
        if text is not None:
            self.put(text)

    def get_line(self, line_index: int) -> Text:
        """A line as it is drawn: one visible character for each that a terminal would obey."""
        return Text(visible(self.document.get_line(line_index)), end="", no_wrap=True)

    async def on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.insert_text(event.text)
