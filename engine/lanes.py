"""The batch lanes: which sequence runs where. A sequence keeps its lane's number for as long as it runs."""

from __future__ import annotations

import operator
from collections.abc import Iterator

from .sequence import Sequence, Status

_by_arrival = operator.attrgetter("arrival")


class Lanes:
    """Lanes are counted from 0; the list grows as they are first used and never moves a sequence."""

    def __init__(self) -> None:
        self._lanes: list[Sequence | None] = []
        self.occupied = 0

    def __iter__(self) -> Iterator[tuple[int, Sequence]]:
        return ((lane, sequence) for lane, sequence in enumerate(self._lanes) if sequence is not None)

    def enter(self, sequence: Sequence) -> None:
        """Put `sequence` into the lowest free lane."""
        if None in self._lanes:
            sequence.lane = self._lanes.index(None)
            self._lanes[sequence.lane] = sequence
        else:
            sequence.lane = len(self._lanes)
            self._lanes.append(sequence)
        self.occupied += 1

    def leave(self, sequence: Sequence) -> None:
        self._lanes[sequence.lane] = None
        sequence.lane = -1
        self.occupied -= 1

    def running(self) -> list[Sequence]:
        """Running sequences, the oldest first."""
        found = [s for s in self._lanes if s is not None and s.status is Status.RUNNING]
        found.sort(key=_by_arrival)
        return found

    def padding(self) -> list[Sequence]:
        """Finished sequences that a static batch keeps in their lanes."""
        return [s for s in self._lanes if s is not None and s.status is Status.PADDING]

    def youngest(self) -> Sequence:
        """The running sequence that arrived last; there must be one."""
        return max((s for _, s in self if s.status is Status.RUNNING), key=_by_arrival)
