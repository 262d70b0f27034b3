"""Leading tokens and masses: the host's way and the device's way, against a full sort."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from cutaway.engine import kernels
from cutaway.engine.errors import NotANumberError
from cutaway.engine.sampler import Sampler
from cutaway.engine.sampler_filters import Order
from cutaway.engine.survey import LEADING, Ask, HostSurvey, leading
from cutaway.engine.survey_device import DeviceSurvey, leading_on_device, tree_sum
from cutaway.engine.survey_native import NativeSurvey
from hypothesis import given, settings
from hypothesis import strategies as st

from .sampler_reference import entropy, make_row, mixed_rows, softmax, wide_logits


@pytest.fixture(scope="module")
def native() -> NativeSurvey:
    library = kernels.load()
    assert library is not None, kernels.problem()
    return NativeSurvey(library)


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


@given(any_logits(), st.sampled_from([1, 2, 7, 64, LEADING]))
@settings(max_examples=150, deadline=None)
def test_our_kernels_find_the_leading_tokens_of_a_full_sort(
    native: NativeSurvey, logits: np.ndarray, count: int
) -> None:
    wanted = sorted_ids(logits, count)
    look = native.look([torch.from_numpy(logits)[None]], [Ask(count)])[0]
    assert look.ids.tolist() == wanted
    assert look.logits.tolist() == logits[wanted].tolist()
    assert look.complete == (len(wanted) < count or count >= len(logits))
    assert look.top == (logits[wanted[0]] if wanted else -math.inf)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 15, 768, 49151])
def test_our_kernels_see_a_bad_number_wherever_it_stands(native: NativeSurvey, bad: float, place: int) -> None:
    logits = wide_logits(6, 2, 49152)
    logits[1, place] = bad
    whole, broken = native.look([logits], [Ask(20, (1.0,)), Ask(20, (1.0,))])
    assert math.isfinite(whole.top)
    assert [broken.top] == pytest.approx([logits[1].max().item()], nan_ok=True)
    assert math.isfinite(broken.top) == (bad == -math.inf)
    assert place not in broken.ids.tolist()


def test_our_kernels_look_at_a_row_as_if_it_were_alone(native: NativeSurvey) -> None:
    logits = wide_logits(7, 20, 5000)
    asks = [Ask(1 + 6 * row, (1.0, 0.5 + row), drawn_at=0.5 + row) for row in range(20)]
    together = native.look([logits], asks)
    for row, look in enumerate(together):
        alone = native.look([logits[row : row + 1]], [asks[row]])[0]
        assert (alone.masses, alone.top, alone.complete) == (look.masses, look.top, look.complete)
        assert alone.ids.tolist() == look.ids.tolist()
        assert alone.weighed is not None
        assert look.weighed is not None
        assert alone.weighed.tolist() == look.weighed.tolist()


@pytest.mark.parametrize("temperature", [1e-300, 1e-4, 0.7, 1.0, 60.0, 1e300])
def test_our_kernels_weigh_the_leading_tokens_as_an_order_does(native: NativeSurvey, temperature: float) -> None:
    logits = wide_logits(8, 1, 3000)
    (ours,) = native.look([logits], [Ask(LEADING, drawn_at=temperature)])
    (theirs,) = HostSurvey(3000).look([logits], [Ask(LEADING)])
    orders = [Order(look, temperature, math.nan, lambda: logits[0].numpy()) for look in (ours, theirs)]
    for name in ("exponents", "weights", "sums"):
        one, other = (getattr(order, name).tolist() for order in orders)
        assert one == pytest.approx(other, rel=1e-14, abs=0)


@pytest.mark.parametrize("vocabulary", [7, 1600, 8193, 49152, 70001])
def test_host_device_and_our_kernels_see_the_same(native: NativeSurvey, vocabulary: int) -> None:
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
    hosts = HostSurvey(vocabulary).look([raw, edited], asks)
    others = [*DeviceSurvey().look([raw, edited], asks), *native.look([raw, edited], asks)]
    for host, device, ask in zip(hosts * 2, others, asks * 2, strict=True):
        assert host.ids.tolist() == device.ids.tolist()
        assert host.logits.tolist() == device.logits.tolist()
        assert host.partner.tolist() == device.partner.tolist()
        assert host.top == device.top
        assert host.complete == device.complete or ask.lead == 1
        assert list(host.masses) == list(device.masses) == list(ask.temperatures)
        for temperature, mass in host.masses.items():
            assert mass.total == pytest.approx(device.masses[temperature].total, rel=1e-5)
            assert mass.entropy == pytest.approx(device.masses[temperature].entropy, abs=1e-4)


@pytest.mark.parametrize("kind", ["host", "device", "native"])
@pytest.mark.parametrize("temperature", [1e-4, 0.2, 1.0, 3.0, 60.0, 1e17])
@pytest.mark.parametrize("before", [(), (1.0,), (0.5,)])
@pytest.mark.parametrize("decay", [3.0, 30.0])
def test_masses_are_those_of_a_float64_softmax(
    native: NativeSurvey, kind: str, temperature: float, before: tuple[float, ...], decay: float
) -> None:
    survey = {"host": HostSurvey(30000), "device": DeviceSurvey(), "native": native}[kind]
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


class HostSampler(Sampler):
    """Does without our kernels."""

    def _survey(self, logits: torch.Tensor) -> HostSurvey:
        return HostSurvey(logits.shape[1])


@pytest.mark.parametrize("inspect", [True, False])
@pytest.mark.parametrize("other", [HostSampler, DeviceSampler])
def test_the_sampler_draws_the_same_whichever_way(inspect: bool, other: type[Sampler]) -> None:
    assert kernels.load() is not None, kernels.problem()
    logits = wide_logits(4, 22, 9000).bfloat16()  # ties
    ours = Sampler().sample(logits, mixed_rows(22), inspect)
    theirs = other().sample(logits, mixed_rows(22), inspect)
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
