"""The store of chats as the screen and the commands use it: `ChatStore` keeps trees while they grow.

The caller's thread reads through one connection, the writer's thread writes through another; SQLite's log lets both
work at once, and other programs too.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias, TypeVar

from ...engine.errors import CutawayError
from ..state.conversation import Conversation, Node
from ..state.keeping import ConversationStore, Listed, MemoryStore
from . import opening, trees
from .database import Changes, Database
from .errors import StoreError, damaged, reason
from .records import Chat, new_key, now_ms
from .writer import Writer

PATIENCE_S = 5.0  # how long the end of the program waits for the disk
READ_S = 0.5  # how long reading waits for what is still being written
T = TypeVar("T")
_Mark: TypeAlias = tuple[int, int, str]  # revision, chosen child, status: what tells that a message has changed


class ChatStore:
    """Keeps conversations in the file `path`. Raises what `opening.open_store` raises."""

    def __init__(self, path: Path, connect: Callable[[Path], Database] = opening.connect) -> None:
        opened = opening.open_store(path)
        self.notice = opened.notice
        self.on_change: Callable[[], object] = lambda: None
        self.path = path
        self.database = opened.database
        self._fixed = "the data folder can't be written" if opened.database.readonly else ""
        self._writer = Writer(lambda: connect(path), self._changed, lambda: opening.mark_damaged(path), self._lose)
        self._unsaved = Changes()  # where nothing can be written at all
        self._open: list[Conversation] = []
        self._dropped: list[Conversation] = []
        self._marks: dict[str, dict[int, _Mark]] = {}
        self._made: dict[str, int] = {}
        self._deleted: list[str] = []
        self._whole: set[str] = set()  # chats to be written again from the first message on
        if not opened.database.readonly:
            with contextlib.suppress(sqlite3.Error):
                self.database.purge()

    @property
    def trouble(self) -> str:
        return self._fixed or self._writer.trouble

    def all(self) -> list[Conversation]:
        return list(self._open)

    def create(self, system: str = "") -> Conversation:
        conversation = Conversation(new_key(), system=system)
        self._open.append(conversation)
        return conversation

    def adopt(self, conversation: Conversation) -> None:
        conversation.key = new_key()
        self._open.append(conversation)
        self.save(conversation)

    # ------------------------------------------------------------------------------------------- keeping

    def save(self, conversation: Conversation) -> None:
        if conversation in self._dropped or not (conversation.root.children or conversation.key in self._made):
            return
        trees.number_all(conversation)
        key = conversation.key
        if key in self._whole:
            self._whole.discard(key)
            self._marks.pop(key, None)
        marks = self._marks.setdefault(key, {})
        changes = Changes(deleted={key: None})
        for node in conversation.walk():
            mark = _mark(node)
            if marks.get(node.number) != mark:
                marks[node.number] = mark
                changes.messages[node.number] = (key, trees.message_record(node))
        if changes.messages:
            conversation.changed_ms = now_ms()
        made = self._made.setdefault(key, now_ms())
        changes.chats[key] = trees.chat_record(conversation, made, conversation.changed_ms)
        self._put(changes)

    def note(self, conversation: Conversation, node: Node) -> None:
        if not node.number:
            self.save(conversation)
        elif not self._fixed and conversation not in self._dropped:
            key = conversation.key
            self._writer.note(node.number, lambda: Changes(messages={node.number: (key, trees.message_record(node))}))

    def close(self, conversation: Conversation) -> None:
        if conversation in self._open:
            self.save(conversation)
            self._forget(conversation)

    def rename(self, conversation: Conversation, title: str) -> None:
        conversation.named = title
        self.save(conversation)

    def delete(self, conversation: Conversation) -> None:
        if conversation in self._open and conversation.key in self._made:
            self.save(conversation)
            self.delete_key(conversation.key)
        self._forget(conversation)
        self._dropped.append(conversation)  # a reply that ends late must not bring it back

    def delete_key(self, key: str) -> None:
        """Take a chat away that need not be open."""
        self._deleted.append(key)
        self._put(Changes(deleted={key: now_ms()}))

    def restore_key(self, key: str) -> None:
        self._deleted = [other for other in self._deleted if other != key]
        self._put(Changes(deleted={key: None}))

    def undelete(self, key: str = "") -> Conversation | None:
        key = key or (self._deleted.pop() if self._deleted else self._last_deleted())
        if not key:
            return None
        self._put(Changes(deleted={key: None}))
        return self.open(key)

    def end(self) -> str:
        self.on_change = lambda: None
        left = self._writer.close(PATIENCE_S)
        left.put(self._unsaved)
        lost = 0
        with contextlib.suppress(sqlite3.Error):
            lost = self.database.lacks(left)
            self.database.close()
        chats = left.chats.keys() | {key for key, _ in left.messages.values()}
        if not chats:
            return ""
        what = f"{lost:,} message{'s' if lost != 1 else ''}" if lost else "changes"
        where = f"{len(chats):,} chats" if len(chats) > 1 else "one chat"
        return f"{what} of {where} could not be saved: {self.trouble or 'the disk is too slow'}."

    def flush(self) -> bool:
        """Wait until all is written; False if it could not be."""
        return self._writer.flush(PATIENCE_S)

    # ------------------------------------------------------------------------------------------- reading

    def listed(self, limit: int = 50, offset: int = 0) -> list[Listed]:
        """Raises `StoreError` where the file can't be read."""
        return self._read(lambda database: database.listed(limit, offset))

    def find(self, words: str, limit: int = 50) -> list[Listed]:
        """Raises `StoreError` where the file can't be read."""
        return self._read(lambda database: database.find(words, limit))

    def open(self, key: str) -> Conversation | None:
        """Raises `StoreError` where the file can't be read."""
        already = next((chat for chat in self._open if chat.key == key), None)
        if already is not None:
            return already
        chat = self._read(lambda database: database.load(key))
        if chat is None:
            return None
        conversation = trees.grow(chat)
        self._open.append(conversation)
        self._made[key] = chat.record.made_ms
        # What was cut off when a program ended is told so once more by the next save.
        stored = {message.number: message.status for message in chat.messages}
        self._marks[key] = {
            node.number: _mark(node) for node in conversation.walk() if stored[node.number] == _mark(node)[2]
        }
        return conversation

    def load(self, key: str) -> Chat | None:
        """The chat as records, without opening it. Raises `StoreError` where the file can't be read."""
        return self._read(lambda database: database.load(key))

    def last(self) -> str:
        """The key of the chat changed last; empty if there is none."""
        newest = self.listed(1)
        return newest[0].key if newest else ""

    def add(self, chats: list[Chat]) -> None:
        """Keep chats that come from elsewhere, in one piece. Raises `StoreError` when that fails."""
        changes = Changes()
        for chat in chats:
            changes.chat(chat)
        try:
            self.database.write(changes)
        except (sqlite3.Error, OSError, OverflowError) as error:
            raise StoreError(f"Nothing was imported: {reason(error)}.") from None

    # ----------------------------------------------------------------------------------------------------

    def _put(self, changes: Changes) -> None:
        (self._unsaved if self._fixed else self._writer).put(changes)

    def _read(self, read: Callable[[Database], T]) -> T:
        if not self._fixed:
            self._writer.flush(READ_S)
        try:
            if self.database.moved and not self._fixed:
                self.database.close()
                self.database = opening.open_store(self.path).database
            return read(self.database)
        except sqlite3.Error as error:
            if damaged(error):
                opening.mark_damaged(self.path)
            raise StoreError(f"The chats in {self.path} can't be read: {reason(error)}.") from None

    def _forget(self, conversation: Conversation) -> None:
        if conversation in self._open:
            self._open.remove(conversation)
        self._marks.pop(conversation.key, None)

    def _last_deleted(self) -> str:
        found = self._read(lambda database: database.listed(1, deleted=True))
        return found[0].key if found else ""

    def _lose(self) -> None:
        self._whole.update(self._made)

    def _changed(self) -> None:
        self.on_change()


def _mark(node: Node) -> _Mark:
    chosen = node.children[node.chosen].number if node.children else 0
    return node.revision, chosen, node.reply.status if node.reply is not None else ""


def default_store() -> ConversationStore:
    """The store in the data folder; where that can't be, one that lasts as long as the program and says why."""
    try:
        return ChatStore(opening.path())
    except CutawayError as error:
        return MemoryStore(opening.short_reason(error), str(error))
