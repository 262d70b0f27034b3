"""Between conversations and the engine: asking makes commands, events grow the replies. No Textual, no waiting.

Every method that asks for something returns the commands to send; `apply` takes every event and returns the messages
that it changed. One request makes one reply; the exchange knows which.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...engine.protocol import (
    Abort,
    Command,
    Event,
    Failed,
    Finished,
    Fork,
    Lane,
    ModelCard,
    PromptRendered,
    Ready,
    Rejected,
    SamplingSettings,
    SettingsChanged,
    Step,
    Submit,
    TextDelta,
    Timeline,
)
from ..state.conversation import Conversation, Node, Reply, Status

_ENDINGS: dict[str, Status] = {"end": "end", "stop": "stop", "length": "length", "aborted": "stopped"}


class Exchange:
    """Requests under way and the replies they write. `settings` are what the next request gets."""

    def __init__(self, settings: SamplingSettings | None = None) -> None:
        self.settings = settings or SamplingSettings()
        self._replies: dict[str, Node] = {}
        self._homes: dict[str, Conversation] = {}
        self._prefixes: dict[str, str] = {}
        self._silent: set[str] = set()  # requests under way whose text has not begun
        self._made = 0
        self._card: ModelCard | None = None

    def name(self, kind: str = "chat") -> str:
        """A request name that was not used before."""
        self._made += 1
        return f"{kind}-{self._made}"

    def node(self, request: str) -> Node | None:
        """The reply that a request writes or wrote."""
        return self._replies.get(request)

    def home(self, request: str) -> Conversation | None:
        """The conversation that a request's reply stands in."""
        return self._homes.get(request)

    @property
    def running(self) -> list[Node]:
        return [node for node in self._replies.values() if node.running]

    # ------------------------------------------------------------------------------------------------- asking

    def ask(self, conversation: Conversation, text: str) -> tuple[Node, list[Command]]:
        """Add the user's message to the path shown and ask for a reply; returns the reply, still empty."""
        conversation.add("user", text)
        return self.answer(conversation, conversation.leaf)

    def answer(self, conversation: Conversation, user: Node) -> tuple[Node, list[Command]]:
        """Ask for a (further) reply to a user's message."""
        request = self.name()
        node = conversation.add("assistant", "", user, Reply(request, settings=self.settings))
        self._take(request, node, conversation)
        return node, [self._submit(request, conversation, user)]

    def regenerate(self, conversation: Conversation, node: Node) -> tuple[Node, list[Command]]:
        """Ask again for the reply `node` (or for the one to the user's message `node`); the old one stays."""
        user = node if node.role == "user" else node.parent
        if user is None or user.parent is None:
            raise ValueError("there is no question to answer again")
        commands = self.stop([node])
        reply, more = self.answer(conversation, user)
        return reply, commands + more

    def go_on(self, conversation: Conversation, node: Node) -> tuple[Node, list[Command]]:
        """Write on where the reply `node` was cut or stopped, in the same message."""
        request = self.name()
        node.reply = Reply(request, prefix=node.text, settings=self.settings)
        node.touch()
        self._take(request, node, conversation)
        if not node.text and node.parent is not None:
            return node, [self._submit(request, conversation, node.parent)]
        return node, [self._submit(request, conversation, node, continue_last=True)]

    def edit(self, conversation: Conversation, node: Node, text: str) -> tuple[Node, list[Command]]:
        """Put another version of a message beside it. A user's is answered; the model's stands as written."""
        if node.role == "user":
            return self.answer(conversation, conversation.branch(node, text))
        return conversation.branch(node, text, Reply("", status="edited")), []

    def fork(self, source: str, sample: int, at: int, token: int | None) -> tuple[Node, list[Command]] | None:
        """Branch off the reply that request `source` wrote, after `at` generated tokens, then draw `token`.

        The engine sends the kept text again. None if the request is none of ours.
        """
        node = self._replies.get(source)
        if node is None:
            return None
        request = self.name()
        conversation, prefix = self._homes[source], self._prefixes[source]
        branch = conversation.branch(
            node, prefix, Reply(request, prefix=prefix, forked_from=source, settings=self.settings)
        )
        self._take(request, branch, conversation)
        return branch, [Fork(request, source, at, sample=sample, forced=token, settings=self.settings)]

    def stop(self, nodes: Iterable[Node] | None = None) -> list[Command]:
        """Abort replies that are being written (all, if not told which); what they said stays."""
        chosen = self.running if nodes is None else [node for node in nodes if node.running]
        return [Abort(node.reply.request) for node in chosen if node.reply is not None]

    def _take(self, request: str, node: Node, conversation: Conversation) -> None:
        self._replies[request] = node
        self._silent.add(request)
        self._homes[request] = conversation
        self._prefixes[request] = node.text

    def _submit(self, request: str, conversation: Conversation, upto: Node, continue_last: bool = False) -> Submit:
        return Submit(
            request,
            messages=conversation.messages(upto),
            settings=self.settings,
            continue_last=continue_last,
        )

    # ------------------------------------------------------------------------------------------------- events

    def apply(self, event: Event) -> list[Node]:
        """Take an event; returns the messages it changed."""
        if isinstance(event, Step):
            return self._stepped(event)
        if isinstance(event, TextDelta):
            return self._said(event)
        if isinstance(event, Finished):
            return self._ended(event)
        if isinstance(event, PromptRendered):
            return self._rendered(event)
        if isinstance(event, Rejected):
            return self._broke([event.request], event.message, event.action)
        if isinstance(event, Ready):
            self._card = event.card
        elif isinstance(event, SettingsChanged):
            if (live := self._live(event.request, 0)) is not None:
                live[1].settings = event.settings
        elif isinstance(event, Failed) and (event.request or event.fatal):
            requests = [event.request] if event.request else [n.reply.request for n in self.running if n.reply]
            return self._broke(requests, event.message, event.action)
        return []

    def lost(self, message: str, action: str, spare: str = "") -> list[Node]:
        """The engine is gone: every reply under way but that of `spare` ends here, with what it has said."""
        requests = [node.reply.request for node in self.running if node.reply and node.reply.request != spare]
        return self._broke(requests, message, action)

    def _live(self, request: str, sample: int) -> tuple[Node, Reply] | None:
        node = self._replies.get(request)
        if node is None or node.reply is None or node.reply.request != request or node.reply.sample != sample:
            return None
        return node, node.reply

    def _said(self, event: TextDelta) -> list[Node]:
        if (live := self._live(event.request, event.sample)) is None:
            return []
        node, reply = live
        if event.channel == "reasoning":
            reply.reasoning += event.text
        else:
            node.text += event.text
        reply.tokens = event.tokens
        if reply.status == "waiting":
            self._silent.discard(event.request)
            reply.status = "writing"
        reply.detail = ""
        node.touch()
        return [node]

    def _stepped(self, event: Step) -> list[Node]:
        """Say what a reply without text is waiting for."""
        if not self._silent and event.iteration >= 0:
            return []
        changed: list[Node] = []
        told = {lane.request: _doing(lane) for lane in event.lanes if lane.request in self._silent}
        if event.iteration < 0:  # of a server, which does not tell where a request waits
            told = {wait.request: wait.reason for wait in event.waits}
        else:
            silent = [wait for wait in event.waits if wait.request in self._silent]
            told |= {wait.request: f"in the queue: {wait.reason}" for wait in silent}
        for request, words in told.items():
            live = self._live(request, 0)
            if live is not None and live[1].running and live[1].detail != words:
                live[1].detail = words
                live[0].touch()
                changed.append(live[0])
        return changed

    def _ended(self, event: Finished) -> list[Node]:
        if (live := self._live(event.request, event.sample)) is None:
            return []
        node, reply = live
        self._silent.discard(event.request)
        reply.status = _ENDINGS.get(event.reason, "failed")
        reply.detail = event.detail
        reply.tokens = event.generated_tokens if event.counted else 0
        reply.prompt_tokens, reply.cached_tokens = event.prompt_tokens, event.cached_tokens
        reply.token_ids = event.token_ids
        _measure(reply, event.timeline)
        node.touch()
        return [node]

    def _rendered(self, event: PromptRendered) -> list[Node]:
        if (live := self._live(event.request, 0)) is None:
            return []
        node, reply = live
        reply.note = "; ".join(note.rstrip(".") for note in event.repairs + event.notes)
        reply.prompt_tokens = len(event.tokens)
        if self._card is not None:
            reply.model, reply.identity = self._card.name, self._card.identity
        node.touch()
        return [node]

    def _broke(self, requests: Iterable[str], message: str, action: str) -> list[Node]:
        changed: list[Node] = []
        for request in requests:
            live = self._live(request, 0)
            if live is not None and live[1].running:
                node, reply = live
                self._silent.discard(request)
                reply.status, reply.detail, reply.action = "failed", message, action
                node.touch()
                changed.append(node)
        return changed


def _measure(reply: Reply, timeline: Timeline) -> None:
    """Take over what the engine measured."""
    first, last = timeline.first_token_ns, timeline.tokens_ns[-1] if timeline.tokens_ns else 0
    if first and timeline.submitted_ns:
        reply.ttft_ns = max(0, first - timeline.submitted_ns)
    if last > first > 0:
        reply.speed = (len(timeline.tokens_ns) - 1) * 1e9 / (last - first)


def _doing(lane: Lane) -> str:
    if lane.phase == "prefill":
        return f"reading the prompt, {lane.start + lane.count:,} of {lane.prompt:,} tokens"
    return f"writing, {lane.length - lane.prompt:,} tokens so far"
