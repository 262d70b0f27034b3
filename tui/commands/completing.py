"""What a shell offers for a model or a chat: names from this machine. Silent when they can't be read."""

from __future__ import annotations

import contextlib

import click
from click.shell_completion import CompletionItem

from ..printable import printable

MOST = 50


def models(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Models on this machine and recommended ones, then files."""
    offered: list[CompletionItem] = []
    with contextlib.suppress(Exception):  # a broken cache must not print into somebody's prompt
        from ...engine.models.shelf import shelf

        found = [entry for entry in shelf("float32") if entry.spec.lower().startswith(incomplete.lower())]
        offered = [CompletionItem(entry.spec, help=entry.about or entry.license) for entry in found]
    # A path is still being typed: nothing of ours begins so.
    return offered or [CompletionItem(incomplete, type="file")]


def kept_models(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Models on this machine only."""
    with contextlib.suppress(Exception):
        from ...engine.models.catalogue import list_cached

        return [CompletionItem(m.spec) for m in list_cached() if m.spec.lower().startswith(incomplete.lower())]
    return []


def chats(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Keys of kept chats, with their titles, the newest first; a word is looked for in the titles, too."""
    with contextlib.suppress(Exception):
        import sqlite3

        from ..store import opening
        from ..store.database import Database

        path = opening.path()
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=0.5)) as connection:
            listed = Database(connection, path, readonly=True).listed(1000)
        wanted = incomplete.casefold()
        hits = [chat for chat in listed if chat.key.startswith(incomplete)]
        hits = hits or [chat for chat in listed if wanted in chat.title.casefold()]
        return [CompletionItem(chat.key, help=printable(" ".join(chat.title.split()))) for chat in hits[:MOST]]
    return []


def presets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Presets of the settings file."""
    from ..settings.document import load

    return [CompletionItem(name) for name in load().presets if name.startswith(incomplete)]


def templates(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Prompt templates of the settings file."""
    from ..settings.document import load

    return [CompletionItem(name) for name in load().templates if name.startswith(incomplete)]
