"""One iteration as an event: lanes, waits, pages, and every token with what it was drawn from.

What comes with every token is kept from the garbage collector (`gc=False`): it is frozen and holds no object that
could hold it, so it can be in no cycle, and looking through thousands of them is all that a collection would do.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from .vocabulary import Bytes, Cut, Event, Phase, Policy


class Candidate(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A token that could have been drawn. Log-probabilities are natural; None stands for minus infinity."""

    id: int
    piece: str
    bytes: Bytes
    logit: float  # raw, as the model gave it
    logprob: float | None  # raw, at temperature 1, before everything
    tempered: float  # probability after bias, penalties and temperature
    prob: float  # probability it was drawn with; 0 where cut
    cut: Cut = ""


class Sampled(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One generated token: what it is, how it was drawn, where its key and value will live."""

    request: str
    sample: int
    index: int  # among the generated tokens, from 0
    position: int  # in the sequence, from 0
    id: int
    piece: str
    bytes: Bytes
    time_ns: int
    logprob: float | None = None  # raw, at temperature 1
    rank: int = 0  # by raw logit, from 1; 0: not known
    prob: float = 0.0  # it was drawn with
    entropy: float = 0.0  # nats, of the raw distribution
    entropy_after: float = 0.0  # nats, of the distribution it was drawn from
    draw: float | None = None  # the uniform number in [0, 1); None: greedy or forced
    forced: bool = False
    end: bool = False  # an end token: shown in the row, not in the text
    candidates: tuple[Candidate, ...] = ()
    told: bool = False  # by a server: only log-probabilities at temperature 1 are known; -1 is an id it does not tell


class Lane(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What one batch lane did in one iteration: positions [start, start + count) of its sequence."""

    lane: int
    request: str
    sample: int
    phase: Phase
    start: int
    count: int
    length: int  # tokens the sequence has now
    prompt: int  # of which prompt
    cached: int = 0  # positions spared by the prefix cache when it was admitted
    reuse_needs: int = 0  # positions this would compute with KV reuse
    admitted: bool = False  # entered this lane in this iteration
    block_table: tuple[int, ...] = ()  # sent when it changed; empty: as last told


class Wait(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Why a sequence does not run, in words and numbers."""

    request: str
    sample: int
    reason: str
    pages_needed: int = 0
    pages_free: int = 0
    overtaken: int = 0


class PageChange(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The state of a page after an iteration in which it changed.

    `used` has references, `cached` has none but can be matched or revived, `free` holds nothing of value.
    """

    page: int
    state: Literal["used", "cached", "free"]
    owners: tuple[str, ...] = ()  # "request/sample"
    fill: int = 0  # tokens written
    refs: int = 0
    hash: str = ""  # first 16 hex digits; empty: not matchable
    evicted: bool = False  # its cached content was given up
    copied_from: int = -1


class PoolTotals(msgspec.Struct, frozen=True, gc=False):
    """Pages by state; used + cached + free = total."""

    total: int = 0
    used: int = 0
    shared: int = 0  # of the used: with more than one reference
    cached: int = 0
    free: int = 0


class Step(Event, frozen=True, gc=False):
    """One iteration, derived from its plan. When the reader lags, several are merged into one.

    Iteration -1 is none: a server told of these tokens, or is waited for, and its iterations are not known.

    Durations are the engine's own time, and no time counts for two iterations. On a device that computes by itself
    `run_ns` is the launch and the wait for it, and an iteration may have been launched `ahead` of the draws
    of the one before; what that one ended is padding in it.
    """

    iteration: int
    started_ns: int
    schedule_ns: int = 0  # duration, as the next three
    run_ns: int = 0
    sample_ns: int = 0
    finish_ns: int = 0
    lanes: tuple[Lane, ...] = ()
    waits: tuple[Wait, ...] = ()
    pages: tuple[PageChange, ...] = ()
    sampled: tuple[Sampled, ...] = ()
    preempted: tuple[str, ...] = ()  # "request/sample"
    computed: int = 0  # positions computed
    padding: int = 0  # of which for lanes that had finished
    reuse_needs: int = 0  # positions KV reuse needs for the same tokens
    recompute_needs: int = 0  # positions recomputing every prefix would have cost
    spared: int = 0  # positions the prefix cache spared sequences admitted in this iteration
    pool: PoolTotals = PoolTotals()
    policy: Policy = "continuous"
    ahead: bool = False  # planned and launched while the iteration before ran
    not_ahead: str = ""  # why not, where the device allows it
    merged: int = 0  # iterations before this one folded into it; their lanes are dropped, the rest is summed
