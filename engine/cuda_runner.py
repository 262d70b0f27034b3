"""Runs a plan on a CUDA device: prompts and decodes in one ragged forward, pure decode steps as recorded graphs.

Whatever goes to the device goes in one copy from pinned memory, and nothing here waits for the device: the sampler
does, with its one copy back, and the next step can be launched in between (`launched.py`). Everything runs in one
stream, in the order of its launch: a page that changes hands is written by its new owner after the last step that its
old one was in.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools

import torch
from torch import Tensor

from . import cuda_attention, selftest
from .attention import AttentionContext
from .cuda_attention import Attend, Ragged, plain, varlen
from .cuda_graphs import DecodeGraphs, Record, Rows, record_on, sizes
from .guess import resolve
from .kv_cache import KVCache, LayerShape
from .plan import StepPlan, Work
from .protocol import SelfTest
from .runner import PagedRunner
from .selftest import Reference
from .transfers import to_device

PLAIN_WINDOW = 2048  # positions: copying wider tables in every step costs more than launching it anew


class CudaRunner(PagedRunner):
    """The transformers model, all rows attending in one call. The cache has a page more than the pool."""

    def __init__(self, model: torch.nn.Module, cache: KVCache, attend: Attend = varlen) -> None:
        super().__init__(model, cache)
        self.attend = attend
        self.graphs: DecodeGraphs | None = None

    @torch.inference_mode()
    def record(self, record: Record, lanes: int, window: int) -> str:
        """Record decode steps of up to `lanes` rows and `window` positions. Returns why not, if not."""
        size = self.cache.page_size
        scratch = len(next(iter(self.cache.keys.values()))) // size - 1
        graphs = DecodeGraphs(self._step, sizes(lanes), -(-window // size), size, scratch, self.device)
        note = graphs.record(record)
        self.graphs = None if note else graphs
        return note

    def run(self, plan: StepPlan) -> Tensor:
        """As `PagedRunner.run`. The logits are overwritten by a later step's."""
        return self._launch(plan, None)

    def run_ahead(self, plan: StepPlan, guesses: Tensor) -> Tensor:
        """As `run`; `guesses` [R] are the tokens of the placeholders in the plan."""
        return self._launch(plan, guesses)

    @torch.inference_mode()
    def _launch(self, plan: StepPlan, guesses: Tensor | None) -> Tensor:
        if plan.copies:
            self.cache.copy_pages(plan.copies)
        if self.graphs is not None and self.graphs.fits(plan.work):
            logits = self.graphs.run(plan.work, guesses)
            wanted = [row for row, work in enumerate(plan.work) if work.samples]
            return logits if len(wanted) == len(logits) else logits[to_device(wanted, torch.int64, self.device)]
        ids, positions, slots, wanted, ragged = pack(plan, self.cache.page_size, self.device)
        ids = ids if guesses is None else resolve(ids, guesses)
        return self._forward(ids, positions, slots, wanted, ragged)

    def _step(self, rows: Rows) -> Tensor:
        every = torch.arange(len(rows.ids), device=self.device)
        return self._forward(rows.ids, rows.positions, rows.slots, every, rows.ragged)

    def _forward(self, ids: Tensor, positions: Tensor, slots: Tensor, logit_rows: Tensor, ragged: Ragged) -> Tensor:
        """Tensors [T] of any integer type, `logit_rows` [R]: logits [R, vocabulary]."""
        out = self.model(
            input_ids=ids.long()[None],
            position_ids=positions.long()[None],
            use_cache=False,
            logits_to_keep=logit_rows.long(),
            cutaway=AttentionContext(
                None, self.cache, {}, slots=slots.long(), ragged=ragged.summed(), attend=self.attend
            ),
        )
        return out.logits[0]


def pack(plan: StepPlan, page_size: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor, Ragged]:
    """A plan as ids [T], positions [T], slots [T], rows whose logits are wanted [R], and the ragged batch.

    All of it is one copy to the device.
    """
    works: tuple[Work, ...] = plan.work
    ends = list(itertools.accumulate(work.count for work in works))
    width = max(-(-work.end // page_size) for work in works)
    tables = [[*work.block_table[:width], *[0] * (width - len(work.block_table))] for work in works]
    parts: list[list[int]] = [
        [token for work in works for token in work.token_ids],
        [position for work in works for position in range(work.start, work.end)],
        [slot for work in works for slot in work.slots],
        [end - 1 for end, work in zip(ends, works, strict=True) if work.samples],
        [0, *ends],
        [work.end for work in works],
        [page for table in tables for page in table],
    ]
    flat = to_device([n for part in parts for n in part], torch.int32, device)
    ids, positions, slots, wanted, starts, used, table = flat.split([len(part) for part in parts])
    longest = max(work.count for work in works), max(work.end for work in works)
    return ids, positions, slots, wanted, Ragged(starts, used, table.view(len(works), width), *longest)


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """What serves on a device: this runner with its self-test, or None; and a clause for the card that says so."""

    runner: CudaRunner | None
    test: SelfTest | None
    note: str


def choose(
    model: torch.nn.Module,
    shapes: dict[int, LayerShape],
    cache: KVCache,
    reference: Reference,
    heads: int,
    lanes: int,
    window: int,
) -> Choice:
    """Try attention in one call, on the kernel and on the whole model, and record decodes of up to `lanes` rows.

    Where the kernel does not serve, attention in plain torch is recorded for contexts of up to `PLAIN_WINDOW`.
    """
    reason = cuda_attention.problem(cache, heads)
    for attend in (plain,) if reason else (varlen, plain):
        make = functools.partial(CudaRunner, model, attend=attend)
        try:
            test = selftest.compare(model, shapes, cache, reference, False, False, make)
        except RuntimeError as error:
            reason = reason or cuda_attention.first_line(error)
            continue
        if test.passed:
            window = window if attend is varlen else min(window, PLAIN_WINDOW)
            runner = make(cache)
            graphs = runner.record(record_on(next(iter(cache.keys.values())).device), lanes, window) or "CUDA graphs"
            how = f"pages gathered ({reason})" if attend is plain else "FlashAttention over pages"
            return Choice(runner, test, f"{how}, {graphs}")
        reason = reason or f"FlashAttention: {test.reason}"
    return Choice(None, None, f"pages gathered ({reason})")
