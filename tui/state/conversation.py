"""A conversation as a tree: every edit, regeneration and fork is a branch, and no branch is ever lost. No UI.

The path shown is the one that follows each message's chosen child. The system prompt belongs to the whole
conversation. Keeping conversations is `keeping.py`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from ...engine.protocol import Message, SamplingSettings
from .choice import Choice

Status = Literal["waiting", "writing", "end", "stop", "length", "stopped", "failed", "edited"]
RUNNING: frozenset[Status] = frozenset({"waiting", "writing"})


class Reply(msgspec.Struct):
    """How a reply came about: which request made it, and how it ended."""

    request: str
    sample: int = 0
    status: Status = "waiting"
    detail: str = ""  # the engine's own words: "cut at 5 tokens", the stop string, the error
    action: str = ""  # what the user can do about it
    tokens: int = 0  # generated
    prompt_tokens: int = 0
    cached_tokens: int = 0
    prefix: str = ""  # text of the message that this request did not write
    forked_from: str = ""  # the request whose pages it shares
    reasoning: str = ""  # what the model thought before it answered
    note: str = ""  # what was repaired or left out of the prompt
    settings: SamplingSettings | None = None  # what it was drawn with
    model: str = ""  # name of the model that wrote it
    identity: str = ""  # hash of that model
    ttft_ns: int = 0  # duration from submission to the first token; 0: not known
    speed: float = 0.0  # tokens a second after the first; 0: not known
    token_ids: tuple[int, ...] = ()  # generated

    @property
    def running(self) -> bool:
        return self.status in RUNNING


class Node(msgspec.Struct, eq=False):
    """One message. `chosen` is the index of the child on the path shown; `revision` grows with every change."""

    role: str
    text: str
    parent: Node | None = None
    children: list[Node] = msgspec.field(default_factory=list)
    chosen: int = 0
    reply: Reply | None = None
    revision: int = 0
    number: int = 0  # what a store knows it by; 0: no store does. Parents and older branches have smaller ones

    @property
    def running(self) -> bool:
        return self.reply is not None and self.reply.running

    @property
    def siblings(self) -> list[Node]:
        """Every branch at this place, this one included; empty for the root."""
        return self.parent.children if self.parent is not None else []

    @property
    def place(self) -> tuple[int, int]:
        """Which branch this is and of how many, from 1."""
        siblings = self.siblings
        return (siblings.index(self) + 1, len(siblings)) if siblings else (1, 1)

    def touch(self) -> None:
        self.revision += 1


class Conversation:
    """A tree of messages with one path through it shown."""

    def __init__(self, key: str, title: str = "", system: str = "") -> None:
        self.key = key
        self.named = title
        self.system = system
        self.root = Node("root", "")
        self.draft = ""
        self.changed_ms = 0  # since 1970; 0: not known
        self.choice: Choice | None = None  # who answers; None: whoever is there

    @property
    def title(self) -> str:
        """The given name, else the beginning of the first question."""
        if self.named:
            return self.named
        first = next((node.text for node in self.path() if node.role == "user"), "")
        line = " ".join(first.split())
        return (line[:39] + "…" if len(line) > 40 else line) or "new chat"

    def path(self) -> list[Node]:
        """The messages shown, from the first one."""
        nodes: list[Node] = []
        node = self.root
        while node.children:
            node = node.children[node.chosen]
            nodes.append(node)
        return nodes

    @property
    def leaf(self) -> Node:
        return (self.path() or [self.root])[-1]

    def walk(self) -> Iterator[Node]:
        """Every message on every branch."""
        todo = list(self.root.children)
        while todo:
            node = todo.pop()
            yield node
            todo.extend(node.children)

    def add(self, role: str, text: str, parent: Node | None = None, reply: Reply | None = None) -> Node:
        """Add a message below `parent` (the leaf, if not given), and show it."""
        parent = self.leaf if parent is None else parent
        node = Node(role, text, parent, reply=reply)
        parent.children.append(node)
        parent.chosen = len(parent.children) - 1
        return node

    def branch(self, node: Node, text: str, reply: Reply | None = None) -> Node:
        """Add another version of `node` beside it, and show it; the old one stays."""
        if node.parent is None:
            raise ValueError("the root of a conversation has no other version")
        return self.add(node.role, text, node.parent, reply)

    def show(self, node: Node) -> None:
        """Choose the path so that it passes through `node`."""
        while node.parent is not None:
            node.parent.chosen = node.parent.children.index(node)
            node = node.parent

    def turn(self, node: Node, by: int) -> Node | None:
        """Show the branch `by` places from `node`, or return None at the edge."""
        siblings = node.siblings
        if not siblings:
            return None
        index = siblings.index(node) + by
        if not 0 <= index < len(siblings):
            return None
        self.show(siblings[index])
        return siblings[index]

    def messages(self, upto: Node | None = None) -> tuple[Message, ...]:
        """What the engine is sent: the system prompt and the path, up to and with `upto`."""
        nodes: list[Node] = []
        node = self.leaf if upto is None else upto
        while node is not None and node.parent is not None:
            nodes.append(node)
            node = node.parent
        head = (Message("system", self.system),) if self.system.strip() else ()
        return head + tuple(_message(n) for n in reversed(nodes) if n.text or n.role != "assistant")

    def running(self) -> list[Node]:
        return [node for node in self.walk() if node.running]


def _message(node: Node) -> Message:
    return Message(node.role, node.text, node.reply.token_ids if node.reply is not None else ())
