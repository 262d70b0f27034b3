"""What a device says will be drawn, against what is drawn."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from cutaway.engine.guess import Wish, guess, resolve
from cutaway.engine.sampler import SampleRow

from .late_device import OnDevice
from .sampler_reference import make_row, mixed_rows, wide_logits

FILTERS = list(itertools.product([0.0, 0.3, 1.0, 2.5], [0.0, 0.1], [0, 1, 7], [1.0, 0.9, 0.2]))


def every_way(seed: int) -> list[SampleRow]:
    return [
        make_row(generated=range(n % 5), seed=seed + n, candidates=0, temperature=t, min_p=m, top_k=k, top_p=p)
        for n, (t, m, k, p) in enumerate(FILTERS)
    ]


@pytest.mark.parametrize("inspect", [True, False])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("vocabulary", [1, 90, 4000])
def test_a_guess_is_the_token_that_is_drawn(seed: int, vocabulary: int, inspect: bool) -> None:
    logits = wide_logits(seed, len(FILTERS), vocabulary, 30.0)
    sampling = OnDevice().start(logits, every_way(seed), inspect, guess=True)
    assert sampling.guessed() == [draw.id for draw in sampling.draws()]


def test_bias_penalties_and_forbidden_tokens_are_seen_by_the_guess() -> None:
    logits = wide_logits(4, 22, 9000, 30.0)
    sampling = OnDevice().start(logits, mixed_rows(22), guess=True)
    assert sampling.edited
    draws, guessed = sampling.draws(), sampling.guessed()
    sure = [n for n in range(22) if n % 11 not in (3, 6, 9, 10)]  # the others may be drawn from beyond the leading
    assert [guessed[n] for n in sure] == [draws[n].id for n in sure]


def test_nobody_guesses_where_nobody_asked() -> None:
    sampling = OnDevice().start(wide_logits(0, 2, 500), [make_row(), make_row(temperature=0.0)])
    assert sampling.guesses is None
    assert sampling.guessed() == []
    assert len(sampling.draws()) == 2


def test_a_draw_beyond_the_leading_tokens_is_guessed_wrong_and_drawn_right() -> None:
    logits = torch.zeros(1, 4000)
    row = make_row(seed=3, candidates=0)
    sampling = OnDevice().start(logits, [row], inspect=False, guess=True)
    [draw], [guessed] = sampling.draws(), sampling.guessed()
    assert draw.id == OnDevice().sample(logits, [row])[0].id
    assert 0 <= guessed < 4000


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_guess_of_bad_numbers_is_some_token(bad: float) -> None:
    ids, logits = torch.tensor([[3, 1]]), torch.full((1, 2), bad)
    wish = Wish(0, temperature=0.7, min_p=0.1, top_k=2, top_p=0.9, number=0.99)
    assert guess(ids, logits, logits[:, :1], [wish]).item() in (1, 3)


def test_placeholders_become_the_guesses_of_their_rows() -> None:
    ids = torch.tensor([5, ~2, ~0, 0], dtype=torch.int32)
    found = resolve(ids, torch.tensor([70, 80, 90], dtype=torch.int32))
    assert found.tolist() == [5, 90, 70, 0]
    assert found.dtype == torch.int32


def test_a_step_may_overwrite_the_logits_that_are_looked_at() -> None:
    logits = wide_logits(1, 3, 700)
    rows = [make_row(), make_row(temperature=0.0), make_row(seed=9, temperature=60.0)]
    wanted = [draw.id for draw in OnDevice().sample(logits.clone(), rows)]
    sampling = OnDevice().start(logits, rows)
    logits.fill_(math.nan)
    assert [draw.id for draw in sampling.draws()] == wanted
