"""Decode steps recorded once for some batch sizes and played back: no Python and no kernel launches in between.

A graph always reads and writes the same memory, so each size has buffers of its own. A batch takes the next larger
size; the rows beyond it read and write a scratch page that no sequence owns.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor

from .cuda_attention import Ragged, first_line
from .guess import resolve
from .plan import Work
from .transfers import Passed

WARM_UPS = 2  # runs before a recording, for what libraries set up on first use

logger = logging.getLogger(__name__)


class Graph(Protocol):
    """Something recorded."""

    def replay(self) -> None: ...


Record: TypeAlias = Callable[[Callable[[], None]], Graph]


class Unrecorded:
    """The work itself, done again at every replay: what graphs are tested with, and what serves without CUDA."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.replay = work


def record_on(device: torch.device) -> Record:
    """A recorder of CUDA graphs that share their memory: only one of them runs at a time. Elsewhere, `Unrecorded`."""
    if device.type != "cuda":
        return Unrecorded
    pool = torch.cuda.graph_pool_handle()
    aside = torch.cuda.Stream(device)  # of this device, which need not be torch's current one

    def record(work: Callable[[], None]) -> Graph:
        aside.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(aside):
            for _ in range(WARM_UPS):
                work()
        before = torch.cuda.current_stream(device)
        before.wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        try:
            # Another model may serve meanwhile: what its thread does must not end this recording, nor be refused.
            with torch.cuda.graph(graph, pool=pool, stream=aside, capture_error_mode="thread_local"):
                work()
        finally:
            torch.cuda.set_stream(before)  # a recording that fails at its end leaves its own stream in place
        return graph

    return record


def sizes(most: int) -> list[int]:
    """Batch sizes to record: 1, 2, 4, 8, then steps of 8 up to 64 and of 32 beyond, `most` the last."""
    steps = [1, 2, 4, *range(8, 65, 8), *range(96, 1025, 32)]
    return [size for size in steps if size < most] + [most]


@dataclasses.dataclass(slots=True)
class Rows:
    """The buffers of one batch size: one piece of device memory, and where in it things are.

    `host` is its twin in pinned memory, filled through `fields` and copied over as a whole; `copied` says when it may
    be filled again, since the step that it was last filled for may still wait for its turn.
    """

    host: Tensor  # [n] int32
    device: Tensor  # [n] int32
    fields: np.ndarray  # [4, B] view of host: ids, positions, slots, used
    tables: np.ndarray  # [B, P] view of host
    ids: Tensor  # [B] views of device, as the next four
    positions: Tensor
    slots: Tensor
    ragged: Ragged
    copied: Passed

    @classmethod
    def make(cls, size: int, width: int, page_size: int, scratch: int, device: torch.device) -> Rows:
        """Buffers for `size` rows and tables of `width` pages, all of them pointing to the page `scratch`."""
        pinned = device.type == "cuda"
        host = torch.zeros(4 * size + size * width, dtype=torch.int32, pin_memory=pinned)
        fields, tables = host[: 4 * size].view(4, size).numpy(), host[4 * size :].view(size, width).numpy()
        fields[2], fields[3], tables[:] = scratch * page_size, 1, scratch
        there = host.to(device)
        if there is host or there.data_ptr() == host.data_ptr():
            there = host.clone()
        ids, positions, slots, used = there[: 4 * size].view(4, size)
        starts = torch.arange(size + 1, dtype=torch.int32, device=device)
        ragged = Ragged(starts, used, there[4 * size :].view(size, width), 1, width * page_size)
        return cls(host, there, fields, tables, ids, positions, slots, ragged, Passed(device))

    def fill(self, works: Sequence[Work], scratch: int, page_size: int, guesses: Tensor | None) -> None:
        """Take the rows' inputs over, and start their copy to the device; `guesses` are for placeholders (`Work`)."""
        self.copied.wait()
        count = len(works)
        self.fields[0, :count] = [work.token_ids[0] for work in works]
        self.fields[1, :count] = [work.start for work in works]
        self.fields[2, :count] = [work.slots[0] for work in works]
        self.fields[3, :count] = [work.end for work in works]
        self.fields[:2, count:] = 0
        self.fields[2, count:], self.fields[3, count:] = scratch * page_size, 1
        self.tables[count:] = scratch
        for row, work in enumerate(works):
            self.tables[row, : len(work.block_table)] = work.block_table
            self.tables[row, len(work.block_table) :] = scratch  # whatever another sequence left there stays unread
        self.device.copy_(self.host, non_blocking=True)
        self.copied = Passed(self.device.device)
        if guesses is not None:
            self.ids.copy_(resolve(self.ids, guesses))


Step: TypeAlias = Callable[[Rows], Tensor]  # logits [B, vocabulary] of a batch in its buffers


class DecodeGraphs:
    """Recorded decode steps by batch size. `step` computes logits from buffers, on the device, without waiting."""

    def __init__(
        self, step: Step, sizes: Sequence[int], width: int, page_size: int, scratch: int, device: torch.device
    ) -> None:
        self._step = step
        self._page_size = page_size
        self._scratch = scratch
        self._rows = {size: Rows.make(size, width, page_size, scratch, device) for size in sorted(sizes)}
        self._graphs: dict[int, Graph] = {}
        self._logits: dict[int, Tensor] = {}
        self.width = width

    def record(self, record: Record) -> str:
        """Record every size, the largest first since it needs the most memory. Returns why not, if not."""
        try:
            for size in sorted(self._rows, reverse=True):
                rows = self._rows[size]

                def work(rows: Rows = rows, size: int = size) -> None:
                    self._logits[size] = self._step(rows)

                self._graphs[size] = record(work)
        except RuntimeError as error:
            logger.warning("CUDA graphs can't be recorded: %s", error)
            self._graphs.clear()
            return f"no CUDA graphs: {first_line(error)}"
        return ""

    def fits(self, works: Sequence[Work]) -> bool:
        """Whether a graph takes this batch: single tokens, not too many, in pages that the tables have room for."""
        return (
            len(works) <= max(self._graphs, default=0)
            and all(work.count == 1 for work in works)
            and all(len(work.block_table) <= self.width for work in works)
        )

    def run(self, works: Sequence[Work], guesses: Tensor | None = None) -> Tensor:
        """Logits [B, vocabulary] of a batch that fits; overwritten by the next run of its size."""
        size = min(size for size in self._graphs if size >= len(works))
        self._rows[size].fill(works, self._scratch, self._page_size, guesses)
        self._graphs[size].replay()
        return self._logits[size][: len(works)]
