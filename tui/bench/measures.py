"""What a benchmark finds out, as plain data: the same in JSON, in the state directory and in the table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from ...engine.protocol import Finished, ModelCard

FORMAT = 1


class Served(msgspec.Struct, frozen=True):
    """One request as it went. Time stamps are monotonic ns, all of one clock."""

    prompt_tokens: int
    cached_tokens: int
    preemptions: int
    submitted_ns: int
    began_ns: int  # its first iteration
    tokens_ns: tuple[int, ...]  # when each token was there

    @property
    def ttft_ns(self) -> int:
        """Time to first token."""
        return self.tokens_ns[0] - self.submitted_ns

    @property
    def gaps_ns(self) -> list[int]:
        """Inter-token latencies."""
        return [after - before for before, after in pairwise(self.tokens_ns)]


class Spread(msgspec.Struct, frozen=True):
    """Percentiles by nearest rank."""

    p5: float
    p50: float
    p95: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of at least one value."""
        ordered = sorted(values)
        last = len(ordered) - 1
        return cls(*(round(ordered[round(share * last)], 3) for share in (0.05, 0.5, 0.95)))


class StreamsResult(msgspec.Struct, frozen=True):
    """So many requests at once. Rates in tokens a second over all of them, latencies in milliseconds.

    `decode` counts what was written while all of them wrote; `each` is one request's own rate after its first token.
    `limit` is the decode rate at which memory would be read as fast as it can be; 0: not known.
    """

    streams: int
    prefill: Spread
    decode: Spread
    each: Spread
    ttft_ms: Spread
    itl_ms: Spread
    limit: float = 0.0
    preemptions: int = 0

    @property
    def share(self) -> float:
        """Of the limit; 0: not known."""
        return self.decode.p50 / self.limit if self.limit else 0.0


class FollowUpResult(msgspec.Struct, frozen=True):
    """A second message in a chat: the time to its first token with the prefix cache, and without."""

    prompt_tokens: int
    cached_tokens: int
    warm_ttft_ms: Spread
    cold_ttft_ms: Spread

    @property
    def times(self) -> float:
        """How many times sooner the cache makes it."""
        return self.cold_ttft_ms.p50 / self.warm_ttft_ms.p50 if self.warm_ttft_ms.p50 else 0.0


class Report(msgspec.Struct, frozen=True):
    """One benchmark."""

    made: str  # ISO 8601, local time
    cutaway: str  # the engine's version
    model: str
    identity: str
    device: str
    precision: str
    kernel: str
    threads: int
    load_ms: float
    step_bytes: int
    position_bytes: int  # of keys and values of one position
    memory_bytes_per_s: int
    prompt_tokens: int  # asked for; a few more or less come of the tokenizer
    new_tokens: int
    rounds: int
    streams: tuple[StreamsResult, ...]
    follow_up: FollowUpResult | None = None
    format: int = FORMAT


def served(end: Finished, sent_ns: int, arrivals_ns: Sequence[int]) -> Served:
    """What `end` tells of its request; where the engine stamps nothing, what was seen here counts."""
    line = end.timeline
    if line.tokens_ns:
        began = line.prefill[0][2] if line.prefill else line.scheduled_ns or line.submitted_ns
        submitted, tokens = line.submitted_ns, line.tokens_ns
    else:
        submitted, began, tokens = sent_ns, sent_ns, tuple(arrivals_ns)
    return Served(end.prompt_tokens, end.cached_tokens, end.preemptions, submitted, began, tokens)


def prefill_rate(requests: Sequence[Served]) -> float:
    """Prompt tokens computed a second until every request has its first token."""
    computed = sum(r.prompt_tokens - r.cached_tokens for r in requests)
    duration = max(r.tokens_ns[0] for r in requests) - min(r.began_ns for r in requests)
    return computed * 1e9 / max(1, duration)


def decode_rate(requests: Sequence[Served]) -> float:
    """Tokens written a second while all requests wrote; where there was no such time, over the whole of it."""
    begin, end = max(r.tokens_ns[0] for r in requests), min(r.tokens_ns[-1] for r in requests)
    if end <= begin:
        begin, end = min(r.tokens_ns[0] for r in requests), max(r.tokens_ns[-1] for r in requests)
    written = sum(begin < stamp <= end for r in requests for stamp in r.tokens_ns)
    return written * 1e9 / max(1, end - begin)


def own_rate(request: Served) -> float:
    """One request's tokens a second after its first."""
    return (len(request.tokens_ns) - 1) * 1e9 / max(1, request.tokens_ns[-1] - request.tokens_ns[0])


def limit(card: ModelCard, memory_bytes_per_s: int, requests: Sequence[Served]) -> float:
    """Tokens a second if decoding did nothing but read weights once a step, and every request's keys and values.

    0 where the engine does not tell what it takes.
    """
    if not card.step_bytes or not memory_bytes_per_s:
        return 0.0
    context = sum(r.prompt_tokens + len(r.tokens_ns) / 2 for r in requests)
    step = card.step_bytes + context * position_bytes(card)
    return memory_bytes_per_s / step * len(requests)


def position_bytes(card: ModelCard) -> int:
    """Keys and values of one position over all layers, in bytes; 0: not known."""
    return card.page_bytes // card.page_size if card.page_size else 0


def streams_result(rounds: Sequence[Sequence[Served]], card: ModelCard, memory_bytes_per_s: int) -> StreamsResult:
    """Sum up rounds of the same number of requests. Each must have written two tokens at least."""
    every = [request for requests in rounds for request in requests]
    return StreamsResult(
        streams=len(rounds[0]),
        prefill=Spread.of([prefill_rate(requests) for requests in rounds]),
        decode=Spread.of([decode_rate(requests) for requests in rounds]),
        each=Spread.of([own_rate(request) for request in every]),
        ttft_ms=Spread.of([request.ttft_ns / 1e6 for request in every]),
        itl_ms=Spread.of([gap / 1e6 for request in every for gap in request.gaps_ns]),
        limit=round(limit(card, memory_bytes_per_s, rounds[0]), 1),
        preemptions=sum(request.preemptions for request in every),
    )


def follow_up_result(warm: Sequence[Served], cold: Sequence[Served]) -> FollowUpResult:
    """Sum up rounds of the same follow-up with and without a filled prefix cache."""
    return FollowUpResult(
        prompt_tokens=warm[0].prompt_tokens,
        cached_tokens=min(request.cached_tokens for request in warm),
        warm_ttft_ms=Spread.of([request.ttft_ns / 1e6 for request in warm]),
        cold_ttft_ms=Spread.of([request.ttft_ns / 1e6 for request in cold]),
    )
