"""A recorded conversation on the screen: a session whose engine only remembers. No Textual.

Events alone do not tell what was asked in which chat; the trace holds that too, so each `Submit` and `Fork` in it finds
its place in a conversation again. The screen's clock is the recorder's: what is shown is the same in every playback.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..engine.protocol import AnyCommand, Configure, Fork, Message, SamplingSettings, Submit
from ..engine.replay import ReplayEngine
from .chat.exchange import Exchange
from .session import Session
from .state.conversation import Conversation, Node

FRAME_NS = 1_000_000_000 // 12  # a recording does not tell when text was painted: one frame after it came in


class _Recorded(Exchange):
    """Requests have the names they had."""

    next = ""

    def name(self, kind: str = "chat") -> str:
        return self.next


class Playback(Session):
    """Shows the trace in `path`; the other arguments are `ReplayEngine`'s. `over`: all that will be played was."""

    asks = False

    def __init__(
        self,
        path: Path | str,
        speed: float | None = 1.0,
        longest_gap: float | None = None,
        paused: bool = False,
        upto: int | None = None,
    ) -> None:
        engine = ReplayEngine(path, speed, longest_gap, paused, upto=upto, stay=True, sent=self._sent)
        super().__init__(engine, now_ns=engine.now_ns)
        self.engine = engine
        self.exchange = self._names = _Recorded()

    @property
    def over(self) -> bool:
        return self.engine.over

    def painted(self, requests: Iterable[str]) -> None:
        """Take what was painted as painted one frame after it came in, however fast this is played."""
        for request in requests:
            state = self.state.requests.get(request)
            for number, sample in list(state.samples.items()) if state is not None else []:
                if sample.first_received_ns:
                    self.state.mark_painted(request, sample.first_received_ns + FRAME_NS, number)

    def _sent(self, command: AnyCommand) -> None:
        """Do to the chats what the recorded command did."""
        match command:
            case Submit(label=""):
                self._asked(command.request, command.settings)
                self._submitted(command)
            case Submit():
                self.traffic.add(command.request)
            case Fork():
                self._asked(command.request, command.settings)
                made = self.exchange.fork(command.source, command.sample, command.at, command.forced)
                home = self.exchange.home(command.source)
                if made is None or home is None:
                    return
                self.show(home)
            case Configure(request=str(), settings=SamplingSettings() as settings):
                self.exchange.settings = settings
            case _:
                return
        self.on_event(None, [])

    def _asked(self, request: str, settings: SamplingSettings | None) -> None:
        self.exchange.settings = settings or self.exchange.settings
        self._names.next = request
        self.selection.select_request(request)

    def _submitted(self, command: Submit) -> None:
        """Put the question where it belongs: below the messages it was sent with."""
        conversation, node = self._place(command.messages)
        self.show(conversation)
        if command.continue_last:
            self.exchange.go_on(conversation, node)
        else:
            self.exchange.answer(conversation, node)

    def _place(self, messages: tuple[Message, ...]) -> tuple[Conversation, Node]:
        """The last of these messages in a chat that has said the same so far, else in a new one."""
        for upto in (len(messages), len(messages) - 1):
            for conversation in self.store.all():
                for node in conversation.walk():
                    if conversation.messages(node) == messages[:upto]:
                        return conversation, _add(conversation, node, messages[upto:])
        head = [message.content for message in messages[:1] if message.role == "system"]
        conversation = self.conversation if not self.conversation.root.children else self.store.create()
        conversation.system = "".join(head)
        return conversation, _add(conversation, conversation.root, messages[len(head) :])


def _add(conversation: Conversation, node: Node, messages: tuple[Message, ...]) -> Node:
    for message in messages:
        node = conversation.add(message.role, message.content, node)
    return node
