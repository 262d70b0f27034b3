"""Models that pages do not fit: served one request at a time through transformers' own cache.

Hybrid, recurrent and chunked-attention models would run silently wrong over pages. The scheduler still makes the
plan (one lane, whole prompts); this runner keeps one cache and starts it anew when the plan does not go on from it.
"""

from __future__ import annotations

from typing import Any

import torch

from .plan import StepPlan


class FallbackRunner:
    """Runs one sequence at a time. `model` uses transformers' own attention and cache."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.device = next(model.parameters()).device
        self.key = ""
        self.length = 0
        self.cache: Any = None

    @torch.inference_mode()
    def run(self, plan: StepPlan) -> torch.Tensor:
        """Logits [R, vocabulary], R the number of works that sample."""
        rows = [self._run_one(work.sequence.key, work.sequence.tokens[: work.end], work.start) for work in plan.work]
        wanted = [row for row, work in zip(rows, plan.work, strict=True) if work.samples]
        return torch.stack(wanted) if wanted else torch.empty(0, 0)

    def _run_one(self, key: str, tokens: list[int], start: int) -> torch.Tensor:
        # A recurrent state cannot be wound back, so anything but the very next token starts from the beginning.
        if key != self.key or start != self.length or start == 0 or len(tokens) != start + 1:
            self.key, self.cache, start = key, None, 0
        ids = torch.tensor([tokens[start:]], device=self.device)
        out = self.model(input_ids=ids, cache=self.cache, use_cache=True, logits_to_keep=1)
        self.cache = out.cache
        self.length = len(tokens)
        return out.logits[0, -1]

    def use_threads(self, count: int) -> None:
        """Compute with `count` threads from now on."""
        torch.set_num_threads(count)

    def release(self, key: str) -> None:
        """Forget the cache of a sequence that ended."""
        if key == self.key:
            self.key, self.cache, self.length = "", None, 0
