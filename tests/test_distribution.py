"""What another temperature would have made, derived from candidates: the truth lies within the bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from cutaway.engine.distribution import at_temperature
from cutaway.engine.protocol import Candidate
from cutaway.engine.sampler import Sampler, SampleRow
from hypothesis import given, settings
from hypothesis import strategies as st

from .sampler_reference import make_row, softmax, wide_logits


def candidates_of(logits: torch.Tensor, row: SampleRow) -> list[Candidate]:
    return list(Sampler().sample(logits, [row])[0].candidates)


@given(
    st.integers(0, 10**6),
    st.sampled_from([1, 2, 8, 30]),
    st.floats(0.05, 20),
    st.sampled_from([31, 500, 5000]),
    st.floats(0.0, 3.0),
)
@settings(max_examples=150, deadline=None)
def test_the_true_distribution_lies_within_the_bounds(
    seed: int, count: int, temperature: float, vocabulary: int, decay: float
) -> None:
    logits = wide_logits(seed, 1, vocabulary, decay)
    found = candidates_of(logits, make_row(seed=seed, temperature=1.3, candidates=count))
    truth = softmax(logits[0].double().numpy() / temperature)
    for derived in at_temperature(found, temperature, vocabulary, leading=count):
        assert derived.low - 1e-5 <= truth[derived.id] <= derived.high + 1e-5
        assert 0.0 <= derived.low <= derived.middle <= derived.high <= 1.0


def test_it_is_exact_where_every_token_is_a_candidate() -> None:
    logits = wide_logits(1, 1, 12)
    found = candidates_of(logits, make_row(candidates=12))
    truth = softmax(logits[0].double().numpy() / 0.2)
    for derived in at_temperature(found, 0.2, 12):
        assert derived.low == derived.high == pytest.approx(truth[derived.id], abs=1e-5)


def test_a_colder_temperature_is_nearly_certain_from_eight_candidates() -> None:
    logits = wide_logits(2, 1, 49152)
    for derived in at_temperature(candidates_of(logits, make_row(candidates=8)), 0.2, 49152, leading=8):
        assert derived.high - derived.low < 1e-3


def test_greedy_is_all_on_the_most_probable_token() -> None:
    logits = torch.tensor([[1.0, 3.0, 3.0, 2.0]])
    derived = at_temperature(candidates_of(logits, make_row()), 0.0, 4)
    assert {d.id: (d.low, d.high) for d in derived} == {0: (0, 0), 1: (1, 1), 2: (0, 0), 3: (0, 0)}


def test_banned_candidates_have_no_probability() -> None:
    logits = torch.tensor([[5.0, 1.0, 0.0]])
    found = candidates_of(logits, make_row(min_tokens=1, end=(0,)))
    derived = {d.id: d.middle for d in at_temperature(found, 0.5, 3)}
    assert derived[0] == 0.0
    assert derived[1] == pytest.approx(1 / (1 + math.exp(-2)), abs=1e-5)
    only_banned = [c for c in found if c.cut == "banned"]
    assert [d.high for d in at_temperature(only_banned, 0.5, 3)] == [0.0]


def test_the_bounds_hold_for_a_candidate_drawn_from_far_down() -> None:
    logits = wide_logits(3, 1, 5000, decay=0.3)
    rows = [make_row(seed=seed, temperature=2.0, candidates=4) for seed in range(5)]
    for row in rows:
        found = candidates_of(logits, row)
        assert len(found) == 5
        truth = softmax(logits[0].double().numpy() / 0.5)
        derived = at_temperature(found, 0.5, 5000, leading=4)
        assert all(d.low - 1e-9 <= truth[d.id] <= d.high + 1e-9 for d in derived)
        assert np.isfinite([d.high for d in derived]).all()
