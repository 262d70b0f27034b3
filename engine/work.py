"""What one sequence computes in an iteration, as the runner wants it. Pure Python."""

from __future__ import annotations

from collections.abc import Iterator

from .plan import Work
from .protocol import Phase
from .sequence import Sequence


def slots_of(table: list[int], start: int, count: int, page_size: int) -> tuple[int, ...]:
    """Where the keys and values of positions [start, start + count) go: page * page_size + offset."""
    if count == 1:
        return (table[start // page_size] * page_size + start % page_size,)
    slots: list[int] = []
    end = start + count
    for index in range(start // page_size, (end - 1) // page_size + 1):
        base = table[index] * page_size - index * page_size
        slots.extend(range(base + max(start, index * page_size), base + min(end, (index + 1) * page_size)))
    return tuple(slots)


def lay_out(sequence: Sequence, phase: Phase, start: int, count: int, page_size: int, spared: int | None) -> Work:
    """The work of one sequence; its block table is cut to the pages of [0, start + count).

    `spared` is None unless the sequence has entered its lane since the last plan.
    """
    end = start + count
    useful = 0 if phase == "padding" else len(sequence.tokens) - sequence.computed if phase == "recompute" else count
    return Work(
        sequence,
        sequence.lane,
        phase,
        start,
        count,
        tuple(sequence.tokens[start:end]),
        slots_of(sequence.block_table, start, count, page_size),
        tuple(sequence.block_table[: -(-end // page_size)]),
        end == len(sequence.tokens) and phase != "padding",
        spared is not None,
        useful,
        spared or 0,
    )


def by_page(work: Work, page_size: int) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """The pages that a work writes: index in the block table, first slot, token ids."""
    if work.count == 1:
        yield work.start // page_size, work.start % page_size, work.token_ids
        return
    for index in range(work.start // page_size, (work.end - 1) // page_size + 1):
        first = max(work.start, index * page_size)
        last = min(work.end, (index + 1) * page_size)
        yield index, first % page_size, work.token_ids[first - work.start : last - work.start]
