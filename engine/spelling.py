"""How the strings in a tokenizer's vocabulary stand for bytes.

Byte-level vocabularies write each byte as one printable character (GPT-2's alphabet); sentencepiece-like ones write
a space as U+2581 and a byte that has no piece of its own as <0xNN>. The decoder section of tokenizer.json says
which of these a tokenizer uses.
"""

from __future__ import annotations

import dataclasses
import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tokenizers

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _byte_alphabet() -> dict[str, int]:
    """Character to byte: printable Latin-1 stands for itself, the other bytes for U+0100 and up, in order."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(256) if byte not in printable)
    alphabet = {chr(byte): byte for byte in printable}
    alphabet |= {chr(0x100 + n): byte for n, byte in enumerate(others)}
    return alphabet


BYTE_ALPHABET = _byte_alphabet()


@dataclasses.dataclass(frozen=True, slots=True)
class Spelling:
    """The rules by which one vocabulary spells bytes."""

    byte_level: bool = False
    byte_fallback: bool = False
    replacements: tuple[tuple[str, str], ...] = ()
    continuation: str = ""  # WordPiece: what marks a piece that goes on a word; others begin with a space
    strip_start: bytes = b""  # taken once from the start of a text, where the tokenizer put it when encoding

    def bytes_of(self, piece: str) -> bytes:
        """The bytes that `piece`, a string of the vocabulary, stands for in the middle of a text."""
        if self.byte_level:
            if all(character in BYTE_ALPHABET for character in piece):
                return bytes(BYTE_ALPHABET[character] for character in piece)
            return piece.encode()
        if self.byte_fallback and (match := _BYTE_PIECE.fullmatch(piece)):
            return bytes([int(match[1], 16)])
        if self.continuation:
            goes_on = piece.startswith(self.continuation)
            piece = piece.removeprefix(self.continuation) if goes_on else f" {piece}"
        for old, new in self.replacements:
            piece = piece.replace(old, new)
        return piece.encode()


def read_spelling(tokenizer: tokenizers.Tokenizer) -> Spelling | None:
    """The spelling that the tokenizer's decoder describes, or None if its tokens have no bytes of their own."""
    decoder = tokenizer.decoder
    if decoder is None:
        return None
    steps = _steps(json.loads(decoder.__getstate__()))
    spelling = Spelling()
    fused = False
    for step in steps:
        kind = step["type"]
        if kind == "ByteLevel":
            spelling = dataclasses.replace(spelling, byte_level=True)
        elif kind == "ByteFallback":
            spelling = dataclasses.replace(spelling, byte_fallback=True)
        elif kind == "Fuse":
            fused = True
        elif kind == "Replace" and "String" in step["pattern"]:
            spelling = _replacing(spelling, step["pattern"]["String"], step["content"])
        elif kind == "Metaspace":
            spelling = _replacing(spelling, step["replacement"], " ")
            if step.get("prepend_scheme", "always") != "never":
                spelling = dataclasses.replace(spelling, strip_start=b" ")
        elif kind == "Strip" and fused and step["stop"] == 0:
            spelling = dataclasses.replace(spelling, strip_start=(step["content"] * step["start"]).encode())
        elif kind == "WordPiece":
            spelling = dataclasses.replace(spelling, continuation=step["prefix"], strip_start=b" ")
        elif kind == "BPEDecoder":
            spelling = _replacing(spelling, step["suffix"], " ")
        else:
            return None
    return spelling


def _steps(decoder: dict[str, Any]) -> list[dict[str, Any]]:
    if decoder["type"] != "Sequence":
        return [decoder]
    return [step for part in decoder["decoders"] for step in _steps(part)]


def _replacing(spelling: Spelling, old: str, new: str) -> Spelling:
    return dataclasses.replace(spelling, replacements=(*spelling.replacements, (old, new)))
