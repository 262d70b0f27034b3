"""The tokens of a prompt, as the server's own /tokenize tells them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from ..protocol import Message, PromptToken, Role
from ..spelling import BYTE_ALPHABET
from .answers import Piece, Templated, Tokenized, read
from .connection import Connection
from .dialects import Dialect

_SPACE = "\u2581"  # sentencepiece's
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")  # sentencepiece's byte without a piece of its own
_SPECIAL = re.compile(r"<\|?[^\s<>|]+\|?>|\[/?[A-Z_]+\]|</?s>")  # how templates write their control tokens
_ROLES: dict[str, Role] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


def probe(dialect: Dialect, model: str) -> bytes | None:
    """A body that tells whether /tokenize is there and names pieces; None where no such server has it."""
    if dialect.tokenizer == "vllm":
        return msgspec.json.encode({"model": model, "prompt": "a", "return_token_strs": True})
    if dialect.tokenizer == "llama.cpp":
        return msgspec.json.encode({"content": "a", "with_pieces": True})
    return None


async def of_prompt(
    connection: Connection, root: str, dialect: Dialect, model: str, messages: Sequence[Message], go_on: bool
) -> tuple[str, tuple[PromptToken, ...]]:
    """The templated text and its tokens; empty where the server does not tell. Raises `Unreachable`."""
    sent = [{"role": message.role, "content": message.content} for message in messages]
    if dialect.tokenizer == "vllm":
        body = {"model": model, "messages": sent, "return_token_strs": True}
        if go_on:
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        answer = await connection.post(f"{root}/tokenize", msgspec.json.encode(body))
        told = read(Tokenized, answer.body) if answer.good else None
        if told is None or not told.tokens or len(told.token_strs or ()) != len(told.tokens):
            return "", ()
        ids = [token for token in told.tokens if isinstance(token, int)]
        return row(ids, list(map(bytes_of, told.token_strs or ())), messages)
    if dialect.tokenizer == "llama.cpp":
        answer = await connection.post(f"{root}/apply-template", msgspec.json.encode({"messages": sent}))
        templated = read(Templated, answer.body) if answer.good else None
        if templated is None or not templated.prompt:
            return "", ()
        body = {"content": templated.prompt, "add_special": True, "with_pieces": True}
        answer = await connection.post(f"{root}/tokenize", msgspec.json.encode(body))
        told = read(Tokenized, answer.body) if answer.good else None
        pieces = [token for token in (told.tokens or () if told else ()) if isinstance(token, Piece)]
        data = [_bytes(p.piece) if isinstance(p.piece, list) else p.piece.encode() for p in pieces]
        return row([piece.id for piece in pieces], data, messages)
    return "", ()


def _bytes(told: Sequence[int]) -> bytes:
    return bytes(byte for byte in told if 0 <= byte < 256)  # a server may say anything


def bytes_of(piece: str) -> bytes:
    """The bytes a vocabulary's string stands for: GPT-2's byte alphabet, or sentencepiece's spaces; else itself."""
    if (match := _BYTE.fullmatch(piece)) is not None:
        return bytes([int(match[1], 16)])
    if piece and all(character in BYTE_ALPHABET for character in piece):
        return bytes(BYTE_ALPHABET[character] for character in piece)
    return piece.replace(_SPACE, " ").encode()


def row(
    ids: Sequence[int], pieces: Sequence[bytes], messages: Sequence[Message]
) -> tuple[str, tuple[PromptToken, ...]]:
    """Text and tokens. Whose a token is, is told by where the messages' texts stand in the whole; the rest is the
    template's own. That is a reading of the text, not something that the server said."""
    if not ids or len(ids) != len(pieces):
        return "", ()
    whole = b"".join(pieces)
    owners: list[tuple[int, int, Role, int]] = []  # first byte, end, role, message
    at = 0
    for index, message in enumerate(messages):
        content = message.content.strip().encode()
        start = whole.find(content, at) if content else -1
        if start >= 0:
            owners.append((start, start + len(content), _ROLES.get(message.role, "raw"), index))
            at = start + len(content)
    tokens: list[PromptToken] = []
    text = ""
    position = 0
    for token, data in zip(ids, pieces, strict=True):
        piece = data.decode("utf-8", "replace")
        owner = next((o for o in owners if o[0] < position + len(data) and position < o[1]), None)
        special = _SPECIAL.fullmatch(piece) is not None and owner is None
        role, message = (owner[2], owner[3]) if owner else ("control" if special else "raw", -1)
        start, text = len(text), text + piece
        tokens.append(PromptToken(token, piece, role, special, message, start, len(text), data))
        position += len(data)
    return text, tuple(tokens)
