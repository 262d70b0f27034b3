"""The full screen, from a command: when it can be shown, and showing it."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from typing import TYPE_CHECKING

import msgspec

from ...engine import places
from ...engine.errors import CutawayError
from ...engine.protocol import SamplingSettings
from . import exits
from .flags import EngineFlags

if TYPE_CHECKING:
    from ..settings.layers import Layers
    from ..state.conversation import Conversation
    from ..state.keeping import ConversationStore

PLAIN_TERMINALS = ("dumb", "unknown")  # they can't address their cells


def fits() -> bool:
    """Input and output are terminals, and the terminal can address its cells."""
    terminal = os.environ.get("TERM", "") not in PLAIN_TERMINALS or sys.platform == "win32"
    return terminal and sys.stdin.isatty() and sys.stdout.isatty()


def show(flags: EngineFlags, settings: SamplingSettings, system: str, given: Layers, chat: str = "") -> int:
    """Show a chat on the full screen until the reader leaves it; returns the exit code.

    `chat` names one that was kept (`kept.chosen`); without it, a new one begins. Raises `StoreError` where there is
    none of that name.
    """
    gc.disable()  # until the first paint: collecting what is being imported only delays it
    from ..app import run_session
    from ..session import Session
    from ..settings.live import LiveSettings
    from ..state.keeping import MemoryStore
    from ..switching import SwitchingEngine
    from .sources import EngineSources, LastChoice

    configure = msgspec.structs.replace(flags.configure, delivery="buffered" if flags.buffered else None)
    keep = given.value("keep_chats")
    store = _open_store() if chat else MemoryStore(notice="" if keep else "Chats are not kept: keep_chats is off.")
    session: Session | None = None
    try:
        conversation = _kept(store, chat) if chat else None
        engine = SwitchingEngine(flags.client())
        sources = EngineSources(flags, engine, configure, LastChoice(places.state(), given) if keep else None)
        load = flags.load
        try:
            if (start := sources.begin(conversation, given)) is not None:
                start.swap()
                load, configure = start.load, start.configure
        except CutawayError as error:
            exits.say(f"note: what was chosen last can't be used: {error}")
        session = Session(
            flags.recorded(engine), load, settings, store, system, configure,
            conversation=conversation, remember=True, sources=sources,
            later=_open_store if keep and not chat else None,
        )  # fmt: skip
        return asyncio.run(run_session(session, places.state() if keep else None, LiveSettings(given)))
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    finally:
        if lost := (session.store if session is not None else store).end():
            exits.say(f"cutaway: {lost}")


def _open_store() -> ConversationStore:
    from ..store.chats import default_store

    return default_store()


def _kept(store: ConversationStore, name: str) -> Conversation | None:
    from ..store.chats import ChatStore
    from ..store.errors import StoreError
    from .kept import chosen

    if not isinstance(store, ChatStore):
        raise StoreError(store.notice or f"Kept chats can't be read: {store.trouble}.")
    return store.open(chosen(store, name))
