"""What the screen works on: engine state, selection, chats, and the link to the engine. No Textual."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import msgspec

from ..engine.client import Engine
from ..engine.protocol import (
    Command,
    Configure,
    Configured,
    Event,
    Failed,
    Finished,
    Load,
    Ready,
    Rejected,
    SamplingSettings,
)
from ..engine.session_trace import Remembering, SessionTrace
from .chat.exchange import Exchange
from .chat.meter import Meter
from .link import EngineLink
from .state import EngineState, Selection
from .state.conversation import Conversation, Node
from .state.keeping import ConversationStore, MemoryStore


class Session:
    """One run of the program. `on_event` is called after every event with the messages it changed.

    `conversation` is one that the store has open, to begin with; without it, a new one is.
    `remember` keeps all that is said, so that it can be saved as a trace.
    `now_ns` is the screen's clock, on which events come in and are painted.
    """

    def __init__(
        self,
        engine: Engine,
        load: Load | None = None,
        settings: SamplingSettings | None = None,
        store: ConversationStore | None = None,
        system: str = "",
        configure: Configure | None = None,
        now_ns: Callable[[], int] = time.monotonic_ns,
        conversation: Conversation | None = None,
        remember: bool = False,
    ) -> None:
        self.state = EngineState(now_ns=now_ns)
        self.selection = Selection()
        self.exchange = Exchange(settings)
        self.store: ConversationStore = store or MemoryStore()
        self.system = system
        self.conversation: Conversation = conversation or self.store.create(system)
        self.meter = Meter()
        self.traffic: set[str] = set()
        self.trouble: tuple[str, str] | None = None  # why there is no engine, and what to do
        self.unloaded: tuple[str, str] | None = None  # why the model asked for last is not loaded, and what to do
        self.trace: SessionTrace | None = None
        if remember:
            engine = remembering = Remembering(engine)
            self.trace = remembering.trace
        self.link = EngineLink(engine, load or Load(), self._heard, self._lost, configure)
        self.on_event: Callable[[Event | None, list[Node]], None] = lambda event, changed: None

    def send(self, *commands: Command) -> None:
        self.link.send(*commands)  # pyright: ignore[reportArgumentType] - every Command is one of AnyCommand

    @property
    def generating(self) -> bool:
        """A reply of the chat shown is being written."""
        return any(node.running for node in self.conversation.path())

    def painted(self, requests: Iterable[str]) -> None:
        """Say that text of these requests has just reached the screen."""
        for request in requests:
            self.state.mark_painted(request, self.state.now_ns())

    def load_model(self, spec: str) -> None:
        """Ask for another model, as `--model` names it. Every chat stays, and is rendered anew by its template."""
        self.unloaded = None
        self.link.change(msgspec.structs.replace(self.link.load, model=spec))

    def _heard(self, event: Event) -> None:
        self.state.apply(event)
        if isinstance(event, Configured):
            self.trouble = None
        elif isinstance(event, Ready):
            self.unloaded = None
        elif isinstance(event, Failed) and event.loading:
            self.unloaded = (event.message, event.action)
        elif isinstance(event, Finished | Rejected):
            self.traffic.discard(event.request)
        changed = self.exchange.apply(event)
        self._keep(changed)
        self._measure()
        self.on_event(event, changed)

    def _lost(self, message: str, action: str) -> None:
        self.trouble = (message, action)
        self.traffic.clear()
        changed = self.exchange.lost(message, action)
        self._keep(changed)
        self.on_event(None, changed)

    def _keep(self, changed: list[Node]) -> None:
        """Let the store have what came: a reply that grows in a while, one that has ended now."""
        for node in changed:
            home = self.exchange.home(node.reply.request) if node.reply is not None else None
            if home is not None and node.running:
                self.store.note(home, node)
            elif home is not None:
                self.store.save(home)

    def _measure(self) -> None:
        card = self.state.card
        self.meter.window = card.window if card is not None else 0
        reply = next((n.reply for n in reversed(self.conversation.path()) if n.reply is not None), None)
        self.meter.used = reply.prompt_tokens + reply.tokens if reply is not None else 0

    def show(self, conversation: Conversation) -> None:
        """Make another chat the one shown."""
        self.conversation = conversation
        self._measure()

    def new_chat(self) -> Conversation:
        self.show(self.store.create(self.system))
        return self.conversation
