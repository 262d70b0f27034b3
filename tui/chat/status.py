"""How a reply stands, in a glyph and a few words; the glyph alone tells it, with or without colour. No Textual."""

from __future__ import annotations

from ..keymap import STANDARD, Keymap
from ..state.conversation import Node

SPINNER = "◐◓◑◒"
OFFERED = ("go_on", "regenerate")  # the actions that an ending names


def ending(node: Node, keys: Keymap = STANDARD) -> tuple[str, str, str]:
    """(glyph, words, style name) for a reply; empty for messages that have nothing to tell."""
    reply = node.reply
    if reply is None:
        return "", "", ""
    goes_on = _offer(keys.hint("go_on", "goes on", letter=True))
    if reply.status == "waiting":
        return "◌", reply.detail or "waiting for the engine", "state-busy"
    if reply.status == "writing":
        return "▸", reply.detail or "writing", "state-busy"
    if reply.status == "edited":
        return "✎", "edited by you", "state-note"
    if reply.status == "length":
        return "✂", f"{reply.detail or f'cut at {reply.tokens} tokens'}{goes_on}", "state-cut"
    if not reply.tokens and node.text and reply.status in ("end", "stop"):
        return "✓", "end · token count not reported", "state-end"
    if reply.status == "stopped":
        return "■", f"stopped after {count(reply.tokens, 'token')}{goes_on}", "state-cut"
    if reply.status == "failed":
        words = " ".join(part for part in (reply.detail or "the engine failed", reply.action) if part)
        return "✗", f"failed: {words}{_offer(keys.hint('regenerate', 'tries again', letter=True))}", "state-failed"
    if reply.status == "stop":
        told = f"stopped by its stop text {reply.detail!r}" if reply.detail else "stopped by its stop text"
        return "◼", f"{told} · {count(reply.tokens, 'token')}", "state-end"
    return "✓", f"end · {count(reply.tokens, 'token')}", "state-end"


def _offer(hint: str) -> str:
    return f" — {hint}" if hint else ""


def count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
