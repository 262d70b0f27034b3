"""Greedy tokens of the default model equal transformers' `generate`, however the engine is told to compute them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from cutaway.engine.models import resolve
from cutaway.engine.protocol import Abort, Configure, Message, SamplingSettings, Submit

from . import engine_driver

pytestmark = pytest.mark.model

NEW = 16
NEAR_TIE = 0.01  # nat: where tokens part, the two candidates must be closer than this
SETTINGS = SamplingSettings(temperature=0.0, max_tokens=NEW, ignore_eos=True, candidates=8)
QUESTIONS = (
    "What is the capital of France?",
    "Why is the sky blue?",
    "Write a haiku about a lighthouse.",
    "def fibonacci(n):\n    # complete this\n",
    "Zähle bis fünf auf Deutsch.",
    "List three uses of a paper clip, with one sentence for each of them, and then say which one you like best.",
)


@dataclasses.dataclass(frozen=True)
class Reference:
    """What transformers says: prompt, greedy continuation, and log-probabilities at every generated position."""

    prompt: list[int]
    ids: list[int]
    logprobs: torch.Tensor  # [NEW, vocabulary], of the reference continuation


@pytest.fixture(scope="module")
def reference_model() -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(resolve("").folder, dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def references(reference_model: Any) -> list[Reference]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(resolve("").folder)
    found = []
    for question in QUESTIONS:
        messages = [{"role": "user", "content": question}]
        prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)["input_ids"]
        out = reference_model.generate(
            torch.tensor([prompt]), max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False, eos_token_id=None
        )
        ids = out[0, len(prompt) :].tolist()
        with torch.inference_mode():
            logits = reference_model(out).logits[0, len(prompt) - 1 : -1]
        found.append(Reference(list(prompt), ids, logits.log_softmax(-1)))
    return found


def assert_same(driver: engine_driver.Driver, name: str, reference: Reference, model: Any) -> None:
    """Same tokens as the reference up to a near tie, and the same log-probabilities at every common position."""
    ours = driver.sampled(name)
    assert len(ours) == NEW
    for position, (token, expected) in enumerate(zip(ours, reference.ids, strict=True)):
        row = reference.logprobs[position]
        for candidate in token.candidates:
            assert candidate.logprob == pytest.approx(float(row[candidate.id]), abs=2e-3)
        if token.id != expected:
            gap = float(row[expected] - row[token.id])
            assert gap < NEAR_TIE, f"{name} parts at {position}: {token.id} for {expected}, {gap:.4f} nat apart"
            return


@pytest.fixture(scope="module")
def driver() -> engine_driver.Driver:
    return engine_driver.start("", pages=256)


def ask_all(driver: engine_driver.Driver, references: list[Reference], tag: str) -> None:
    for number, reference in enumerate(references):
        driver.submit(f"{tag}{number}", reference.prompt, SETTINGS)


def test_prompt_ids_equal_the_reference_template(driver: engine_driver.Driver, references: list[Reference]) -> None:
    for number, (question, reference) in enumerate(zip(QUESTIONS, references, strict=True)):
        driver.send(Submit(f"p{number}", messages=(Message("user", question),), settings=SETTINGS))
        assert [token.id for token in driver.prompt(f"p{number}").tokens] == reference.prompt
        driver.send(Abort(f"p{number}"))


def test_alone_equals_generate(driver: engine_driver.Driver, references: list[Reference], reference_model: Any) -> None:
    driver.send(Configure(prefix_cache=False))
    for number, reference in enumerate(references):
        driver.submit(f"alone{number}", reference.prompt, SETTINGS)
        driver.run()
        assert_same(driver, f"alone{number}", reference, reference_model)


@pytest.mark.parametrize("prefix_cache", [True, False])
def test_batched_equals_generate(
    driver: engine_driver.Driver, references: list[Reference], reference_model: Any, prefix_cache: bool
) -> None:
    driver.send(Configure(prefix_cache=prefix_cache, policy="continuous"))
    for turn in ("cold", "warm"):
        tag = f"batch-{prefix_cache}-{turn}-"
        ask_all(driver, references, tag)
        driver.run()
        for number, reference in enumerate(references):
            assert_same(driver, f"{tag}{number}", reference, reference_model)
            cached = driver.finished(f"{tag}{number}").cached_tokens
            assert (cached > 0) == (prefix_cache and (turn == "warm" or cached > 0))
    if prefix_cache:
        assert all(driver.finished(f"batch-True-warm-{n}").cached_tokens > 0 for n in range(len(references)))


def test_static_batches_equal_generate(
    driver: engine_driver.Driver, references: list[Reference], reference_model: Any
) -> None:
    driver.send(Configure(policy="static", prefix_cache=False))
    ask_all(driver, references, "static")
    driver.run()
    driver.send(Configure(policy="continuous"))
    for number, reference in enumerate(references):
        assert_same(driver, f"static{number}", reference, reference_model)


def test_recomputing_every_prefix_equals_generate(
    driver: engine_driver.Driver, references: list[Reference], reference_model: Any
) -> None:
    driver.send(Configure(kv_reuse=False))
    driver.submit("recompute", references[0].prompt, SETTINGS)
    driver.run()
    driver.send(Configure(kv_reuse=True))
    assert_same(driver, "recompute", references[0], reference_model)


@pytest.mark.parametrize("chunk", [1, 7, 64, 512])
def test_chunks_equal_generate(
    driver: engine_driver.Driver, references: list[Reference], reference_model: Any, chunk: int
) -> None:
    driver.send(Configure(token_budget=chunk, prefix_cache=False))
    for number in (0, 5) if chunk == 1 else range(len(references)):
        driver.submit(f"chunk{chunk}-{number}", references[number].prompt, SETTINGS)
        driver.run()
        assert_same(driver, f"chunk{chunk}-{number}", references[number], reference_model)
    driver.send(Configure(token_budget=512))


@pytest.mark.parametrize("page_size", [1, 8])
def test_page_sizes_equal_generate(references: list[Reference], reference_model: Any, page_size: int) -> None:
    driver = engine_driver.start("", page_size=page_size, pages=512)
    ask_all(driver, references[:4], "size")
    driver.run()
    for number, reference in enumerate(references[:4]):
        assert_same(driver, f"size{number}", reference, reference_model)


def test_after_preemption_equals_generate(references: list[Reference], reference_model: Any) -> None:
    longest = max(len(reference.prompt) for reference in references)
    driver = engine_driver.start("", pages=-(-(longest + NEW) // 16) * 3, max_lanes=6)
    driver.send(Configure(prefix_cache=False))
    ask_all(driver, references, "tight")
    driver.run()
    for number, reference in enumerate(references):
        assert_same(driver, f"tight{number}", reference, reference_model)
    assert any(driver.finished(f"tight{n}").preemptions for n in range(len(references)))
