"""Which characters of a decoded text each token gave."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .control import Encoded

if TYPE_CHECKING:
    from .tokenizer import Tokenizer


def spans_of(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[str, list[Encoded]]:
    """The text of `ids`, control tokens shown, and the tokens with their characters in it.

    Tokens that share a character all span it, as in an encoding.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    strip = tokenizer.spelling.strip_start if tokenizer.spelling else b""
    text: list[str] = []
    length = 0
    tokens: list[Encoded] = []
    for token in ids:
        data = tokenizer.token_bytes(token)
        if strip and data:
            data, strip = data.removeprefix(strip), b""
        piece = decoder.decode(data)
        text.append(piece)
        start, length = length, length + len(piece)
        unfinished = bool(decoder.getstate()[0])
        tokens.append(Encoded(token, start, length + unfinished, token in tokenizer.special_ids))
    text.append(decoder.decode(b"", final=True))
    return "".join(text), tokens
