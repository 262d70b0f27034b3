"""How one token is written in a panel: its piece made visible, or its bytes."""

from __future__ import annotations

import unicodedata

from rich.cells import cell_len, set_cell_size

from ...engine.protocol import PromptToken, Sampled
from ..printable import printable

VISIBLE = str.maketrans({" ": "·", "\n": "⏎", "\t": "→"})


def is_fragment(raw: bytes) -> bool:
    """Whether bytes are no whole characters by themselves."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return True
    return False


def hexadecimal(raw: bytes) -> str:
    return raw.hex(" ")


def token_text(piece: str, raw: bytes) -> str:
    """A token's piece with blanks made visible, or ‹e2 96› for bytes that are no whole character."""
    if raw and is_fragment(raw):
        return f"‹{hexadecimal(raw)}›"
    if not piece:
        return "∅"
    text = piece.translate(VISIBLE)
    if not text.isascii() or not text.isprintable():
        text = printable(text)
        if unicodedata.combining(text[:1] or " "):
            text = "◌" + text
    return text


def quoted(piece: str, raw: bytes, width: int = 0) -> str:
    """A token in quotation marks; cropped to `width` cells, if given."""
    text = token_text(piece, raw)
    text = text if text.startswith("‹") else f'"{text}"'
    return crop(text, width) if width else text


def crop(text: str, width: int) -> str:
    """Text of at most `width` cells, with an ellipsis where it was cut."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1) + "…" if width > 1 else "…"[:width]


def role_of(token: PromptToken | Sampled | None) -> str:
    """The role that colours a token."""
    if isinstance(token, PromptToken):
        return "control" if token.control else token.role
    if token is not None and token.end:
        return "control"
    return "assistant"
