"""Each step of the sampler against transformers' own processors, and penalties against their published formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from cutaway.engine.penalties import History, edit
from cutaway.engine.sampler import Sampler
from transformers.generation import logits_process as theirs

from .sampler_reference import make_row, softmax, wide_logits

VOCABULARY = 2000


def survivors(processors: list[theirs.LogitsProcessor], logits: torch.Tensor, ids: list[int]) -> dict[int, float]:
    """Token -> probability after their processors, cut ones left out."""
    scores = logits.clone()
    for process in processors:
        scores = process(torch.tensor([ids]), scores)
    probs = scores[0].double().softmax(-1)
    return {int(token): float(probs[token]) for token in torch.nonzero(probs).flatten()}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("ours", "processors"),
    [
        ({"temperature": 0.4, "top_k": 20}, [theirs.TemperatureLogitsWarper(0.4), theirs.TopKLogitsWarper(20)]),
        ({"temperature": 0.5, "top_p": 0.8}, [theirs.TemperatureLogitsWarper(0.5), theirs.TopPLogitsWarper(0.8)]),
        ({"temperature": 1.7, "min_p": 0.05}, [theirs.TemperatureLogitsWarper(1.7), theirs.MinPLogitsWarper(0.05)]),
        (
            {"temperature": 1.2, "min_p": 0.02, "top_k": 30, "top_p": 0.7},
            [
                theirs.TemperatureLogitsWarper(1.2),
                theirs.MinPLogitsWarper(0.02),
                theirs.TopKLogitsWarper(30),
                theirs.TopPLogitsWarper(0.7),
            ],
        ),
        (
            {"temperature": 0.8, "repetition_penalty": 1.35, "top_k": 25, "top_p": 0.9},
            [
                theirs.RepetitionPenaltyLogitsProcessor(1.35),
                theirs.TemperatureLogitsWarper(0.8),
                theirs.TopKLogitsWarper(25),
                theirs.TopPLogitsWarper(0.9),
            ],
        ),
        (
            {"temperature": 0.8, "logit_bias": {1: 6.0, 3: -7.0}, "repetition_penalty": 1.5, "top_k": 25},
            [
                theirs.SequenceBiasLogitsProcessor([[[1], 6.0], [[3], -7.0]]),
                theirs.RepetitionPenaltyLogitsProcessor(1.5),
                theirs.TemperatureLogitsWarper(0.8),
                theirs.TopKLogitsWarper(25),
            ],
        ),
    ],
)
def test_filters_keep_what_transformers_keep(
    seed: int, ours: dict[str, object], processors: list[theirs.LogitsProcessor]
) -> None:
    logits = wide_logits(seed, 1, VOCABULARY) + 4.0  # some above zero, some below
    prompt, generated = logits[0].topk(6).indices.tolist()[::2], [1, 2, 3, 3]
    expected = survivors(processors, logits, [*prompt, *generated])
    assert len(expected) < 60
    drawn = Sampler().sample(logits, [make_row(prompt=prompt, generated=generated, **ours)])[0]
    kept = {c.id: c.prob for c in drawn.candidates if not c.cut}
    assert kept == pytest.approx(expected, rel=2e-4)


@pytest.mark.parametrize("penalty", [0.5, 1.0, 1.2, 3.0])
def test_repetition_penalty_equals_transformers_to_the_bit(penalty: float) -> None:
    logits = wide_logits(9, 1, VOCABULARY) + 4.0
    prompt, generated = [5, 9, 5, 1999], [7, 9, 7]
    expected = theirs.RepetitionPenaltyLogitsProcessor(penalty)(torch.tensor([prompt + generated]), logits.clone())
    ours = edit(logits.clone(), [make_row(prompt=prompt, generated=generated, repetition_penalty=penalty)])
    assert torch.equal(ours, expected)


def test_presence_and_frequency_are_subtracted_for_generated_tokens_alone() -> None:
    logits = torch.zeros(2, 6)
    kinds = [{"presence_penalty": 0.5, "frequency_penalty": 0.25}, {"frequency_penalty": -0.5}]
    rows = [make_row(prompt=[0, 1], generated=[1, 2, 2, 2], **kind) for kind in kinds]
    assert edit(logits, rows).tolist() == [[0.0, -0.75, -1.25, 0.0, 0.0, 0.0], [0.0, 0.5, 1.5, 0.0, 0.0, 0.0]]


def test_minimum_tokens_bans_ends_as_transformers_do() -> None:
    logits = wide_logits(10, 1, VOCABULARY)
    end = logits[0].topk(3).indices.tolist()
    process = theirs.MinNewTokensLengthLogitsProcessor(2, 3, end)
    for generated in ([], [4], [4, 4, 4]):
        expected = process(torch.tensor([[8, 8, *generated]]), logits.clone())
        row = make_row(prompt=[8, 8], generated=generated, end=end, min_tokens=3)
        assert torch.equal(edit(logits.clone(), [row]), expected)


def test_history_kept_from_step_to_step_equals_one_made_anew() -> None:
    generator = np.random.default_rng(0)
    prompt = generator.integers(0, 300, 200).tolist()
    history, generated = History(prompt), []
    for _ in range(300):
        generated = [*generated, int(generator.integers(0, 300))]
        kept, anew = history.follow(generated), History(prompt).follow(generated)
        assert dict(zip(*map(np.ndarray.tolist, kept), strict=True)) == dict(
            zip(*map(np.ndarray.tolist, anew), strict=True)
        )
    shorter = [*generated[:50], 299]  # a reply that went back and took another way
    counts = dict(zip(*map(np.ndarray.tolist, history.follow(shorter)), strict=True))
    assert counts == {token: shorter.count(token) for token in {*prompt, *shorter}}


def test_greedy_takes_the_largest_logit_after_penalties() -> None:
    row = make_row(prompt=[0], temperature=0.0, repetition_penalty=2.0)
    drawn = Sampler().sample(torch.tensor([[3.0, 2.0, 1.0]]), [row])[0]
    assert (drawn.id, drawn.rank) == (1, 2)
    assert drawn.logprob == pytest.approx(np.log(softmax(np.array([3.0, 2.0, 1.0]))[1]), abs=1e-6)
