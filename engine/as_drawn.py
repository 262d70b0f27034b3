"""The tokens of earlier replies in a prompt: those that were drawn, where their text is still the same.

A model often spells a text otherwise than its tokenizer does (" radio" + "active", not " radioactive"). Encoded anew,
such a reply would be another row of tokens from there on, of which the prefix cache knows nothing.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING

from .control import Encoded
from .layout import Owned
from .spans import spans_of

if TYPE_CHECKING:
    from .tokenizer import Tokenizer


def as_drawn(
    tokenizer: Tokenizer,
    text: str,
    encoded: Sequence[Encoded],
    owned: Sequence[Owned],
    drawn: Mapping[int, Sequence[int]],
    control: Container[int],
) -> list[Encoded]:
    """`encoded`, which is `text`, with the `drawn` ids of each message that they spell in full.

    Ids that spell anything else are for nothing, since the text decides, and so are those with a `control` token
    before their end.
    """
    result: list[Encoded] = []
    done = 0  # tokens of `encoded`
    starts = [token.start for token in encoded]
    for own in owned:
        ids = _spoken(tokenizer, drawn.get(own.message, ()), control)
        if not ids:
            continue
        first = bisect.bisect_left(starts, own.start, done)
        end = bisect.bisect_left(starts, own.end, first)
        anew = encoded[first:end]
        if not anew or anew[0].start != own.start or anew[-1].end != own.end or any(token.control for token in anew):
            continue
        if first and encoded[first - 1].end > own.start:
            continue  # a token reaches over the border, so the words before are part of it
        spelled, tokens = spans_of(tokenizer, ids)
        if spelled != text[own.start : own.end]:
            continue
        result += encoded[done:first]
        result += [dataclasses.replace(t, start=own.start + t.start, end=own.start + t.end) for t in tokens]
        done = end
    return [*result, *encoded[done:]]


def _spoken(tokenizer: Tokenizer, ids: Sequence[int], control: Container[int]) -> Sequence[int]:
    """The ids before those that end a reply; none where a control token is among them, or what is no token."""
    end = len(ids)
    while end and ids[end - 1] in control:
        end -= 1
    odd = any(token in control or not tokenizer.token_bytes(token) for token in ids[:end])
    return () if odd else ids[:end]
