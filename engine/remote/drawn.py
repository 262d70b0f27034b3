"""A server's log-probabilities as the tokens and candidates that panels draw."""

from __future__ import annotations

import math

from ..protocol import Candidate, Sampled
from .answers import Alternative, TokenLogprob

UNTOLD = -1  # the id of a token whose id the server does not tell; the iteration of a step that it does not tell of


def _bytes(told: list[int] | None, piece: str) -> bytes:
    if told is not None and all(0 <= byte < 256 for byte in told):
        return bytes(told)
    return piece.encode("utf-8", "replace")


def sampled(
    request: str, sample: int, index: int, entry: TokenLogprob, told: int, prompt_tokens: int, now_ns: int
) -> Sampled:
    """The token of `entry`; `told` is its id where the entry has none. `prompt_tokens` 0: not known."""
    piece = entry.token or ""
    token = entry.id if entry.id is not None else told
    others = [alternative for alternative in entry.top_logprobs or () if alternative.logprob is not None]
    own = Alternative(piece, entry.logprob, entry.bytes, token)
    listed = any(_same(other, own) for other in others)
    if others and not listed:
        others.append(own)
    others.sort(key=lambda other: -(other.logprob or 0.0))  # vLLM puts the drawn one first
    rank = 0
    if listed and entry.logprob is not None:
        above = sum(1 for other in others if (other.logprob or 0.0) > entry.logprob)
        # The last of the list may be there only because it was drawn: how many lie between is not told.
        rank = above + 1 if above < len(others) - 1 else 0
    return Sampled(
        request=request,
        sample=sample,
        index=index,
        position=prompt_tokens + index if prompt_tokens else UNTOLD,
        id=token,
        piece=piece,
        bytes=_bytes(entry.bytes, piece),
        time_ns=now_ns,
        logprob=entry.logprob,
        rank=rank,
        candidates=tuple(_candidate(other, own) for other in others),
        told=True,
    )


def _same(one: Alternative, other: Alternative) -> bool:
    if one.id is not None and other.id is not None and UNTOLD not in (one.id, other.id):
        return one.id == other.id
    return (one.token, one.bytes) == (other.token, other.bytes)


def _candidate(alternative: Alternative, drawn: Alternative) -> Candidate:
    piece = alternative.token or ""
    share = math.exp(min(0.0, alternative.logprob or 0.0))
    own = drawn.id if _same(alternative, drawn) else None
    token = alternative.id if alternative.id is not None else own
    # The logit is not told, nor what the sampler made of it: panels know by `Sampled.told` not to show them.
    return Candidate(
        UNTOLD if token is None else token,
        piece,
        _bytes(alternative.bytes, piece),
        logit=0.0,
        logprob=alternative.logprob,
        tempered=share,
        prob=share,
    )
