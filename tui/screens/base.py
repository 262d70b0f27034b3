"""What the parts of the main screen share."""

from __future__ import annotations

from typing import Literal

from textual.screen import Screen

from ...engine.errors import CutawayError
from ..chat.composer import Composer
from ..chat.view import ConversationView
from ..keymap import STANDARD
from ..printable import printable
from ..session import Session
from ..state.conversation import Node


class MainBase(Screen[None]):
    """The session, the keys and the two widgets of the chat; `say` tells the reader something."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.keymap = STANDARD

    @property
    def view(self) -> ConversationView:
        return self.query_one(ConversationView)

    @property
    def composer(self) -> Composer:
        return self.query_one("#composer", Composer)

    def say(
        self, text: str, severity: Literal["information", "warning", "error"] = "information", seconds: float = 6
    ) -> None:
        """Tell the reader something in passing."""
        self.notify(printable(text), severity=severity, markup=False, timeout=seconds)

    def wake_engine(self, spare: str = "") -> None:
        """Before asking for something: start the engine again if it is gone, the chat's own if it is another one."""
        self.follow_choice(spare)
        if self.session.trouble is not None:
            self.session.trouble = None
            self.session.link.restart()

    def follow_choice(self, spare: str = "") -> None:
        """Let the chat shown be answered by what it was answered by before; `spare` is a request still to be sent."""
        try:
            self.session.follow(spare)
        except CutawayError as error:
            self.session.conversation.choice = self.session.answering.now
            self.say(f"{error} {self.session.answering.told} goes on with this chat.", "error")

    def changed(self, nodes: list[Node]) -> None:
        """Messages have changed: draw them soon."""
        raise NotImplementedError

    def path_changed(self) -> None:
        """Another path or another chat is shown: draw it now."""
        raise NotImplementedError

    def action_write(self) -> None:
        """Go where messages are written."""
        raise NotImplementedError
