"""The queue in front of the lanes: who may enter, who may overtake, and what those who wait are told. No torch.

First come, first served, with bounded overtaking: while the first in the queue does not fit into the free pages, a
later one that fits may enter, until somebody has been overtaken `MAX_OVERTAKES` times. Then all wait for that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .errors import TooLongError
from .lanes import Lanes
from .pages import PagePool
from .protocol import Wait
from .sequence import Sequence

MAX_OVERTAKES = 8
LOOK_AHEAD = 4  # sequences that are tried in vain in one iteration: a long queue must not cost time in every step

Enter = Callable[[Sequence, list[int]], None]


def count(number: int, thing: str) -> str:
    """ "1 page", "2 pages"."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def lane_limit(max_lanes: int, token_budget: int) -> tuple[int, str]:
    """How many lanes there may be, and what to say when they are taken.

    Each lane gets at least one position in every iteration, so there can't be more of them than that.
    """
    limit = max(1, min(max_lanes, token_budget))
    full = f"all {limit} lanes are taken" if limit > 1 else "the only lane is taken"
    if token_budget < max_lanes:
        full += f", as many as the token budget of {token_budget} serves"
    return limit, full


def check_fits(pool: PagePool, prompt_length: int) -> None:
    """Raise `TooLongError` for a prompt that, with one new token, can never fit `pool`."""
    needed = pool.pages_for(prompt_length + 1)
    if needed > pool.pages:
        raise TooLongError(
            f"A prompt of {count(prompt_length, 'token')} needs {count(needed, 'page')} of "
            f"{pool.page_size} tokens, the pool has {pool.pages}.",
            "Shorten it, or load the model with more pages.",
        )


class Admission:
    """The waiting sequences in order. `pool` and `lanes` are only read; entering is the scheduler's business."""

    def __init__(self, pool: PagePool, lanes: Lanes) -> None:
        self._pool = pool
        self._lanes = lanes
        self._queue: list[Sequence] = []
        self._version = 0  # of the queue: what was said about its tail holds until it changes
        self._tail: tuple[Wait, ...] = ()
        self._tail_of: tuple[int, int, str] = (-1, 0, "")
        self._tried: list[tuple[Sequence, int]] = []  # the first of the queue, with the pages each would need
        self._closed = ""  # why no one else could enter
        self._closed_to_all = False  # or only to the next in line

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._queue)

    def append(self, sequence: Sequence) -> None:
        self._queue.append(sequence)
        self._version += 1

    def push_front(self, sequence: Sequence) -> None:
        self._queue.insert(0, sequence)
        self._version += 1

    def remove(self, sequence: Sequence) -> None:
        self._queue.remove(sequence)
        self._version += 1

    # -------------------------------------------------------------------------------------------- admission

    def close(self, reason: str) -> None:
        """Admit nobody in this iteration, and tell everyone why."""
        self._tried = []
        self._closed, self._closed_to_all = reason, True

    def admit(self, limit: int, full: str, matching: bool, enter: Enter, strip: Callable[[Sequence], None]) -> None:
        """Let sequences into the lanes, up to `limit` lanes in use; `full` is what to say then.

        `enter(sequence, matched)` puts one in; `matched` are pages of its prefix that the index found (none unless
        `matching`), if they are worth more than those it holds. `strip(sequence)` takes a waiting one's pages away.
        """
        self._tried = []
        self._closed, self._closed_to_all = "", False
        while len(self._tried) < min(len(self._queue), LOOK_AHEAD):
            if self._lanes.occupied >= limit:
                self._closed = full
                return
            sequence = self._queue[len(self._tried)]
            matched, need = self._offer(sequence, matching)
            if self._lanes.occupied == 0 and need > self._pool.available:
                matched, need = self._make_room(sequence, matching, strip)
            if need + self._headroom(sequence) <= self._pool.available:
                for passed, _ in self._tried:
                    passed.overtaken += 1
                self.remove(sequence)
                enter(sequence, matched)
            else:
                self._tried.append((sequence, need))
            if any(waiting.overtaken >= MAX_OVERTAKES for waiting, _ in self._tried):
                return

    def _offer(self, sequence: Sequence, matching: bool) -> tuple[list[int], int]:
        """Pages found for its prefix, and how many of the available pages it would take to run it."""
        pool = self._pool
        total = pool.pages_for(len(sequence))
        matched = pool.match(sequence.tokens, chain=sequence.chain) if matching else []
        if len(matched) * pool.page_size <= sequence.computed:
            return [], total - len(sequence.block_table)
        return matched, total - sum(pool.refs(page) > 0 for page in matched)

    def _headroom(self, sequence: Sequence) -> int:
        # A preempted one that came back into the last free page would be the next victim as soon as another grows.
        return self._lanes.occupied + 1 if sequence.preemptions and self._lanes.occupied else 0

    def _make_room(
        self, sequence: Sequence, matching: bool, strip: Callable[[Sequence], None]
    ) -> tuple[list[int], int]:
        """Nothing runs, so only waiting forks can hold pages: take them from the last in the queue on."""
        matched, need = self._offer(sequence, matching)
        for holder in reversed(self._queue):
            if need <= self._pool.available:
                break
            strip(holder)
            matched, need = self._offer(sequence, matching)
        return matched, need

    # ---------------------------------------------------------------------------------------------- reasons

    def waits(self) -> tuple[Wait, ...]:
        """Why each waiting sequence does not run, as of the last `admit` or `close`."""
        tried = [self._wait_for_pages(sequence, need) for sequence, need in self._tried]
        tail_of = (self._version, len(tried), self._closed)
        if tail_of != self._tail_of:
            self._tail = tuple([self._wait_in_line(place) for place in range(len(tried), len(self._queue))])
            self._tail_of = tail_of
        return (*tried, *self._tail)

    def _wait_for_pages(self, sequence: Sequence, need: int) -> Wait:
        free = self._pool.available
        if sequence.preemptions:
            need += self._headroom(sequence)
            reason = f"paused after preemption until {count(need, 'page')} {'is' if need == 1 else 'are'} free"
        else:
            reason = f"{count(need, 'page')} needed, {free} free"
        return Wait(sequence.request, sequence.sample, reason, need, free, sequence.overtaken)

    def _wait_in_line(self, place: int) -> Wait:
        sequence = self._queue[place]
        told = self._closed and (self._closed_to_all or place == len(self._tried))
        reason = self._closed if told else f"{count(place, 'sequence')} before it"
        return Wait(sequence.request, sequence.sample, reason, overtaken=sequence.overtaken)
