"""Driver of vLLM's CPU build, its engine in this process. Arguments: folder threads. bfloat16, prefix caching on."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from talk import serve

WINDOW = 8192
STREAMS = 16


class Vllm:
    def __init__(self, folder: str, threads: int) -> None:
        os.environ.update(
            VLLM_ENABLE_V1_MULTIPROCESSING="0",
            VLLM_CPU_KVCACHE_SPACE="1",
            VLLM_CPU_NUM_OF_RESERVED_CPU="0",
            VLLM_CPU_OMP_THREADS_BIND=f"0-{threads - 1}" if threads > 1 else "0",
            HF_HUB_OFFLINE="1",
            VLLM_NO_USAGE_STATS="1",
        )
        from vllm import LLM

        self.engine = LLM(
            model=folder, dtype="bfloat16", max_model_len=WINDOW, max_num_seqs=STREAMS, enable_prefix_caching=True
        ).llm_engine
        self.count = 0

    def run(self, prompts: Sequence[Sequence[int]], new: int, fresh: bool) -> tuple[float, float]:
        from vllm import SamplingParams

        if fresh:
            self.engine.reset_prefix_cache()
        settings = SamplingParams(temperature=0.0, max_tokens=new, min_tokens=new, ignore_eos=True, detokenize=False)
        began = time.perf_counter()
        waiting = set()
        for prompt in prompts:
            self.count += 1
            waiting.add(str(self.count))
            self.engine.add_request(str(self.count), {"prompt_token_ids": list(prompt)}, settings)
        first = 0.0
        while self.engine.has_unfinished_requests():
            for output in self.engine.step():
                waiting.discard(output.request_id)
            if not waiting and not first:
                first = time.perf_counter() - began
        return first, time.perf_counter() - began


if __name__ == "__main__":
    serve(lambda: Vllm(sys.argv[1], int(sys.argv[2])))
