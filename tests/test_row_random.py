"""One request's random numbers."""

from __future__ import annotations

import numpy as np
from cutaway.engine.row_random import RowRandom


def test_numbers_depend_on_seed_stream_and_index_alone() -> None:
    walked = RowRandom(42)
    numbers = [walked.next() for _ in range(50)]
    jumped = RowRandom(42)
    jumped.seek(30)
    assert [jumped.next() for _ in range(20)] == numbers[30:]
    assert [RowRandom(42).at(index) for index in range(50)] == numbers
    assert RowRandom(42, index=7).next() == numbers[7]


def test_a_clone_goes_on_with_the_same_numbers_and_leaves_its_source_alone() -> None:
    source = RowRandom(7)
    source.next()
    clone = source.clone()
    assert [clone.next() for _ in range(5)] == [source.at(index) for index in range(1, 6)]
    assert source.index == 1
    assert source.clone(stream=3).next() != source.at(1)


def test_unseeded_generators_differ_and_their_clones_do_not() -> None:
    first, second = RowRandom(), RowRandom(None)
    assert first.at(0) != second.at(0)
    assert first.clone().at(0) == first.at(0)


def test_seeds_and_streams_give_numbers_of_their_own() -> None:
    keys = [(seed, stream) for seed in (0, 1, 2**63 - 1, 2**64 - 1) for stream in (0, 1, 2)]
    assert len({RowRandom(*key).at(0) for key in keys}) == len(keys)


def test_the_numbers_of_a_seed_never_change_between_versions() -> None:
    numbers = [RowRandom(42).at(index) for index in range(3)]
    assert numbers == [0.610794204641109, 0.09714922546829075, 0.7738937096138391]


def test_numbers_are_uniform_below_one() -> None:
    numbers = np.array([RowRandom(seed).at(index) for seed in range(20) for index in range(1000)])
    assert numbers.min() >= 0.0
    assert numbers.max() < 1.0
    counts = np.bincount((numbers * 20).astype(int), minlength=20)
    assert ((counts - 1000) ** 2 / 1000).sum() < 19 + 5 * np.sqrt(38)
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.03
