"""The default model: a reply has the same bits alone, in any batch, in any chunks, cached or not.

In int8 always, in float32 when `deterministic` asks for it.
"""

from __future__ import annotations

import random

import pytest
from cutaway.engine import kernels
from cutaway.engine.protocol import Configure, Message, Sampled, SamplingSettings, Submit

from . import engine_driver
from .engine_driver import Driver

pytestmark = pytest.mark.model
OURS = pytest.mark.skipif(kernels.load() is None, reason=f"no kernels of our own here: {kernels.problem()}")

SEEDED = SamplingSettings(temperature=0.8, top_p=0.95, seed=42, max_tokens=24, ignore_eos=True)
QUESTION = (Message("user", "Tell me a short story about a lighthouse keeper who collects broken clocks."),)


@pytest.fixture(scope="module", params=[pytest.param("int8", marks=OURS), "float32"])
def driver(request: pytest.FixtureRequest) -> Driver:
    started = engine_driver.start("", precision=request.param, pages=256, deterministic=request.param != "int8")
    assert started.core.card.deterministic
    return started


@pytest.fixture(scope="module")
def alone(driver: Driver) -> list[Sampled]:
    driver.send(Configure(prefix_cache=False))
    return ask(driver, "alone")


def ask(driver: Driver, name: str) -> list[Sampled]:
    driver.send(Submit(name, messages=QUESTION, settings=SEEDED))
    driver.run()
    return driver.sampled(name)


def assert_same_bits(ours: list[Sampled], alone: list[Sampled]) -> None:
    assert [(t.id, t.logprob, t.entropy) for t in ours] == [(t.id, t.logprob, t.entropy) for t in alone]


def test_a_seeded_request_says_the_same_among_random_others(driver: Driver, alone: list[Sampled]) -> None:
    draw = random.Random(5)
    others = 15 if driver.core.card.precision == "int8" else 4  # float32 takes its time
    for number in range(others):
        settings = SamplingSettings(temperature=draw.choice([0.0, 0.7, 1.5]), max_tokens=draw.randint(4, 40))
        driver.submit(f"other{number}", [draw.randrange(100, 40000) for _ in range(draw.randint(1, 90))], settings)
        driver.core.step()
    assert_same_bits(ask(driver, "crowded"), alone)


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_chunks_change_no_bit(driver: Driver, alone: list[Sampled], chunk: int) -> None:
    driver.send(Configure(token_budget=chunk))
    ours = ask(driver, f"chunk{chunk}")
    driver.send(Configure(token_budget=512))
    assert_same_bits(ours, alone)


def test_kv_02_the_prefix_cache_changes_no_bit(driver: Driver, alone: list[Sampled]) -> None:
    driver.send(Configure(prefix_cache=True))
    ask(driver, "fills")
    ours = ask(driver, "cached")
    driver.send(Configure(prefix_cache=False))
    assert driver.finished("cached").cached_tokens > 0
    assert_same_bits(ours, alone)


def test_recomputing_every_prefix_changes_no_bit(driver: Driver, alone: list[Sampled]) -> None:
    driver.send(Configure(kv_reuse=False))
    ours = ask(driver, "recomputed")
    driver.send(Configure(kv_reuse=True))
    assert_same_bits(ours, alone)
