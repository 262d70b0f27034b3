"""How an iteration's token budget is divided."""

from __future__ import annotations

from cutaway.engine.shares import fair_shares, take_turns
from hypothesis import given
from hypothesis import strategies as st

needs = st.lists(st.integers(1, 50), max_size=12)


def test_short_prompts_get_all_they_need_and_long_ones_share_the_rest():
    assert fair_shares([4000, 2], 64) == [62, 2]
    assert fair_shares([100, 100, 3], 64) == [31, 30, 3]
    assert fair_shares([1, 1, 1], 2) == [1, 1, 0]
    assert fair_shares([], 10) == []


@given(needs, st.integers(0, 300))
def test_shares_use_the_budget_and_are_max_min_fair(needs: list[int], budget: int):
    shares = fair_shares(needs, budget)
    assert sum(shares) == min(budget, sum(needs))
    assert all(0 <= share <= need for share, need in zip(shares, needs, strict=True))
    unmet = [share for share, need in zip(shares, needs, strict=True) if share < need]
    if unmet:
        # Whoever could take more has at least as much as anyone else, but for what can't be divided.
        assert min(unmet) >= max(shares) - 1


@given(needs, st.integers(1, 100))
def test_a_turn_serves_the_first_and_whatever_else_fits(needs: list[int], budget: int):
    served = take_turns(needs, budget)
    assert served == sorted(set(served))
    assert served[:1] == [0] * bool(needs)
    assert len(served) <= 1 or sum(needs[i] for i in served) <= budget
    left = budget - sum(needs[i] for i in served)
    assert all(need > left for i, need in enumerate(needs) if i not in served)
