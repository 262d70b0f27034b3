"""A plan as tensors: what the forward pass and the attention need to know about one packed, ragged batch."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence as Items

import torch

from .plan import StepPlan, Work


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """One sequence's rows in the packed batch, and the pages that hold its context.

    Rows [row, row + count) are positions [start, start + count). `pages` [P] covers positions [0, start + count);
    `first` is its first page if the pages follow each other in memory, else None.
    """

    row: int
    start: int
    count: int
    pages: torch.Tensor
    first: int | None

    @property
    def length(self) -> int:
        return self.start + self.count


@dataclasses.dataclass(slots=True)
class Batch:
    """T packed rows: the first `decodes` of them are single-token decodes, the rest belongs to `spans`."""

    ids: torch.Tensor  # [1, T] int64
    positions: torch.Tensor  # [1, T] int64
    slots: torch.Tensor  # [T] int64
    logit_rows: torch.Tensor  # [R] int64, rows whose logits are wanted
    decodes: int
    page_table: torch.Tensor  # [decodes, P] int64, padded with page 0
    lengths: torch.Tensor  # [decodes] int64, context of each with its own token
    longest: int  # of the decodes' lengths
    spans: tuple[Span, ...]
    masks: dict[int | None, torch.Tensor] = dataclasses.field(default_factory=dict)  # decode masks by window

    def decode_mask(self, page_size: int, window: int | None) -> torch.Tensor:
        """Which context slots each decode row may see: bool [decodes, 1, 1, P * page_size]."""
        if window not in self.masks:
            slots = torch.arange(self.page_table.shape[1] * page_size, device=self.lengths.device)
            mask = slots < self.lengths[:, None]
            if window is not None:
                mask &= slots > self.lengths[:, None] - 1 - window
            self.masks[window] = mask[:, None, None, :]
        return self.masks[window]


def pack(plan: StepPlan, page_size: int, device: torch.device) -> Batch:
    """Lay a plan out as tensors. Work of one token that is not a whole prompt counts as a decode."""
    decodes: list[Work] = []
    others: list[Work] = []
    for work in plan.work:
        (decodes if work.count == 1 and work.start > 0 else others).append(work)
    ordered = decodes + others
    ids = [token for work in ordered for token in work.token_ids]
    positions = [position for work in ordered for position in range(work.start, work.end)]
    slots = [slot for work in ordered for slot in work.slots]

    spans, ends, row = [], {}, 0
    for work in ordered:
        ends[id(work)] = row + work.count - 1
        if row >= len(decodes):
            pages = work.block_table[: -(-work.end // page_size)]
            follows = all(b == a + 1 for a, b in itertools.pairwise(pages))
            spans.append(
                Span(row, work.start, work.count, torch.tensor(pages, device=device), pages[0] if follows else None)
            )
        row += work.count

    used = [-(-work.end // page_size) for work in decodes]
    width = max(used, default=0)
    table = [list(work.block_table[:n]) + [0] * (width - n) for work, n in zip(decodes, used, strict=True)]
    lengths = [work.end for work in decodes]

    def tensor(values: Items[object]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int64, device=device)

    return Batch(
        ids=tensor(ids)[None],
        positions=tensor(positions)[None],
        slots=tensor(slots),
        logit_rows=tensor([ends[id(work)] for work in plan.work if work.samples]),
        decodes=len(decodes),
        page_table=tensor(table).reshape(len(decodes), width),
        lengths=tensor(lengths),
        longest=max(lengths, default=0),
        spans=tuple(spans),
    )
