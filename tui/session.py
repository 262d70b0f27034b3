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
    Step,
    TextDelta,
)
from ..engine.session_trace import Remembering, SessionTrace
from .chat.exchange import Exchange
from .chat.meter import Meter
from .link import EngineLink
from .state import EngineState, Selection
from .state.choice import Choice
from .state.conversation import Conversation, Node
from .state.keeping import ConversationStore, MemoryStore
from .switching import Answering, Sources


class Session:
    """One run of the program. `on_event` is called after every event with the messages it changed.

    `conversation` is one that the store has open, to begin with; without it, a new one is.
    `remember` keeps all that is said, so that it can be saved as a trace.
    `later` opens the store that chats are kept in from `open_store` on; until then `store` has them.
    `sources` are the engines that chats can be switched among.
    `now_ns` is the screen's clock, on which events come in and are painted.
    """

    asks = True  # whether there is something that answers

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
        sources: Sources | None = None,
        later: Callable[[], ConversationStore] | None = None,
    ) -> None:
        self.state = EngineState(now_ns=now_ns)
        self.selection = Selection()
        self.exchange = Exchange(settings)
        self.store: ConversationStore = store or MemoryStore()
        self._later = later
        self.system = system
        self.answering = Answering(sources)
        self.conversation: Conversation = conversation or self._create()
        self._meter = Meter()
        self.traffic: set[str] = set()
        self.trouble: tuple[str, str] | None = None  # why there is no engine, and what to do
        self.unloaded: tuple[str, str] | None = None  # why the model asked for last is not loaded, and what to do
        self.trace: SessionTrace | None = None
        if remember:
            engine = remembering = Remembering(engine)
            self.trace = remembering.trace
        self.link = EngineLink(engine, load or Load(), self._heard, self._lost, configure)
        self._chosen_for: tuple[Conversation, Choice | None] | None = None  # on trial; what it had before
        self.on_event: Callable[[Event | None, list[Node]], None] = lambda event, changed: None
        self.went_back = False  # the failure that `on_event` tells sent us back to what answered before

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

    def open_store(self) -> bool:
        """Keep chats in the store that was to be opened later; False where there is none."""
        later, self._later = self._later, None
        if later is None:
            return False
        before, self.store = self.store, later()
        for conversation in before.all():
            self.store.adopt(conversation)
        return True

    def load_model(self, spec: str) -> None:
        """Ask for another model, as `--model` names it. Every chat stays, and is rendered anew by its template."""
        self.unloaded = None
        self.link.change(msgspec.structs.replace(self.link.load, model=spec))

    def revive(self) -> None:
        """Start the engine again if it is gone."""
        if self.trouble is not None:
            self.trouble = None
            self.link.restart()

    # ---------------------------------------------------------------------------------------- who answers

    def choose(self, choice: Choice) -> None:
        """Let this chat be answered from elsewhere. Raises `CutawayError`, and changes nothing, if that names nothing.

        If nothing answers there, what answered before does again; then, or when the model is there, `on_event` tells.
        """
        chat, before = self.conversation, self.conversation.choice
        if self._chosen_for is not None and self._chosen_for[0] is chat:
            before = self._chosen_for[1]
        self._go(choice, picked=True)
        if self.answering.sources is not None:
            self._chosen_for = (chat, before)
            chat.choice = choice

    @property
    def strays(self) -> bool:
        """Whether another engine or model answers than this chat's own."""
        choice, now = self.conversation.choice, self.answering.now
        return choice is not None and now is not None and choice != now and self.answering.sources is not None

    def follow(self, spare: str = "") -> None:
        """Let this chat be answered by what it was answered by before. Raises `CutawayError` where there is no such.

        `spare` is a request that is still to be sent; what else is under way in other chats ends.
        """
        if self.strays and self.conversation.choice is not None:
            self._go(self.conversation.choice, picked=False, spare=spare)

    def _go(self, choice: Choice, picked: bool, spare: str = "") -> None:
        answering = self.answering
        if answering.sources is None:
            self.load_model(choice.model)
            return
        prepared = answering.sources.prepare(choice)
        same = answering.now is not None and answering.now.server == choice.server
        answering.try_out(choice, picked)
        if same:
            self.load_model(prepared.load.model)
            return
        self.unloaded = self.trouble = None
        self.traffic.clear()
        changed = self.exchange.lost(f"{choice.told()} was chosen before this had ended", "", spare)
        self._keep(changed)
        self.state.left()
        self.link.switch(prepared.swap, prepared.load, prepared.configure)
        self.on_event(None, changed)

    def _settle_choice(self) -> None:
        """The model is there: what was chosen holds. A chat for which nothing ever was keeps to it from now on."""
        self.answering.proved()
        if self.conversation.choice is None:
            self.conversation.choice = self.answering.now
        if self._chosen_for is not None:
            self.store.save(self._chosen_for[0])
        self._chosen_for = None

    def _go_back(self, event: Failed) -> bool:
        """What was chosen can't be had: answer as before. False: there is no before, or the chosen server is there."""
        answering = self.answering
        before, tried = answering.before, answering.now
        if before is None or tried is None or event.request:
            return False
        answering.before, answering.picked = None, False
        stays = before.server == tried.server  # with what it had
        if self._chosen_for is not None and (stays or event.kind != "model"):
            self._chosen_for[0].choice = self._chosen_for[1]
        self._chosen_for = None
        if stays:
            answering.now = before
        elif event.kind != "model":  # else it only wants another model to be named
            answering.now = tried
            self._go(before, picked=False)
            answering.before = None
            return True
        return False

    def _tell_way_back(self, event: Failed) -> None:
        self.went_back = True
        self.on_event(event, [])
        self.went_back = False

    # ------------------------------------------------------------------------------------------- events

    def _heard(self, event: Event) -> None:
        self.state.apply(event)
        if isinstance(event, (Step, TextDelta)):  # with every token: nothing below is about them
            self._changed(event)
            return
        if isinstance(event, Configured):
            self.trouble = None
        elif isinstance(event, Ready):
            self.unloaded = None
            self._settle_choice()
        elif isinstance(event, Failed) and self._go_back(event):
            self._tell_way_back(event)
            return
        elif isinstance(event, Failed) and event.loading:
            self.unloaded = (event.message, event.action)
        elif isinstance(event, Finished | Rejected):
            self.traffic.discard(event.request)
        self._changed(event)

    def _changed(self, event: Event) -> None:
        if changed := self.exchange.apply(event):
            self._keep(changed)
        self.on_event(event, changed)

    def _lost(self, message: str, action: str) -> None:
        if self._go_back(failed := Failed(message, action, "died", fatal=True)):
            self._tell_way_back(failed)
            return
        self.trouble = (message, action)
        self.traffic.clear()
        self.state.lost(message)
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

    @property
    def meter(self) -> Meter:
        """How full the window is now."""
        meter, card = self._meter, self.state.card
        meter.window = card.window if card is not None else 0
        reply = next((n.reply for n in reversed(self.conversation.path()) if n.reply is not None), None)
        meter.used = reply.prompt_tokens + reply.tokens if reply is not None else 0
        return meter

    def show(self, conversation: Conversation) -> None:
        """Make another chat the one shown."""
        self.conversation = conversation

    def new_chat(self) -> Conversation:
        self.show(self._create())
        return self.conversation

    def _create(self) -> Conversation:
        conversation = self.store.create(self.system)
        conversation.choice = self.answering.last
        return conversation
