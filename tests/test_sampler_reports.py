"""What a draw tells of itself, what bad numbers get, and extremes of input."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from cutaway.engine.errors import NotANumberError, NoTokenLeftError
from cutaway.engine.sampler import Sampler

from .sampler_reference import draw_one, make_row, mixed_rows, softmax, wide_logits


def test_candidates_lead_by_logit_and_the_drawn_token_is_always_among_them() -> None:
    logits = wide_logits(4, 1, 3000)
    leading = logits[0].topk(8).indices.tolist()
    outside = 0
    for seed in range(100):
        drawn = Sampler().sample(logits, [make_row(seed=seed, temperature=1.5, candidates=8)])[0]
        ids = [c.id for c in drawn.candidates]
        assert ids[:8] == leading
        assert ids[8:] == ([] if drawn.id in leading else [drawn.id])
        outside += drawn.id not in leading
    assert 0 < outside < 100


def test_candidates_show_what_the_edits_displaced_with_banned_ones_last() -> None:
    logits = [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]
    row = make_row(temperature=0.0, candidates=2, logit_bias={5: 10.0, 1: -3.0}, min_tokens=1, end=(0,))
    found = [(c.id, c.cut, c.logit) for c in draw_one(logits, row).candidates]
    assert found == [(5, "", 0.0), (2, "greedy", 3.0), (1, "greedy", 4.0), (0, "banned", 5.0)]


@pytest.mark.parametrize(
    ("settings", "cuts"),
    [
        ({"top_k": 4, "top_p": 0.6}, ["", "", "", "top_p", "top_k", "top_k"]),  # of 10 it would keep 6
        ({"min_p": 0.5, "top_p": 0.6}, ["", "", "", "top_p", "top_p", "min_p"]),  # of all it would keep 4
        ({"min_p": 0.5, "top_k": 3}, ["", "", "", "top_k", "top_k", "min_p"]),
        ({"min_p": 0.5, "top_k": 5, "top_p": 0.3}, ["", "", "top_p", "top_p", "top_p", "min_p"]),
        ({"temperature": 100.0, "min_p": 0.5}, [""] * 6),
    ],
)
def test_filters_work_in_the_order_that_is_told(settings: dict[str, object], cuts: list[str]) -> None:
    # five equal tokens, and five of a third of their probability
    logits = [0.0] * 5 + [-math.log(3)] * 5
    drawn = draw_one(logits, make_row(candidates=6, **settings))
    assert [c.cut for c in drawn.candidates[:6]] == cuts


def test_penalties_come_after_the_bias() -> None:
    biased = make_row(prompt=(0,), temperature=0.0, logit_bias={0: 3.0}, repetition_penalty=2.0)
    assert draw_one([1.0, 2.5], biased).id == 1  # (1 + 3) / 2 = 2, where 1 / 2 + 3 would win


def test_the_rank_of_a_token_from_far_down_counts_equal_ones_before_it() -> None:
    logits = [0.0] * 3000
    logits[10] = logits[2500] = 1.0
    row = make_row(temperature=0.0, logit_bias={2000: 9.0}, candidates=2)
    drawn = draw_one(logits, row)
    assert (drawn.id, drawn.rank) == (2000, 1 + 2 + 1999)


def test_without_inspection_the_token_is_the_same_and_nothing_else_is_told() -> None:
    logits = wide_logits(5, 22, 3000)
    seen = Sampler().sample(logits, mixed_rows(22), inspect=True)
    unseen = Sampler().sample(logits, mixed_rows(22), inspect=False)
    for full, bare in zip(seen, unseen, strict=True):
        assert (bare.id, bare.draw) == (full.id, full.draw)
        assert bare.prob == pytest.approx(full.prob, rel=1e-12)
        assert (bare.logprob, bare.rank, bare.entropy, bare.entropy_after, bare.candidates) == (None, 0, 0.0, 0.0, ())


def test_equal_logits_are_ordered_by_id() -> None:
    row = make_row(temperature=1.0, top_k=3)
    drawn = draw_one([0.0] * 5000, row)
    assert [c.id for c in drawn.candidates if not c.cut] == [0, 1, 2]
    assert draw_one([1.0, 7.0, 7.0], make_row(temperature=0.0)).id == 1
    assert draw_one([-0.0, 0.0, -0.0], make_row(temperature=1.0, top_k=1)).id == 0


def test_logits_are_left_as_they_were_given() -> None:
    logits = wide_logits(7, 22, 500)
    before = logits.clone()
    Sampler().sample(logits, mixed_rows(22))
    assert torch.equal(logits, before)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_float_type_is_taken(dtype: torch.dtype) -> None:
    logits = torch.tensor([[1.0, 3.0, 2.0]], dtype=dtype)
    drawn = Sampler().sample(logits, [make_row(temperature=0.0)])[0]
    assert drawn.id == 1
    assert drawn.logprob == pytest.approx(math.log(softmax(np.array([1.0, 3.0, 2.0]))[1]), abs=1e-6)


def test_a_row_of_a_larger_matrix_is_taken_as_it_lies() -> None:
    wide = wide_logits(8, 6, 3000)
    view = wide[::2, 500:2500]
    rows = [make_row(seed=n, temperature=0.8) for n in range(3)]
    assert Sampler().sample(view, rows) == Sampler().sample(view.contiguous(), rows)


def test_no_rows_no_draws() -> None:
    assert Sampler().sample(torch.empty(0, 10), []) == []


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("inspect", [True, False])
@pytest.mark.parametrize("vocabulary", [6, 5000])
@pytest.mark.parametrize(("bad", "word"), [(math.nan, "NaN"), (math.inf, "infinite")])
def test_numbers_that_are_none_are_refused_with_the_row(
    temperature: float, inspect: bool, vocabulary: int, bad: float, word: str
) -> None:
    logits = wide_logits(9, 3, vocabulary)
    logits[1, vocabulary - 2] = bad
    with pytest.raises(NotANumberError, match=word) as caught:
        Sampler().sample(logits, [make_row(temperature=temperature) for _ in range(3)], inspect)
    assert caught.value.rows == (1,)
    assert caught.value.kind == "numbers"


def test_a_row_of_minus_infinity_is_refused() -> None:
    with pytest.raises(NotANumberError, match="minus-infinite"):
        Sampler().sample(torch.full((1, 9), -math.inf), [make_row()])


def test_settings_that_forbid_every_token_are_told_with_the_row() -> None:
    rows = [make_row(), make_row(allowed_ids=(3,), min_tokens=2, end=(3,))]
    with pytest.raises(NoTokenLeftError, match="allowed_ids and min_tokens") as caught:
        Sampler().sample(torch.zeros(2, 9), rows)
    assert caught.value.rows == (1,)
    assert caught.value.field == "allowed_ids"


def test_end_tokens_are_banned_until_the_minimum_is_reached() -> None:
    row = make_row(temperature=0.0, min_tokens=2, end=(1, 999))
    chosen = []
    for _ in range(4):
        drawn = draw_one([0.0, 9.0, 1.0], row)
        chosen.append(drawn.id)
        row.generated = [*row.generated, drawn.id]
    assert chosen == [2, 2, 1, 1]


def test_ids_outside_the_vocabulary_are_passed_over() -> None:
    row = make_row(
        prompt=(0, 700), generated=[1, 900], logit_bias={800: 5.0}, allowed_ids=(0, 1, 850), repetition_penalty=1.5
    )
    assert draw_one([1.0, 2.0, 3.0], row).id in (0, 1)


@pytest.mark.parametrize("temperature", [5e-324, 1e-40, 1e-4, 1e17, 1.7e308])
@pytest.mark.parametrize("vocabulary", [6, 3000])
def test_any_temperature_gives_finite_numbers(temperature: float, vocabulary: int) -> None:
    logits = wide_logits(10, 1, vocabulary)
    logits[0, 1] = -math.inf
    logits[0, 2] = torch.finfo(torch.float32).min
    drawn = Sampler().sample(logits, [make_row(temperature=temperature)])[0]
    assert drawn.id != 1
    numbers = [drawn.prob, drawn.entropy, drawn.entropy_after, drawn.logprob]
    assert all(math.isfinite(number) for number in numbers if number is not None)
    total = math.fsum(c.tempered for c in drawn.candidates)
    assert total <= 1 + 1e-6
    if temperature < 1:
        assert (drawn.id, drawn.prob) == (int(logits[0].argmax()), 1.0)


@pytest.mark.parametrize("penalty", [5e-324, 1e-40, 1e40, 1.7e308])
def test_any_repetition_penalty_gives_finite_probabilities(penalty: float) -> None:
    row = make_row(prompt=(0, 1, 2, 3), repetition_penalty=penalty)
    drawn = draw_one([5.0, 0.0, -5.0, -math.inf, 1.0], row)
    assert math.fsum(c.prob for c in drawn.candidates) == pytest.approx(1.0)
    assert 3 not in [c.id for c in drawn.candidates]
