"""The main screen's actions that find words in the chat shown."""

from __future__ import annotations

from ..chat.findbar import FindBar
from ..chat.view import ConversationView
from .base import MainBase


class FindActions(MainBase):
    """Open the row, mark what is found, go from match to match."""

    @property
    def find_bar(self) -> FindBar:
        return self.query_one(FindBar)

    def action_show_chat(self) -> None:
        """Let the chat have its place on the screen."""
        raise NotImplementedError

    def action_find(self) -> None:
        if self.find_bar.opened and self.find_bar.has_focus_within:
            self.find_bar.action_turn(1)
            return
        self.action_show_chat()
        self.find_bar.open()
        self.view.look(self.find_bar.words)
        self.find_bar.tell(self.view.finder.told())

    def on_find_bar_looked(self, event: FindBar.Looked) -> None:
        event.stop()
        self.view.look(event.words if self.find_bar.opened else "")
        self.find_bar.tell(self.view.finder.told())

    def on_find_bar_turned(self, event: FindBar.Turned) -> None:
        event.stop()
        self.view.turn(event.by)
        self.find_bar.tell(self.view.finder.told())

    def on_conversation_view_found_changed(self, event: ConversationView.FoundChanged) -> None:
        event.stop()
        self.find_bar.tell(self.view.finder.told())

    def on_find_bar_closed(self, event: FindBar.Closed) -> None:
        event.stop()
        self.view.look("")
        self.view.focus()
