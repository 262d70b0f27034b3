"""Leading tokens and masses: the host's way and the device's way, against a full sort."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from cutaway.engine.errors import NotANumberError
from cutaway.engine.sampler import Sampler
from cutaway.engine.survey import Ask, HostSurvey, leading
from cutaway.engine.survey_device import DeviceSurvey, leading_on_device, tree_sum
from hypothesis import given, settings
from hypothesis import strategies as st

from .sampler_reference import entropy, make_row, mixed_rows, softmax, wide_logits


def sorted_ids(logits: np.ndarray, count: int) -> list[int]:
    finite = [token for token in range(len(logits)) if logits[token] > -math.inf]
    return sorted(finite, key=lambda token: (-float(logits[token]), token))[:count]


@st.composite
def any_logits(draw: st.DrawFn) -> np.ndarray:
    """Rows of every length about the borders of the column trick, with ties, masks and both zeros."""
    size = draw(st.sampled_from([1, 2, 9, 767, 1536, 1537, 2000, 6000]))
    levels = draw(st.sampled_from([1, 3, 40, 100000]))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    logits = np.round(generator.normal(size=size) * levels / 4).astype(np.float32)
    logits[generator.random(size) < draw(st.sampled_from([0.0, 0.1, 0.99]))] = -np.inf
    return logits


@given(any_logits(), st.sampled_from([1, 2, 7, 128, 383, 384, 900, 5999, 10000]))
@settings(max_examples=150, deadline=None)
def test_leading_tokens_are_those_of_a_full_sort(logits: np.ndarray, count: int) -> None:
    wanted = sorted_ids(logits, count)
    if count > 1 and len(wanted):
        assert leading(logits, count).tolist() == wanted
        look = HostSurvey(len(logits)).look([torch.from_numpy(logits)[None]], [Ask(count)])[0]
        assert look.ids.tolist() == wanted
    count = min(count, len(logits))
    on_device = leading_on_device(torch.from_numpy(logits)[None], count)[0].tolist()
    assert on_device[: len(wanted)] == wanted


@pytest.mark.parametrize("vocabulary", [7, 1600, 8193, 49152, 70001])
def test_host_and_device_see_the_same(vocabulary: int) -> None:
    raw = wide_logits(0, 5, vocabulary)
    raw[1, :5] = -math.inf
    raw[2] = raw[2].bfloat16()  # ties
    edited = raw[1:3] + 1.0
    edited[0, raw[1].argmax()] = -math.inf
    asks = [
        Ask(1),
        Ask(128, (1.0, 0.7), partner=5),
        Ask(8, (1.0,), partner=6),
        Ask(128, (0.05,)),
        Ask(20, (1.0, 1e17)),
        Ask(8, (0.3,), partner=1),
        Ask(128, (), partner=2),
    ]
    ours = HostSurvey(vocabulary).look([raw, edited], asks)
    theirs = DeviceSurvey().look([raw, edited], asks)
    for host, device, ask in zip(ours, theirs, asks, strict=True):
        assert host.ids.tolist() == device.ids.tolist()
        assert host.logits.tolist() == device.logits.tolist()
        assert host.partner.tolist() == device.partner.tolist()
        assert host.top == device.top
        assert host.complete == device.complete or ask.lead == 1
        assert list(host.masses) == list(device.masses) == list(ask.temperatures)
        for temperature, mass in host.masses.items():
            assert mass.total == pytest.approx(device.masses[temperature].total, rel=1e-5)
            assert mass.entropy == pytest.approx(device.masses[temperature].entropy, abs=1e-4)


@pytest.mark.parametrize("survey", [HostSurvey(30000), DeviceSurvey()])
@pytest.mark.parametrize("temperature", [1e-4, 0.2, 1.0, 3.0, 60.0, 1e17])
@pytest.mark.parametrize("before", [(), (1.0,), (0.5,)])
@pytest.mark.parametrize("decay", [3.0, 30.0])
def test_masses_are_those_of_a_float64_softmax(
    survey: HostSurvey | DeviceSurvey, temperature: float, before: tuple[float, ...], decay: float
) -> None:
    logits = wide_logits(1, 1, 30000, decay)
    logits[0, 100:200] = -math.inf
    mass = survey.look([logits], [Ask(8, (*before, temperature))])[0].masses[temperature]
    scaled = (logits[0].double().numpy() - float(logits.max())) / temperature
    assert mass.total == pytest.approx(np.exp(scaled).sum(), rel=1e-5)
    assert mass.entropy == pytest.approx(entropy(softmax(scaled)), abs=1e-4)


@pytest.mark.parametrize("length", [1, 2, 3, 5, 64, 1000, 49152])
def test_a_tree_sum_is_a_sum_and_the_same_in_any_batch(length: int) -> None:
    values = torch.rand(9, length, generator=torch.Generator().manual_seed(0))
    together = tree_sum(values)
    assert together.tolist() == pytest.approx(values.double().sum(-1).tolist(), rel=1e-6)
    assert torch.equal(together, torch.cat([tree_sum(row[None]) for row in values]))
    assert torch.equal(values, torch.rand(9, length, generator=torch.Generator().manual_seed(0)))


def test_a_row_on_the_device_is_the_same_bit_for_bit_in_any_batch() -> None:
    logits = wide_logits(2, 6, 5000)
    asks = [Ask(8 + row, (1.0, 0.5 + row)) for row in range(6)]
    together = DeviceSurvey().look([logits], asks)
    for row, look in enumerate(together):
        alone = DeviceSurvey().look([logits[row : row + 1]], [asks[row]])[0]
        assert alone.masses == look.masses
        assert alone.ids.tolist() == look.ids.tolist()


class DeviceSampler(Sampler):
    """Takes the device's way on a CPU."""

    def _survey(self, logits: torch.Tensor) -> DeviceSurvey:
        return DeviceSurvey()


@pytest.mark.parametrize("inspect", [True, False])
def test_the_sampler_draws_the_same_either_way(inspect: bool) -> None:
    logits = wide_logits(4, 22, 9000).bfloat16()  # ties
    ours = Sampler().sample(logits, mixed_rows(22), inspect)
    theirs = DeviceSampler().sample(logits, mixed_rows(22), inspect)
    for host, device in zip(ours, theirs, strict=True):
        assert (host.id, host.draw, host.rank) == (device.id, device.draw, device.rank)
        assert host.prob == pytest.approx(device.prob, rel=1e-5)
        assert [(c.id, c.logit, c.cut) for c in host.candidates] == [(c.id, c.logit, c.cut) for c in device.candidates]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_bad_numbers_are_seen_on_the_device_too(bad: float) -> None:
    logits = wide_logits(5, 3, 3000)
    logits[2, 17] = bad
    with pytest.raises(NotANumberError) as caught:
        DeviceSampler().sample(logits, [make_row(), make_row(temperature=0.0), make_row()])
    assert caught.value.rows == (2,)
