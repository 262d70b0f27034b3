"""Driver of our own engine, its core in this process. Arguments: model threads."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from talk import serve

sys.path.insert(0, str(Path(__file__).parents[1]))
import own_core


class Ours:
    def __init__(self, model: str, threads: int) -> None:
        # More than one thread: as it chooses by itself.
        self.core, self.events = own_core.loaded(model, threads, 0 if threads > 1 else threads)
        from cutaway.engine.protocol import Configure

        self.core.handle(Configure(inspect=False))
        self.count = 0

    def run(self, prompts: Sequence[Sequence[int]], new: int, fresh: bool) -> tuple[float, float]:
        from cutaway.engine.protocol import ClearCache, Finished, SamplingSettings, Submit

        if fresh:
            self.core.handle(ClearCache())
        self.events.clear()
        settings = SamplingSettings(temperature=0.0, max_tokens=new, ignore_eos=True, candidates=0)
        began = time.monotonic_ns()
        for prompt in prompts:
            self.count += 1
            self.core.handle(Submit(f"r{self.count}", token_ids=tuple(prompt), settings=settings))
        while self.core.has_work:
            self.core.step()
        ends = [event for event in self.events if isinstance(event, Finished)]
        if [end.generated_tokens for end in ends] != [new] * len(prompts):
            raise RuntimeError(f"not every stream gave {new} tokens: {self.events[-3:]}")
        first = max(end.timeline.tokens_ns[0] for end in ends)
        last = max(end.timeline.tokens_ns[-1] for end in ends)
        return (first - began) / 1e9, (last - began) / 1e9


if __name__ == "__main__":
    serve(lambda: Ours(sys.argv[1], int(sys.argv[2])))
