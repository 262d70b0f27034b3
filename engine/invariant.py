"""`--deterministic`: a row's bits depend on its own sequence alone, whatever is computed beside it.

Matrix products choose their order of summation by the number of rows, and attention by how long the longest context
in a batch is. So products are made of blocks that always have the same number of rows, and every position attends by
itself over exactly its context. Our own int8 step is so by construction and needs none of this.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .batch import pack
from .kv_cache import KVCache
from .linear import QuantLinear
from .plan import StepPlan, Work
from .runner import PagedRunner, forward

ROWS = 16  # of every product: enough for a prompt not to crawl, few enough for one token not to cost much more


class FixedRows(nn.Module):
    """A layer that works row by row, called with `ROWS` rows each time; what is missing is filled with zeros."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        """x [..., k] -> [..., n]."""
        rows = x.reshape(-1, x.shape[-1])
        padded = F.pad(rows, (0, 0, 0, -len(rows) % ROWS))
        made = torch.cat([self.layer(block) for block in padded.split(ROWS)])
        return made[: len(rows)].view(*x.shape[:-1], made.shape[-1])


def fix_rows(model: nn.Module) -> bool:
    """Give every linear layer of `model` blocks of fixed size. False: it has other weights too, such as experts.

    What has them must be given one position at a time to be the same in any batch.
    """
    places: list[tuple[Any, str, nn.Module]] = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if type(child) is nn.Linear or (isinstance(child, QuantLinear) and child.library is None)
    ]
    for parent, name, child in places:
        setattr(parent, name, FixedRows(child))
    known = (nn.Linear, nn.Embedding, QuantLinear)
    return not any(
        parameter.dim() > 1
        for layer in model.modules()
        if not isinstance(layer, known)
        for parameter in layer.parameters(recurse=False)
    )


class InvariantRunner(PagedRunner):
    """Runs a plan so that no work's logits depend on the others. `together` False: one position after the other."""

    def __init__(self, model: nn.Module, cache: KVCache, *, together: bool) -> None:
        super().__init__(model, cache)
        self.together = together

    @torch.inference_mode()
    def run(self, plan: StepPlan) -> Tensor:
        """As `PagedRunner.run`."""
        if plan.copies:
            self.cache.copy_pages(plan.copies)
        logits: list[Tensor] = []
        for part in [plan] if self.together else _positions(plan):
            batch = pack(part, self.cache.page_size, self.device)
            made = forward(self.model, batch, self.cache, by_row=True)
            if len(batch.logit_rows):
                logits.append(made)
        return torch.cat(logits) if logits else torch.empty(0, 0)


def _positions(plan: StepPlan) -> Iterator[StepPlan]:
    """The plan as one plan for each position."""
    for work in plan.work:
        for offset in range(work.count):
            yield dataclasses.replace(plan, work=(_position(work, offset),), copies=())


def _position(work: Work, offset: int) -> Work:
    return dataclasses.replace(
        work,
        start=work.start + offset,
        count=1,
        token_ids=work.token_ids[offset : offset + 1],
        slots=work.slots[offset : offset + 1],
        samples=work.samples and offset == work.count - 1,
    )
