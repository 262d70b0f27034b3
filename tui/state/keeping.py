"""The seam for keeping conversations: `ConversationStore`; `MemoryStore` keeps them while we run. No UI.

A store knows the chats that are open in this program, as trees that may change, and lists and finds all chats that
there are.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from .conversation import Conversation, Node


class Listed(msgspec.Struct, frozen=True):
    """A chat in a list: enough to choose it by. `found` is the text around what was searched for."""

    key: str
    title: str
    changed_ms: int = 0  # since 1970
    messages: int = 0
    model: str = ""  # that wrote the newest reply
    found: str = ""

    @property
    def when(self) -> str:
        """Its last change in the reader's time; empty where it is not known, or no time that there is."""
        try:
            return time.strftime("%Y-%m-%d %H:%M", time.localtime(self.changed_ms / 1000)) if self.changed_ms else ""
        except (OverflowError, ValueError, OSError):  # an import may say anything
            return ""


class ConversationStore(Protocol):
    """Where conversations are kept. Nothing here may keep the screen waiting."""

    on_change: Callable[[], object]  # called, from any thread, when `trouble` changes

    @property
    def trouble(self) -> str:
        """Why nothing is being saved at present, or nothing."""
        ...

    @property
    def notice(self) -> str:
        """What the reader must be told once about the store as it was found, or nothing."""
        ...

    def all(self) -> list[Conversation]:
        """The chats open in this program, in the order in which they were opened."""
        ...

    def create(self, system: str = "") -> Conversation:
        """A new chat, kept from its first message on."""
        ...

    def adopt(self, conversation: Conversation) -> None:
        """Take a chat that was begun before this store was open."""
        ...

    def save(self, conversation: Conversation) -> None:
        """Keep what is new in this chat; called for every message that is final and every choice of a branch."""
        ...

    def note(self, conversation: Conversation, node: Node) -> None:
        """A reply grows: keep it within a second."""
        ...

    def close(self, conversation: Conversation) -> None:
        """Take the chat off the open ones. It stays kept."""
        ...

    def rename(self, conversation: Conversation, title: str) -> None: ...

    def delete(self, conversation: Conversation) -> None:
        """Take the chat away, for as long as `undelete` does not bring it back."""
        ...

    def delete_key(self, key: str) -> None:
        """Take away a chat that is not open."""
        ...

    def restore_key(self, key: str) -> None:
        """Bring back a deleted chat without opening it."""
        ...

    def undelete(self) -> Conversation | None:
        """Open the chat that was deleted last again; None if there is none."""
        ...

    def listed(self, limit: int = 50, offset: int = 0) -> list[Listed]:
        """Chats that are kept, the one changed last first."""
        ...

    def find(self, words: str, limit: int = 50) -> list[Listed]:
        """Chats whose title or messages hold all these words, the one with the newest such message first."""
        ...

    def open(self, key: str) -> Conversation | None:
        """The chat with this key, now among the open ones; None if it is gone."""
        ...

    def end(self) -> str:
        """Write what is left and let go of everything; returns what could not be kept, in a sentence, or nothing."""
        ...


class MemoryStore:
    """Keeps conversations while the program runs. `trouble` says why they are kept nowhere else."""

    def __init__(self, trouble: str = "", notice: str = "") -> None:
        self.trouble = trouble
        self.notice = notice
        self.on_change: Callable[[], object] = lambda: None
        self._kept: list[Conversation] = []
        self._closed: list[Conversation] = []
        self._deleted: list[Conversation] = []
        self._made = 0

    def all(self) -> list[Conversation]:
        return list(self._kept)

    def create(self, system: str = "") -> Conversation:
        self._made += 1
        conversation = Conversation(f"chat-{self._made}", system=system)
        self._kept.append(conversation)
        return conversation

    def adopt(self, conversation: Conversation) -> None:
        self._kept.append(conversation)

    def save(self, conversation: Conversation) -> None:
        conversation.changed_ms = time.time_ns() // 1_000_000

    def note(self, conversation: Conversation, node: Node) -> None:
        return

    def close(self, conversation: Conversation) -> None:
        if conversation in self._kept:
            self._kept.remove(conversation)
            self._closed.append(conversation)

    def rename(self, conversation: Conversation, title: str) -> None:
        conversation.named = title

    def delete(self, conversation: Conversation) -> None:
        self.close(conversation)
        if conversation in self._closed:
            self._closed.remove(conversation)
            self._deleted.append(conversation)

    def delete_key(self, key: str) -> None:
        self._move(key, self._closed, self._deleted)

    def restore_key(self, key: str) -> None:
        self._move(key, self._deleted, self._closed)

    @staticmethod
    def _move(key: str, here: list[Conversation], there: list[Conversation]) -> None:
        for chat in [chat for chat in here if chat.key == key]:
            here.remove(chat)
            there.append(chat)

    def undelete(self) -> Conversation | None:
        if not self._deleted:
            return None
        self._kept.append(self._deleted.pop())
        return self._kept[-1]

    def listed(self, limit: int = 50, offset: int = 0) -> list[Listed]:
        chats = [chat for chat in self._kept + self._closed if chat.root.children]
        chats.sort(key=lambda chat: -chat.changed_ms)
        return [_listed(chat) for chat in chats[offset : offset + limit]]

    def find(self, words: str, limit: int = 50) -> list[Listed]:
        wanted = words.casefold().split()
        found: list[Listed] = []
        for chat in self._kept + self._closed:
            texts = [chat.title, *(node.text for node in chat.walk())]
            hit = next((text for text in texts if all(word in text.casefold() for word in wanted)), None)
            if hit is not None and chat.root.children:
                found.append(msgspec.structs.replace(_listed(chat), found=" ".join(hit.split())[:80]))
        return found[:limit]

    def open(self, key: str) -> Conversation | None:
        chat = next((chat for chat in self._kept + self._closed if chat.key == key), None)
        if chat in self._closed:
            self._closed.remove(chat)
            self._kept.append(chat)
        return chat

    def end(self) -> str:
        lost = sum(bool(chat.root.children) for chat in self._kept + self._closed) if self.trouble else 0
        return f"{lost} chat{'s were' if lost > 1 else ' was'} not saved: {self.trouble}." if lost else ""


def _listed(chat: Conversation) -> Listed:
    path = chat.path()
    model = next((node.reply.model for node in reversed(path) if node.reply is not None), "")
    return Listed(chat.key, chat.title, chat.changed_ms, len(path), model)
