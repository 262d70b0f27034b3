"""Many families, random small models: logits over pages equal plain eager transformers, or pages are refused."""

from __future__ import annotations

import random

import pytest
import torch
from cutaway.engine import attention, selftest
from cutaway.engine.decode_step import DecodeStep
from cutaway.engine.fallback import FallbackRunner
from cutaway.engine.kv_cache import KVCache
from cutaway.engine.pages import PagePool
from cutaway.engine.runner import PagedRunner
from cutaway.engine.scheduler import Scheduler
from cutaway.engine.sequence import Sequence

from . import tiny_models

LAYERS = tiny_models.COMMON["num_hidden_layers"]
LENGTH, PROMPTS = 60, (50, 33, 7, 1)
TOLERANCE = 1e-4  # of logits with a standard deviation near 1


def eager_logits(model: torch.nn.Module, tokens: list[int]) -> torch.Tensor:
    """Logits [T, vocabulary] of the plain model."""
    implementation = model.config._attn_implementation  # type: ignore[union-attr]
    model.set_attn_implementation("eager")  # type: ignore[operator]
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
    model.set_attn_implementation(implementation)  # type: ignore[operator]
    return logits


@pytest.mark.parametrize("page_size", [1, 16])
@pytest.mark.parametrize("family", tiny_models.PAGED)
def test_mixed_prefill_and_decode_over_pages_equals_eager(family: str, page_size: int) -> None:
    attention.register()
    model = tiny_models.build(family)
    assert selftest.unsupported_layers(model.config) == ""
    model.set_attn_implementation(attention.NAME)
    shapes, reason = selftest.learn_shapes(model, LAYERS)
    assert not reason
    pool = PagePool(-(-LENGTH // page_size) * len(PROMPTS), page_size)
    cache = KVCache.zeros(shapes, pool.pages, page_size, torch.float32, torch.device("cpu"))
    fast = DecodeStep.build(model, cache)[0] if page_size == 16 else None
    runner = PagedRunner(model, cache, fast)
    scheduler = Scheduler(pool, token_budget=29)
    draw = random.Random(family)
    tokens = {f"r{n}": [draw.randrange(tiny_models.VOCABULARY) for _ in range(LENGTH)] for n in range(len(PROMPTS))}
    reference = {name: eager_logits(model, row) for name, row in tokens.items()}
    waiting = [Sequence(f"r{n}", 0, tokens[f"r{n}"][:p], p, LENGTH) for n, p in enumerate(PROMPTS)]
    compared, mixed = 0, False
    scheduler.add(waiting.pop(0))
    while (plan := scheduler.schedule()) is not None:
        logits = runner.run(plan)
        scheduler.commit(plan)
        mixed |= len({work.phase for work in plan.work}) == 2
        sampling = [work for work in plan.work if work.samples]
        for work, row in zip(sampling, logits, strict=True):
            torch.testing.assert_close(
                row, reference[work.sequence.request][work.end - 1], atol=TOLERANCE, rtol=TOLERANCE
            )
            compared += 1
            if len(work.sequence) == LENGTH:
                scheduler.finish(work.sequence)
            else:
                work.sequence.tokens.append(tokens[work.sequence.request][len(work.sequence)])
        if waiting and plan.iteration % 3 == 0:
            scheduler.add(waiting.pop(0))
    assert compared == sum(LENGTH - p + 1 for p in PROMPTS)
    assert mixed, "prefill and decode never shared an iteration"


@pytest.mark.parametrize("family", tiny_models.UNPAGED)
def test_families_that_pages_do_not_fit_are_caught(family: str) -> None:
    attention.register()
    model = tiny_models.build(family)
    by_config = selftest.unsupported_layers(model.config)
    model.set_attn_implementation(attention.NAME)
    shapes, by_shape = selftest.learn_shapes(model, LAYERS)
    if shapes:
        cache = KVCache.zeros(shapes, 1, 16, torch.float32, torch.device("cpu"))
        by_test = selftest.compare(model, shapes, cache, selftest.make_reference(model), quantised=False, fast=False)
        assert not by_test.passed
        assert "standard deviations" in by_test.reason
    else:
        assert by_shape
    assert by_config, "the configuration alone should have told"


@pytest.mark.parametrize("family", tiny_models.UNPAGED)
def test_the_fallback_serves_them_with_the_right_tokens(family: str) -> None:
    model = tiny_models.build(family)
    model.set_attn_implementation("eager")
    runner = FallbackRunner(model)
    scheduler = Scheduler(PagePool(16, 16), max_lanes=1, token_budget=256, prefix_cache=False)
    draw = random.Random(family)
    for name, length in (("a", 40), ("b", 9)):
        scheduler.add(Sequence(name, 0, [draw.randrange(3, tiny_models.VOCABULARY) for _ in range(length)], length, 60))
    generated: dict[str, int] = {"a": 0, "b": 0}
    while (plan := scheduler.schedule()) is not None:
        logits = runner.run(plan)
        scheduler.commit(plan)
        for work, row in zip([w for w in plan.work if w.samples], logits, strict=True):
            whole = eager_logits(model, work.sequence.tokens)[-1]
            torch.testing.assert_close(row, whole, atol=1e-3, rtol=1e-3)
            work.sequence.tokens.append(int(whole.argmax()))
            generated[work.sequence.request] += 1
            if generated[work.sequence.request] == 12:
                runner.release(work.sequence.key)
                scheduler.finish(work.sequence)
    assert generated == {"a": 12, "b": 12}


def test_a_wrong_rule_in_one_layer_fails_the_self_test(monkeypatch: pytest.MonkeyPatch) -> None:
    attention.register()
    model = tiny_models.build("mistral")
    model.set_attn_implementation(attention.NAME)
    shapes, _ = selftest.learn_shapes(model, LAYERS)
    cache = KVCache.zeros(shapes, 1, 16, torch.float32, torch.device("cpu"))
    assert selftest.compare(model, shapes, cache, selftest.make_reference(model), quantised=False, fast=False).passed
    real = attention._attend_span

    def blind_to_the_window(q, k, v, start, rule):  # type: ignore[no-untyped-def]
        return real(q, k, v, start, attention.Rule(rule.scale, None, rule.softcap, rule.sinks))

    monkeypatch.setattr(attention, "_attend_span", blind_to_the_window)
    assert not selftest.compare(
        model, shapes, cache, selftest.make_reference(model), quantised=False, fast=False
    ).passed
