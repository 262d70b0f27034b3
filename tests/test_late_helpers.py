"""A thread that loses its core in the middle of its work: the step goes on without it, and no bit changes."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import torch
from cutaway.engine import kernels
from cutaway.engine.decode_step import DecodeStep, NativeStep
from cutaway.engine.kv_cache import KVCache
from cutaway.engine.linear import quantize_model

from .test_decode_step import PAGE, Rows, cache_for, make

library = kernels.load()
pytestmark = pytest.mark.skipif(library is None, reason=f"no kernels here: {kernels.problem()}")

LONG, SHORT = 20_000, 300  # microseconds that a helper sleeps over a chunk: beyond the end of a step, and within it
PROMPT = 300


@pytest.fixture
def late() -> Iterator[kernels.Library]:
    """Helpers that a test makes late; none stays away from a step then."""
    assert library is not None
    try:
        yield library
    finally:
        library.stall(0)
        library.settle()


def step_over(name: str, cache: KVCache, model: torch.nn.Module, threads: int) -> NativeStep:
    step, reason = DecodeStep.build(model, cache)
    assert isinstance(step, NativeStep), reason
    step.threads = threads
    return step


def read_prompt(step: NativeStep, rows: int) -> torch.Tensor:
    """A prompt, `rows` positions at a time: its logits [n, vocabulary]."""
    ids = torch.arange(PROMPT) % 199
    table = torch.arange(-(-PROMPT // PAGE), dtype=torch.int32)
    parts = torch.arange(PROMPT).split(rows)
    return torch.cat([step.rows(ids[p], p, p, table.expand(len(p), -1), p + 1, torch.arange(len(p))) for p in parts])


@pytest.mark.parametrize("stall", [LONG, SHORT])
@pytest.mark.parametrize("threads", [2, 4])
@pytest.mark.parametrize(("name", "kv"), [("qwen3", torch.bfloat16), ("llama-biases", torch.float32)])
def test_late_helpers_change_no_bit_of_logits_keys_and_values(
    name: str, kv: torch.dtype, threads: int, stall: int, late: kernels.Library
) -> None:
    model = make(name)
    quantize_model(model)
    results = []
    for count in (1, threads):
        before = late.stall(stall)
        cache = cache_for(model, PROMPT // PAGE, kv)
        step = step_over(name, cache, model, count)
        logits = [read_prompt(step, 60), read_prompt(step, 13)]
        cache_of_rows = cache_for(model, 40, kv)
        rows = Rows(step_over(name, cache_of_rows, model, count), cache_of_rows, [9, 30, 4, 21, 2])
        logits += rows.run()
        late.settle()  # whatever a late helper would still write is written
        taken_over = late.stall(stall) - before
        assert taken_over == 0 if count == 1 else taken_over > 0 or stall == SHORT
        stores = [store for c in (cache, cache_of_rows) for kept in (c.keys, c.values) for store in kept.values()]
        results.append([*logits, *stores])
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))


def test_a_steps_memory_is_not_freed_while_a_late_helper_may_read_it(
    late: kernels.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle, settled = late.settle, []
    monkeypatch.setattr(late, "settle", lambda: settled.append(settle()))
    model = make("llama")
    quantize_model(model)
    late.stall(LONG)
    step = step_over("llama", cache_for(model, PROMPT // PAGE), model, 2)
    read_prompt(step, 60)
    assert not settled
    del step
    gc.collect()
    assert settled
