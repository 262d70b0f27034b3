"""The store of chats, for commands: opened with what must be said about it, and one chat continued in it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import click
import msgspec

from ...engine.protocol import AnyEvent, SamplingSettings, Submit
from ..chat.exchange import Exchange
from ..state.conversation import Conversation
from ..store import opening
from ..store.chats import ChatStore
from ..store.errors import StoreError
from ..store.records import is_key
from . import exits

LAST = "last"
_SHORTEST = 4  # characters of a key that stand for it


@contextlib.contextmanager
def chats(changed: bool = False) -> Iterator[ChatStore]:
    """The store; what is wrong with it, and what it could not save, is said. Raises `CutawayError`.

    `changed`: a change was all that was wanted, so one that could not be saved is an error.
    """
    store = ChatStore(opening.path())
    if store.notice:
        exits.say(f"note: {store.notice}")
    lost = ""
    try:
        yield store
    finally:
        if lost := store.end():
            exits.say(f"cutaway: {lost}")
    if lost and changed:
        raise click.exceptions.Exit(exits.FAILED)


def chosen(store: ChatStore, name: str) -> str:
    """The key of the chat that `name` means: a key, the beginning of one, or "last". Raises `StoreError`."""
    key = _known(store, name)
    if key is None and name == LAST:
        raise StoreError("There is no chat yet.")
    if key is None:
        raise StoreError(f"There is no chat {name!r}.", "`cutaway chats` lists those that there are.")
    return key


def continued(store: ChatStore, name: str) -> tuple[str, bool]:
    """The chat to go on with, and whether `name` was that chat's; else it belongs to the question.

    Raises `StoreError` for what looks like a chat's key and is none, and where there is no chat.
    """
    key = _known(store, name)
    if key is not None:
        return key, True
    return chosen(store, name if is_key(name) else LAST), False


def _known(store: ChatStore, name: str) -> str | None:
    if name == LAST:
        return store.last() or None
    found = store.database.keys_like(name) if len(name) >= _SHORTEST else []
    if name in found:
        return name
    if len(found) > 1:
        raise StoreError(f"{name!r} begins {len(found)} chats' keys: {', '.join(found[:5])}.")
    return found[0] if found else None


class Continued:
    """A stored chat that one more question is asked in, saved as the reply comes."""

    def __init__(self, store: ChatStore, conversation: Conversation, settings: SamplingSettings) -> None:
        self.store = store
        self.conversation = conversation
        self.exchange = Exchange(settings)
        self._request = ""

    def ask(self, text: str, buffered: bool) -> Submit:
        """Add the question; returns what to send."""
        node, (submit, *_) = self.exchange.ask(self.conversation, text)
        assert isinstance(submit, Submit)
        assert node.reply is not None
        self._request = node.reply.request
        self.store.save(self.conversation)
        return msgspec.structs.replace(submit, delivery="buffered" if buffered else "streamed")

    def heard(self, event: AnyEvent) -> None:
        """Let the chat grow by what the engine says."""
        for node in self.exchange.apply(event):
            if node.running:
                self.store.note(self.conversation, node)
            else:
                self.store.save(self.conversation)

    def ended(self, why: str = "the program ended") -> None:
        """Whatever is still being written ends here."""
        if self.exchange.lost(why, ""):
            self.store.save(self.conversation)
