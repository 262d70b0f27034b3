"""Driver of transformers' `generate`. Arguments: folder threads precision. Prompts of one order are equally long."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import torch
from talk import serve


class Transformers:
    def __init__(self, folder: str, threads: int, precision: str) -> None:
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(threads)
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, precision)).eval()

    def run(self, prompts: Sequence[Sequence[int]], new: int, fresh: bool) -> tuple[float, float]:
        """Nothing is kept between calls, fresh or not."""
        stamps: list[float] = []

        def stamp(ids: torch.Tensor, scores: torch.Tensor, **_: object) -> torch.Tensor:
            stamps.append(time.perf_counter())
            return torch.zeros(len(ids), dtype=torch.bool)

        ids = torch.tensor(list(map(list, prompts)))
        began = time.perf_counter()
        self.model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, min_new_tokens=new, do_sample=False,
            stopping_criteria=[stamp],
        )  # fmt: skip
        return stamps[0] - began, stamps[-1] - began


if __name__ == "__main__":
    serve(lambda: Transformers(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
