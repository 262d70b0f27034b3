"""Which characters of a reply a token made, and the other way round. No Textual."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

from ..state import RequestState
from ..state.conversation import Node


def _spans(node: Node, request: RequestState, sample: int) -> Iterator[tuple[int, int, int]]:
    """(position, start, end) of each generated token in the message's text, where its bytes made characters."""
    reply = node.reply
    state = request.samples.get(sample)
    if reply is None or state is None or reply.request != request.request:
        return
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    at = len(reply.prefix)
    text = node.text
    for index, token in enumerate(state.tokens):
        if token is None or token.end:
            continue
        piece = decoder.decode(token.bytes)
        if index == 0 and not text.startswith(piece, at) and text.startswith(piece.lstrip(), at):
            piece = piece.lstrip()  # the space before a reply's first word is not part of its text
        if text.startswith(piece, at):
            yield len(request.prompt) + index, at, at + len(piece)
            at += len(piece)


def span(node: Node, request: RequestState, sample: int, position: int) -> tuple[int, int] | None:
    """Where in the message's text the token at `position` of the sequence stands; None if it is not there."""
    return next(((start, end) for at, start, end in _spans(node, request, sample) if at == position), None)


def position(node: Node, request: RequestState, sample: int, offset: int) -> int | None:
    """The position in the sequence of the token that made the character at `offset`; None if not known."""
    return next((at for at, start, end in _spans(node, request, sample) if start <= offset < end), None)
