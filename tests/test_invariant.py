"""`deterministic` on small models of many kinds, and what is promised without it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from cutaway.engine.invariant import ROWS, FixedRows
from cutaway.engine.protocol import Configure, Sampled, SamplingSettings
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from . import engine_driver, tiny_folder
from .engine_driver import GREEDY, Driver

SEEDED = SamplingSettings(temperature=0.9, top_p=0.95, seed=11, max_tokens=12, ignore_eos=True)
PROMPT = [random.Random(3).randrange(5, 400) for _ in range(45)]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 3 * ROWS), st.integers(0, 2**31), st.sampled_from([torch.float32, torch.bfloat16]))
def test_a_row_of_a_product_has_the_same_bits_among_any_others(rows: int, seed: int, dtype: torch.dtype) -> None:
    torch.manual_seed(seed)
    layer = FixedRows(nn.Linear(96, 160).to(dtype))
    x = torch.randn(rows, 96).to(dtype)
    together = layer(x)
    for row in {0, rows // 2, rows - 1}:
        assert torch.equal(layer(x[row : row + 1])[0], together[row])


def bits(tokens: list[Sampled]) -> list[tuple[int, float | None, float]]:
    return [(token.id, token.logprob, token.entropy) for token in tokens]


def crowd(driver: Driver, count: int = 6) -> None:
    draw = random.Random(5)
    for number in range(count):
        others = SamplingSettings(temperature=draw.choice([0.0, 1.5]), max_tokens=draw.randint(4, 30), ignore_eos=True)
        driver.submit(f"other{number}", [draw.randrange(5, 400) for _ in range(draw.randint(1, 60))], others)
        driver.core.step()


def ask(driver: Driver, name: str, how: SamplingSettings = SEEDED) -> list[Sampled]:
    driver.submit(name, PROMPT, how)
    driver.run()
    return driver.sampled(name)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", ["llama", "qwen3", "qwen3_moe", "gemma2", "gpt_oss"])
def test_a_seeded_request_has_the_same_bits_in_any_batch_chunk_and_cache(
    tmp_path: Path, family: str, precision: str
) -> None:
    driver = engine_driver.start(tiny_folder.make(tmp_path / family, family), precision=precision, deterministic=True)
    assert driver.core.card.deterministic
    assert driver.core.card.attention == "paged"
    driver.send(Configure(prefix_cache=False))
    alone = bits(ask(driver, "alone"))
    crowd(driver)
    assert bits(ask(driver, "crowded")) == alone
    for chunk in (1, 7, 33):
        driver.send(Configure(token_budget=chunk))
        assert bits(ask(driver, f"chunk{chunk}")) == alone
    driver.send(Configure(prefix_cache=True, token_budget=512))
    ask(driver, "fills")
    assert bits(ask(driver, "cached")) == alone
    assert driver.finished("cached").cached_tokens > 0


def test_the_deterministic_model_is_the_same_model(tmp_path: Path) -> None:
    folder = tiny_folder.make(tmp_path / "llama")
    plain, fixed = engine_driver.start(folder), engine_driver.start(folder, deterministic=True)
    assert not plain.core.card.deterministic
    assert "blocks of 16 rows" in fixed.core.card.kernel
    assert fixed.complete(PROMPT) == plain.complete(PROMPT)


@pytest.mark.parametrize(("precision", "rounding"), [("float32", 2e-4), ("bfloat16", 0.15), ("int8", 0.15)])
def test_without_it_quiet_and_busy_logits_differ_by_rounding_only(
    tmp_path: Path, precision: str, rounding: float
) -> None:
    driver = engine_driver.start(tiny_folder.make(tmp_path / "llama"), precision=precision)
    driver.send(Configure(prefix_cache=False))
    quiet = ask(driver, "quiet", GREEDY)
    crowd(driver)
    busy = ask(driver, "busy", GREEDY)
    same = next((n for n, (a, b) in enumerate(zip(quiet, busy, strict=True)) if a.id != b.id), len(quiet))
    assert same >= 4
    for a, b in zip(quiet[:same], busy[:same], strict=True):
        assert a.logprob is not None
        assert a.logprob == pytest.approx(b.logprob, abs=rounding)
        logits = {candidate.id: candidate.logit for candidate in b.candidates}
        assert all(c.logit == pytest.approx(logits[c.id], abs=rounding) for c in a.candidates if c.id in logits)
