"""What is said below the messages of the chat."""

from __future__ import annotations

from ...engine.protocol import Failed
from ..keymap import Keymap
from ..session import Session
from .hints import greeting, join, starts_again
from .topbar import compiling_s, progress


def notice(session: Session, keys: Keymap) -> list[tuple[str, str]]:
    """Paragraphs and their styles: what is wrong or soon will be, what is being loaded, or how to begin."""
    if session.trouble is not None:
        sentence = " ".join(part for part in session.trouble if part)
        return [(f"✗ {sentence}", "state-failed"), (starts_again(keys), "dim")]
    card, loading, failure = session.state.card, session.state.loading, session.state.failure
    if card is None and session.unloaded is not None:
        sentence = " ".join(part for part in session.unloaded if part)
        how = join([keys.hint("models", "chooses another model"), keys.hint("restart", "tries again", letter=True)])
        return [(f"✗ {sentence}", "state-failed"), (how, "dim")]
    if card is None and isinstance(failure, Failed):
        again = f"◌ {progress(loading)}" if loading is not None else ""
        how = keys.hint("models", "chooses another model or server") if session.answering.sources is not None else ""
        told = [(f"✗ {failure.message} {failure.action}".rstrip(), "state-failed"), (again, "state-busy")]
        return [*told, (how, "dim")] if how else told
    if card is None and session.answering.before is not None:
        busy = progress(loading) if loading is not None else "starting"
        back = f"If nothing answers, it is {session.answering.before.told() or 'the engine'} again"
        return [(f"◌ {session.answering.told}: {busy}", "state-busy"), (back, "dim")]
    if card is None:
        return [(f"◌ {progress(loading)}", "state-busy"), ("", ""), *greeting(keys)]
    if session.link.loading and loading is not None:
        wanted = session.link.load.model or "the default model"
        told = f"◌ loading {wanted}: {progress(loading)}. Until then {card.name} answers"
        return [(join([told, keys.hint("cancel_load", "stops it", letter=True)]), "state-busy")]
    if card.compiling:
        told = f"◌ answering with torch's kernels while our own are compiled ({compiling_s(session.state)} s)"
        begun = session.conversation.root.children
        return [(f"{told}: once on this machine", "state-busy"), *([] if begun else [("", ""), *greeting(keys)])]
    if session.conversation.root.children:
        limit = session.meter.warning()
        return [(f"▲ {limit}", "state-busy")] if limit else []
    about = [(card.attention_note, "dim"), ("", "")] if session.state.remote else []
    return [*about, *greeting(keys)]
