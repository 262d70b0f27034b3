"""What the parts of the main screen share."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, TypeVar

from textual import events
from textual.screen import Screen

from ...engine.errors import CutawayError
from ..chat.composer import Composer
from ..chat.view import ConversationView
from ..keymap import STANDARD
from ..printable import printable
from ..session import Session
from ..state.conversation import Node

T = TypeVar("T")


class MainBase(Screen[None]):
    """The session, the keys and the two widgets of the chat; `say` tells the reader something."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self._appeared = False
        self._said = "", 0.0  # told last, and until when it is shown
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
        """Tell the reader something in passing; what is told already is not told again below itself."""
        now = time.monotonic()
        if self._said[0] == text and now < self._said[1]:
            return
        self._said = text, now + seconds
        self.notify(printable(text), severity=severity, markup=False, timeout=seconds)

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        event.refresh_styles = self._appeared  # the first time, all was styled as it was mounted, just now
        self._appeared = True

    # The dialogs are imported where they are opened: the first paint does not wait for them.

    def ask_value(
        self, title: str, value: str, hint: str, read: Callable[[str], T], then: Callable[[T | None], None]
    ) -> None:
        """Ask for one line; `read` makes what `then` gets of it, and raises `CutawayError` for what it can't take."""
        from .dialogs import ValueDialog

        self.app.push_screen(ValueDialog(title, value, hint, read), then)

    def ask_text(
        self,
        title: str,
        text: str,
        then: Callable[[tuple[str, bool] | None], None],
        can_go_on: bool = False,
        hint: str = "",
    ) -> None:
        """Let a longer text be edited; `then` gets it, and whether the model is to write on from its end."""
        from .dialogs import TextDialog

        self.app.push_screen(TextDialog(title, text, can_go_on, hint), then)

    def ask_choice(self, title: str, choices: list[str], then: Callable[[int | None], None], chosen: int = 0) -> None:
        """Let one of several lines be chosen; `then` gets its number."""
        from .dialogs import ChoiceDialog

        self.app.push_screen(ChoiceDialog(title, choices, chosen), then)

    def wake_engine(self, spare: str = "") -> None:
        """Before asking for something: start the engine again if it is gone, the chat's own if it is another one."""
        self.follow_choice(spare)
        self.session.revive()

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
