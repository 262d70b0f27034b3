"""The sampler against a plain float64 reference that sorts everything, and its own promises."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
import torch
from cutaway.engine.sampler import RowRandom, Sampler, SampleRow
from hypothesis import assume, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from .sampler_reference import Expected, draw_one, entropy, expect, make_row, mixed_rows, softmax, wide_logits

EDGE = 1e-5  # nearer than this to a filter's border, float32 sums may fall on either side
SMALL = 24  # tokens in the small vocabulary

logit = st.one_of(
    st.sampled_from([-3.0, 0.0, -0.0, 1.0, 2.5, 8.0, -math.inf]),  # ties and masks
    st.floats(-30, 30, width=32),
)
small_logits = st.lists(logit, min_size=SMALL, max_size=SMALL).filter(lambda row: max(row) > -math.inf)
token = st.integers(0, SMALL - 1)
temperatures = st.one_of(st.just(0.0), st.sampled_from([1e-4, 0.3, 1.0, 50.0, 1e17]), st.floats(0.05, 5.0))


@st.composite
def rows(draw: st.DrawFn) -> SampleRow:
    end = draw(st.lists(token, max_size=2))
    allowed = draw(st.none() | st.lists(token, min_size=4, max_size=12, unique=True).map(tuple))
    return make_row(
        prompt=tuple(draw(st.lists(token, max_size=8))),
        generated=draw(st.lists(token, max_size=8)),
        end=end,
        seed=draw(st.integers(0, 2**63 - 1)),
        temperature=draw(temperatures),
        top_k=draw(st.sampled_from([0, 1, 2, 5, 9, 100])),
        top_p=draw(st.sampled_from([1.0, 1e-4, 0.37, 0.6, 0.83, 0.99])),
        min_p=draw(st.sampled_from([0.0, 0.0, 0.013, 0.21, 1.0])),
        repetition_penalty=draw(st.sampled_from([1.0, 1.0, 0.7, 1.3])),
        presence_penalty=draw(st.sampled_from([0.0, 0.0, 0.6, -1.5])),
        frequency_penalty=draw(st.sampled_from([0.0, 0.0, 0.4, -0.3])),
        min_tokens=draw(st.sampled_from([0, 0, 3, 20])),
        logit_bias=draw(st.dictionaries(token, st.floats(-20, 20, width=32), max_size=3)),
        allowed_ids=allowed,
    )


def expectation(logits: list[float], row: SampleRow) -> Expected:
    expected = expect(np.asarray(logits, dtype=np.float32), row)
    assume(expected.edited.max() > -np.inf)  # else NoTokenLeftError, tested by itself
    # float32 edits may tie what float64 keeps apart, or swap it
    levels = np.unique(expected.edited[expected.edited > -np.inf])
    assume(row.settings.temperature > 1e-3 or len(levels) < 2 or levels[-1] - levels[-2] > 1e-3)
    assume(len(levels) < 2 or np.diff(levels).min() > 1e-5 or not row.settings.top_k)
    assume(expected.edge > EDGE)
    return expected


@given(small_logits, rows())
@hypothesis_settings(max_examples=200, deadline=None)
def test_every_candidate_agrees_with_the_reference(logits: list[float], row: SampleRow) -> None:
    expected = expectation(logits, row)
    drawn = draw_one(logits, row)
    possible = [t for t in range(SMALL) if logits[t] > -math.inf]
    assert sorted(c.id for c in drawn.candidates) == possible
    for c in drawn.candidates:
        assert c.logit == np.float32(logits[c.id])
        assert c.logprob == pytest.approx(expected.logprobs[c.id], abs=2e-5)
        assert c.tempered == pytest.approx(expected.tempered[c.id], abs=2e-5)
        assert c.prob == pytest.approx(expected.probs[c.id], abs=2e-5)
        assert c.cut == expected.cuts[c.id]


@given(small_logits, rows())
@hypothesis_settings(max_examples=150, deadline=None)
def test_the_draw_agrees_with_the_reference(logits: list[float], row: SampleRow) -> None:
    expected = expectation(logits, row)
    drawn = draw_one(logits, row)
    greedy = row.settings.temperature == 0
    assert drawn.draw == (None if greedy else row.generator.at(len(row.generated)))
    walk = np.cumsum(expected.probs[expected.order])
    assume(greedy or np.abs(walk[:-1] - drawn.draw).min() > EDGE)
    assert drawn.id == expected.token_at(0.0 if drawn.draw is None else drawn.draw)
    assert drawn.prob == pytest.approx(expected.probs[drawn.id], abs=2e-5)
    assert drawn.logprob == pytest.approx(expected.logprobs[drawn.id], abs=2e-5)
    assert drawn.entropy == pytest.approx(entropy(softmax(np.asarray(logits, dtype=np.float64))), abs=1e-4)
    assert drawn.entropy_after == pytest.approx(expected.entropy_after, abs=1e-3)
    raw = np.asarray(logits, dtype=np.float32)
    larger = (raw > raw[drawn.id]).sum() + (raw[: drawn.id] == raw[drawn.id]).sum()
    assert drawn.rank == 1 + larger


@given(small_logits, rows())
@hypothesis_settings(max_examples=150, deadline=None)
def test_probabilities_are_finite_and_sum_to_one(logits: list[float], row: SampleRow) -> None:
    expectation(logits, row)
    drawn = draw_one(logits, row)
    assert math.fsum(c.prob for c in drawn.candidates) == pytest.approx(1.0, abs=1e-9)
    assert math.fsum(c.tempered for c in drawn.candidates) == pytest.approx(1.0, abs=1e-9)
    for c in drawn.candidates:
        assert 0.0 <= c.prob <= 1.0
        assert 0.0 <= c.tempered <= 1.0
        assert (c.prob > 0) <= (c.cut == "")
    json.dumps([[c.logit, c.logprob, c.tempered, c.prob] for c in drawn.candidates], allow_nan=False)
    json.dumps([drawn.logprob, drawn.prob, drawn.entropy, drawn.entropy_after, drawn.draw], allow_nan=False)


@given(small_logits, st.floats(0.05, 5), st.integers(0, 30), st.floats(0.05, 1), st.floats(0, 0.9))
@hypothesis_settings(max_examples=80, deadline=None)
def test_a_larger_logit_never_has_a_smaller_probability(
    logits: list[float], temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    row = make_row(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    found = sorted(draw_one(logits, row).candidates, key=lambda c: (-c.logit, c.id))
    for higher, lower in itertools.pairwise(found):
        assert higher.tempered >= lower.tempered
        assert higher.prob >= lower.prob


@given(small_logits, st.floats(0.05, 5), st.sampled_from(["top_k", "top_p", "min_p"]), st.data())
@hypothesis_settings(max_examples=80, deadline=None)
def test_a_stricter_filter_keeps_part_of_what_a_looser_one_keeps(
    logits: list[float], temperature: float, name: str, data: st.DataObject
) -> None:
    values = {"top_k": st.integers(1, 30), "top_p": st.floats(0.01, 1), "min_p": st.floats(0.001, 1)}[name]
    loose, strict = sorted((data.draw(values), data.draw(values)), reverse=name != "min_p")
    kept = [
        {c.id for c in draw_one(logits, make_row(temperature=temperature, **{name: value})).candidates if not c.cut}
        for value in (loose, strict)
    ]
    assert kept[1] <= kept[0]
    assert kept[1]


@pytest.mark.parametrize("vocabulary", [40, 5003, 49152])
@pytest.mark.parametrize("inspect", [True, False])
def test_a_row_is_the_same_bit_for_bit_alone_and_in_any_batch(vocabulary: int, inspect: bool) -> None:
    threads = torch.get_num_threads()
    logits, sampler = wide_logits(1, 22, vocabulary), Sampler()
    try:
        torch.set_num_threads(2)
        together = sampler.sample(logits, mixed_rows(22), inspect)
        backwards = sampler.sample(logits.flip(0), mixed_rows(22)[::-1], inspect)[::-1]
        torch.set_num_threads(1)
        alone = [sampler.sample(logits[n : n + 1], [row], inspect)[0] for n, row in enumerate(mixed_rows(22))]
    finally:
        torch.set_num_threads(threads)
    assert together == alone
    assert together == backwards


@given(st.lists(st.tuples(small_logits, rows()), min_size=2, max_size=6))
@hypothesis_settings(max_examples=30, deadline=None)
def test_no_row_sees_its_neighbours(batch: list[tuple[list[float], SampleRow]]) -> None:
    for logits, row in batch:
        expectation(logits, row)
    together = Sampler().sample(torch.tensor([logits for logits, _ in batch]), [row for _, row in batch])
    assert together == [draw_one(logits, row) for logits, row in batch]


@pytest.mark.parametrize("number", range(11))
def test_a_large_vocabulary_agrees_with_the_reference(number: int) -> None:
    logits = wide_logits(number, 1, 20000, decay=1.2)
    row = mixed_rows(11)[number]
    row.candidates = 64
    expected = expect(logits[0].numpy(), row)
    for _ in range(12):  # draws at other numbers reach other depths
        row.generator = RowRandom(row.generator.seed + 100)
        drawn = Sampler().sample(logits, [row])[0]
        assert drawn.id == expected.token_at(drawn.draw or 0.0)
        assert drawn.prob == pytest.approx(expected.probs[drawn.id], rel=1e-5)
        assert drawn.entropy_after == pytest.approx(expected.entropy_after, abs=1e-4)
        assert drawn.rank == 1 + int((logits[0] > logits[0, drawn.id]).sum())
        assert drawn.id in [c.id for c in drawn.candidates]
        for c in drawn.candidates:
            assert c.prob == pytest.approx(expected.probs[c.id], rel=1e-5)
            assert c.tempered == pytest.approx(expected.tempered[c.id], rel=1e-5)
            assert c.cut == expected.cuts[c.id]


def test_the_number_points_into_the_list_that_is_shown() -> None:
    logits = wide_logits(3, 1, 3000)
    for seed in range(200):
        drawn = Sampler().sample(logits, [make_row(seed=seed, temperature=0.8, top_k=30)])[0]
        assert drawn.draw is not None
        before = 0.0
        for c in drawn.candidates:
            if c.id == drawn.id:
                assert before <= drawn.draw < before + c.prob + 1e-12
                break
            before += c.prob


@pytest.mark.parametrize("vocabulary", [5, 40000])
def test_draws_follow_the_probabilities(vocabulary: int) -> None:
    logits = wide_logits(6, 1, vocabulary, decay=1.1)
    row = make_row(temperature=0.9, candidates=0)
    count, sampler = 6000, Sampler()
    drawn = np.zeros(vocabulary)
    for index in range(count):
        row.generated = range(index)
        drawn[sampler.sample(logits, [row], inspect=False)[0].id] += 1
    probs = softmax(logits[0].double().numpy() / 0.9)
    order = np.argsort(-probs)
    cells = np.array_split(order, 5) if vocabulary == 5 else np.split(order, [1, 2, 4, 10, 40, 128, 400, 4096, 12000])
    observed = np.array([drawn[cell].sum() for cell in cells])
    wanted = np.array([probs[cell].sum() for cell in cells]) * count
    assert wanted.min() > 5
    chi_square = ((observed - wanted) ** 2 / wanted).sum()
    freedom = len(cells) - 1
    assert chi_square < freedom + 5 * math.sqrt(2 * freedom)
