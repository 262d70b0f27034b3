"""The scheduler's rules, checked: run in tests after every step, and by the engine when it is idle."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping

from .lanes import Lanes
from .pages import IntegrityError, PagePool
from .plan import PageCopy
from .sequence import Sequence, Status


def check(pool: PagePool, lanes: Lanes, waiting: Iterable[Sequence], copies: Mapping[Sequence, PageCopy]) -> None:
    """Raise `IntegrityError` unless pool, block tables, lanes, queue and coming copies agree.

    Costs O(pages ever used + tokens alive).
    """
    problems: list[str] = []
    tables: dict[str, list[int]] = {}
    pins = collections.Counter(copy.source for copy in copies.values())
    alive: list[Sequence] = []
    for lane, sequence in lanes:
        alive.append(sequence)
        if sequence.lane != lane or sequence.status not in (Status.RUNNING, Status.PADDING):
            problems.append(f"{sequence.key} in lane {lane} says {sequence.status.value} in lane {sequence.lane}")
    if len(alive) != lanes.occupied:
        problems.append(f"{lanes.occupied} lanes are counted as occupied, {len(alive)} are")
    for sequence in waiting:
        alive.append(sequence)
        if sequence.lane != -1 or sequence.status is not Status.WAITING:
            problems.append(f"{sequence.key} in the queue says {sequence.status.value} in lane {sequence.lane}")
    for sequence in alive:
        if sequence.key in tables:
            problems.append(f"{sequence.key} is there twice")
        copy = copies.get(sequence)
        tables[sequence.key] = sequence.block_table + ([copy.source] if copy else [])
        problems += _content(pool, sequence, copy, pins)
    if len(copies) != sum(sequence in copies for sequence in alive):
        problems.append("a copy is planned for a sequence that has ended")
    if problems:
        raise IntegrityError("; ".join(problems))
    pool.check(tables)


def _content(pool: PagePool, sequence: Sequence, copy: PageCopy | None, pins: Mapping[int, int]) -> Iterable[str]:
    """What is wrong with the pages of one sequence."""
    size = pool.page_size
    written = sequence.computed - (copy.fill if copy else 0)
    if not 0 <= written <= sequence.computed <= len(sequence):
        yield f"{sequence.key} has {sequence.computed} of {len(sequence)} tokens computed"
    if sequence.status is Status.RUNNING and len(sequence.block_table) * size < sequence.computed:
        yield f"{sequence.key} has {sequence.computed} tokens in {len(sequence.block_table)} pages"
    if copy and sequence.block_table[-1] != copy.target:
        yield f"{sequence.key} waits for a copy to page {copy.target}, its last is {sequence.block_table[-1]}"
    for index, page in enumerate(sequence.block_table):
        start = index * size
        expected = sequence.tokens[start : min(written, start + size)]
        if list(pool.detail(page).token_ids) != expected:
            yield f"page {page} does not hold positions {start} to {start + len(expected)} of {sequence.key}"
        if len(expected) < size and pool.refs(page) - pins.get(page, 0) != 1:
            yield f"{sequence.key} writes to page {page}, which has {pool.refs(page)} references"
