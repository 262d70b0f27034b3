"""Driver of llama.cpp by `llama-cpp-python`'s low-level calls. Arguments: file.gguf threads [quantisation].

With a quantisation such as Q4_0 the file is requantised once, beside a name of its own in the temporary folder.
Flash attention is on, prompts are read 512 tokens at a time, and numpy finds the likeliest token, which is faster
than llama.cpp's own sampler.
"""

from __future__ import annotations

import ctypes
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import llama_cpp as lib
import numpy as np
from talk import serve

CHUNK = 512  # tokens read at once
LONGEST = 8192  # of a prompt alone
STREAMS, SHORT = 16, 1024  # several prompts, and the tokens of each


def requantised(file: Path, name: str) -> Path:
    """`file` in another quantisation."""
    target = Path(tempfile.gettempdir()) / f"{file.stem}.{name}.gguf"
    if not target.exists():
        settings = lib.llama_model_quantize_default_params()
        settings.ftype = getattr(lib, f"LLAMA_FTYPE_MOSTLY_{name}")
        settings.allow_requantize = True
        made = target.with_suffix(".new")
        if lib.llama_model_quantize(str(file).encode(), str(made).encode(), ctypes.byref(settings)):
            raise RuntimeError(f"{file} can't be requantised to {name}")
        made.replace(target)
    return target


class Context:
    """A context with room for `streams` sequences of `length` tokens each."""

    def __init__(self, model: object, threads: int, streams: int, length: int) -> None:
        settings = lib.llama_context_default_params()
        settings.n_ctx, settings.n_batch, settings.n_ubatch = streams * length, CHUNK, CHUNK
        settings.n_seq_max = streams
        settings.n_threads = settings.n_threads_batch = threads
        settings.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_ENABLED
        self.context = lib.llama_init_from_model(model, settings)
        if not self.context:
            raise RuntimeError("there is no room for the context")
        self.vocabulary = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
        self.memory = lib.llama_get_memory(self.context)
        self.batch = lib.llama_batch_init(CHUNK, 0, 1)
        self.held: list[list[int]] = [[] for _ in range(streams)]  # tokens whose keys and values are kept

    def forget(self) -> None:
        lib.llama_memory_clear(self.memory, True)
        self.held = [[] for _ in self.held]

    def read(self, stream: int, prompt: list[int]) -> int:
        """Read what of a prompt is not kept yet, and return the token after it."""
        held = self.held[stream]
        same = next((n for n, pair in enumerate(zip(held, prompt, strict=False)) if pair[0] != pair[1]), None)
        same = min(len(held) if same is None else same, len(prompt) - 1)
        lib.llama_memory_seq_rm(self.memory, stream, same, -1)
        for start in range(same, len(prompt), CHUNK):
            end = min(start + CHUNK, len(prompt))
            self._decode([(prompt[at], at, stream, at == len(prompt) - 1) for at in range(start, end)])
        self.held[stream] = list(prompt)
        return self._likeliest(-1)

    def write(self, tokens: list[int]) -> list[int]:
        """One token to each of the first streams; returns the next ones."""
        self._decode([(token, len(self.held[stream]), stream, True) for stream, token in enumerate(tokens)])
        for stream, token in enumerate(tokens):
            self.held[stream].append(token)
        return [self._likeliest(row) for row in range(len(tokens))]

    def _likeliest(self, row: int) -> int:
        logits = lib.llama_get_logits_ith(self.context, row)
        return int(np.ctypeslib.as_array(logits, (self.vocabulary,)).argmax())

    def _decode(self, rows: list[tuple[int, int, int, bool]]) -> None:
        batch = self.batch
        batch.n_tokens = len(rows)
        for row, (token, position, stream, wanted) in enumerate(rows):
            batch.token[row], batch.pos[row], batch.n_seq_id[row] = token, position, 1
            batch.seq_id[row][0], batch.logits[row] = stream, wanted
        if code := lib.llama_decode(self.context, batch):
            raise RuntimeError(f"llama_decode returned {code}")


class LlamaCpp:
    def __init__(self, file: Path, threads: int) -> None:
        lib.llama_backend_init()
        model = lib.llama_model_load_from_file(str(file).encode(), lib.llama_model_default_params())
        if not model:
            raise RuntimeError(f"{file} can't be loaded")
        self.one = Context(model, threads, 1, LONGEST)
        self.many = Context(model, threads, STREAMS, SHORT)

    def run(self, prompts: Sequence[Sequence[int]], new: int, fresh: bool) -> tuple[float, float]:
        context = self.one if len(prompts) == 1 else self.many
        if fresh:
            context.forget()
        began = time.perf_counter()
        tokens = [context.read(stream, list(prompt)) for stream, prompt in enumerate(prompts)]
        first = time.perf_counter() - began
        for _ in range(new - 1):
            tokens = context.write(tokens)
        return first, time.perf_counter() - began


if __name__ == "__main__":
    path, count = Path(sys.argv[1]), int(sys.argv[2])
    serve(lambda: LlamaCpp(requantised(path, sys.argv[3]) if len(sys.argv) > 3 else path, count))
