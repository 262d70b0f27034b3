"""Runs a plan through the model: one packed forward over ragged sequences."""

from __future__ import annotations

import time
from array import array
from typing import Protocol, TypeGuard

import torch

from . import kernels
from .attention import AttentionContext
from .batch import Batch, pack
from .decode_step import DecodeStep, NativeStep
from .kv_cache import KVCache
from .plan import StepPlan
from .threads import ThreadWatch, usable_cores

MOST_ROWS = 128


class Runner(Protocol):
    """What turns a plan into logits."""

    def run(self, plan: StepPlan) -> torch.Tensor:
        """Logits [R, vocabulary] of the last position of every work with `samples`, in the plan's order."""
        ...

    def use_threads(self, count: int) -> None:
        """Compute with `count` threads from now on. OpenMP keeps that number for each calling thread apart."""
        ...

    def release(self, key: str) -> None:
        """A sequence ("request/sample") is gone; forget what was kept for it outside the pages."""
        ...


class RunsAhead(Protocol):
    """A runner that only launches: the next step can be planned and launched before this one's tokens are drawn."""

    def run_ahead(self, plan: StepPlan, guesses: torch.Tensor) -> torch.Tensor:
        """As `Runner.run`; `guesses` [R] on the device are for the placeholders among the plan's tokens."""
        ...


def runs_ahead(runner: Runner) -> TypeGuard[RunsAhead]:
    """Whether it is one; asked in every step, where `isinstance` of a protocol takes ten times as long."""
    return hasattr(runner, "run_ahead")


class PagedRunner:
    """The transformers model itself over the page pool; pure decode steps may take a shorter way."""

    def __init__(self, model: torch.nn.Module, cache: KVCache, decode: DecodeStep | None = None) -> None:
        self.model = model
        self.cache = cache
        self.decode = decode
        self.watch: ThreadWatch | None = None
        self.device = next(model.parameters()).device

    def run(self, plan: StepPlan) -> torch.Tensor:
        if plan.copies:
            self.cache.copy_pages(plan.copies)
        if isinstance(self.decode, NativeStep):
            return self._run_natively(self.decode, plan)
        return self._run_in_torch(plan)

    @torch.inference_mode()
    def _run_in_torch(self, plan: StepPlan) -> torch.Tensor:
        batch = pack(plan, self.cache.page_size, self.device)
        if self.decode is not None and batch.decodes == len(plan.work):
            logits = self.decode(
                batch.ids[0], batch.positions[0], batch.slots, batch.page_table.to(torch.int32), batch.lengths
            )
            return logits if len(batch.logit_rows) == len(logits) else logits[batch.logit_rows]
        return forward(self.model, batch, self.cache)

    def _run_natively(self, step: NativeStep, plan: StepPlan) -> torch.Tensor:
        if self.watch is None:
            return run_rows(step, plan)
        step.threads = self.watch.count(plan.computed)
        began = time.perf_counter()
        logits = run_rows(step, plan)
        self.watch.took(time.perf_counter() - began)
        return logits

    def use_threads(self, count: int) -> None:
        torch.set_num_threads(count)
        if isinstance(self.decode, NativeStep):
            self.decode.threads = count

    def watch_threads(self) -> None:
        """Keep measuring whether one thread or all are faster: for our own kernels, whose bits do not depend on it."""
        if isinstance(self.decode, NativeStep):
            threads = self.decode.threads
            other = usable_cores() if threads == 1 else 1
            if other != threads:
                self.watch = ThreadWatch(threads, other)

    def release(self, key: str) -> None:
        """Nothing is kept outside the pages."""


def run_rows(step: NativeStep, plan: StepPlan) -> torch.Tensor:
    """A plan through our own kernels, every position a row: logits [R, vocabulary] of the works that sample.

    `MOST_ROWS` at a time: a row needs room for its partial attention, which grows with the context. Laid out without
    torch, whose dozen small operations would take a twentieth of a step.
    """
    ids = array("q", [token for work in plan.work for token in work.token_ids])  # [T]
    positions = array("q", [p for work in plan.work for p in range(work.start, work.end)])
    slots = array("q", [slot for work in plan.work for slot in work.slots])
    lengths = array("q", [position + 1 for position in positions])
    width = max(len(work.block_table) for work in plan.work)
    table, row, wanted = array("i"), 0, []  # [T * width]
    for work in plan.work:
        table.extend(array("i", [*work.block_table, *[0] * (width - len(work.block_table))]) * work.count)
        row += work.count
        if work.samples:
            wanted.append(row - 1)
    wide = [column.buffer_info()[0] for column in (ids, positions, slots, lengths)]
    logits = []
    for first in range(0, len(ids), MOST_ROWS):
        count = min(MOST_ROWS, len(ids) - first)
        outputs = array("q", [w - first for w in wanted if first <= w < first + count])
        given = [address + first * ids.itemsize for address in wide]
        pages, out = table.buffer_info()[0] + first * width * table.itemsize, outputs.buffer_info()[0]
        logits.append(step.run(kernels.Batch(*given, pages, out, None, count, width, len(outputs))))
    return logits[0] if len(logits) == 1 else torch.cat(logits)


def forward(model: torch.nn.Module, batch: Batch, cache: KVCache, by_row: bool = False) -> torch.Tensor:
    """The transformers model over one packed batch: logits [R, vocabulary] of `batch.logit_rows`.

    No cache object is passed and no mask is registered: keys and values go to `cache`, and `position_ids` places
    every row. Only the wanted rows go through the vocabulary head. `by_row`: every position attends by itself.
    """
    out = model(
        input_ids=batch.ids,
        position_ids=batch.positions,
        use_cache=False,
        logits_to_keep=batch.logit_rows,
        cutaway=AttentionContext(batch, cache, {}, by_row),
    )
    return out.logits[0]
