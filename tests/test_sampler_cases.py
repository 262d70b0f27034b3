"""Bugs that other engines had in their samplers, one test each."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from cutaway.engine.errors import SettingError
from cutaway.engine.sampler import Draw, Sampler, SampleRow
from cutaway.engine.settings import parse

from .sampler_reference import draw_one, make_row, softmax, wide_logits


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("top_p", [1.0, 1e-4])
def test_sa_01_tiny_temperature_and_top_p_stay_finite(dtype: torch.dtype, top_p: float) -> None:
    logits = torch.tensor([[10.0, 9.0, -5.0]], dtype=dtype)
    row = make_row(temperature=1e-4, top_p=top_p)
    for index in range(200):
        row.generated = range(index)
        drawn = Sampler().sample(logits, [row])[0]
        assert drawn.id == 0
        probs = [c.prob for c in drawn.candidates]
        assert all(math.isfinite(p) for p in probs)
        assert math.fsum(probs) == 1.0


def test_sa_02_top_k_of_zero_is_off_and_not_greedy() -> None:
    row = make_row(seed=42, temperature=1.0, top_k=0, top_p=1.0)
    counts = np.zeros(3)
    for index in range(2000):
        row.generated = range(index)
        counts[draw_one([2.0, 1.0, 0.0], row).id] += 1
    for count, prob in zip(counts, (0.665, 0.245, 0.090), strict=True):
        assert count / 2000 == pytest.approx(prob, abs=4 * math.sqrt(prob * (1 - prob) / 2000))


def lane_logits(lane: int, generated: list[int]) -> torch.Tensor:
    """Logits [1, 600] that depend on the lane's own tokens alone, as a model's do."""
    return wide_logits(1000 * lane + sum((at + 1) * token for at, token in enumerate(generated)), 1, 600)


def run(rows: dict[int, SampleRow], steps: int, joins: dict[int, int] | None = None) -> dict[int, list[int]]:
    """Token ids of each lane's row; a lane takes part from the step it joins at."""
    sampler, said = Sampler(), {lane: [] for lane in rows}
    for step in range(steps):
        here = [lane for lane in rows if step >= (joins or {}).get(lane, 0)]
        for lane in here:
            rows[lane].generated = said[lane]
        logits = torch.cat([lane_logits(lane, said[lane]) for lane in here])
        for lane, drawn in zip(here, sampler.sample(logits, [rows[lane] for lane in here]), strict=True):
            said[lane].append(drawn.id)
    return said


def test_sa_04_a_seeded_row_is_the_same_beside_any_other() -> None:
    def seeded() -> SampleRow:
        return make_row(seed=42, temperature=0.8)

    alone = run({0: seeded()}, 40)[0]
    assert run({0: seeded(), 1: make_row(seed=None, temperature=0.8)}, 40)[0] == alone
    assert run({0: seeded(), 1: make_row(seed=7, temperature=0.8)}, 40)[0] == alone
    assert run({1: make_row(seed=42, temperature=1.5), 0: seeded()}, 40)[0] == alone
    assert len(set(alone)) > 5


def strict_json(drawn: Draw) -> list[dict[str, object]]:
    values = [
        {"id": c.id, "logit": c.logit, "logprob": c.logprob, "tempered": c.tempered, "prob": c.prob, "cut": c.cut}
        for c in drawn.candidates
    ]

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(json.dumps(values, allow_nan=False), parse_constant=refuse)


def test_sa_05_masked_candidates_are_shown_and_leave_json_strict() -> None:
    shown = strict_json(draw_one([3.0, 2.5, 2.0, 1.0, 0.0, -1.0], make_row(temperature=1.0, top_k=1, candidates=5)))
    assert [(c["id"], c["cut"]) for c in shown] == [(0, ""), (1, "top_k"), (2, "top_k"), (3, "top_k"), (4, "top_k")]
    assert [c["prob"] for c in shown] == [1.0, 0.0, 0.0, 0.0, 0.0]


def test_sa_05_tokens_the_model_itself_rules_out_leave_json_strict() -> None:
    logits = [3.0, -math.inf, 2.0, -math.inf, -math.inf]
    assert [c["id"] for c in strict_json(draw_one(logits, make_row(candidates=5)))] == [0, 2]
    banned = strict_json(draw_one(logits, make_row(candidates=5, allowed_ids=(1, 2))))
    assert [(c["id"], c["cut"], c["prob"]) for c in banned] == [(2, "", 1.0), (0, "banned", 0.0)]


def test_sa_07_every_row_keeps_its_own_settings_while_others_join() -> None:
    kinds = {
        0: {"temperature": 0.0},
        1: {"temperature": 2.0, "seed": 5},
        2: {"temperature": 0.9, "top_k": 1, "seed": 6},
        3: {"temperature": 0.9, "repetition_penalty": 1.4, "seed": 8},
    }
    together = run({lane: make_row(**kind) for lane, kind in kinds.items()}, 20, joins={1: 3, 2: 5, 3: 6})
    for lane, kind in kinds.items():
        solo = run({lane: make_row(**kind)}, len(together[lane]))[lane]
        assert together[lane] == solo
    greedy = [int(lane_logits(0, together[0][:at]).argmax()) for at in range(20)]
    assert together[0] == greedy
    assert together[2] == run({2: make_row(temperature=0.0)}, 15)[2]


def test_sa_07_changing_one_live_row_leaves_the_other_alone() -> None:
    first, second = make_row(seed=1, temperature=0.7), make_row(seed=2, temperature=0.7)
    alone = run({1: make_row(seed=2, temperature=0.7)}, 12)[1]
    sampler, said = Sampler(), ([], [])
    for step in range(12):
        if step == 4:
            first.settings = make_row(temperature=50.0).settings
        logits = torch.cat([lane_logits(lane, said[lane]) for lane in (0, 1)])
        first.generated, second.generated = said
        for lane, drawn in enumerate(sampler.sample(logits, [first, second])):
            said[lane].append(drawn.id)
    assert said[1] == alone
    assert said[0][:4] == run({0: make_row(seed=1, temperature=0.7)}, 4)[0]
    assert said[0][4:] != run({0: make_row(seed=1, temperature=0.7)}, 12)[0][4:]


def test_sa_09_a_huge_temperature_draws_near_uniformly() -> None:
    row = make_row(seed=3, temperature=1e17, top_p=1.0, top_k=0, min_p=0.0)
    counts = np.zeros(4)
    for index in range(4000):
        row.generated = range(index)
        drawn = draw_one([10.0, 0.0, 0.0, 0.0], row)
        counts[drawn.id] += 1
    assert np.abs(counts / 4000 - 0.25).max() < 0.03
    assert [c.prob for c in drawn.candidates] == pytest.approx([0.25] * 4)
    assert drawn.entropy_after == pytest.approx(math.log(4))


@pytest.mark.parametrize("value", [math.nan, -1, "abc", math.inf])
def test_sa_09_a_temperature_that_is_none_is_refused_with_the_range(value: object) -> None:
    with pytest.raises(SettingError, match=r"temperature must be a number from 0 \(greedy\) up"):
        parse({"temperature": value})


def test_sa_09_temperature_comes_before_the_filters() -> None:
    logits = [4.0, 2.0, 0.0]  # at temperature 8 nearly even: the filters see that, not the peak
    drawn = draw_one(logits, make_row(temperature=8.0, top_p=0.6))
    assert [c.cut for c in drawn.candidates] == ["", "", "top_p"]
    assert drawn.candidates[0].tempered == pytest.approx(softmax(np.array(logits) / 8.0)[0])
