"""The page pool: references, the prefix index, eviction, revival, and the changes it reports."""

from __future__ import annotations

import pytest
from cutaway.engine.pages import IntegrityError, PagePool
from cutaway.engine.protocol import PageChange, PoolTotals
from hypothesis import given, settings
from hypothesis import strategies as st


def fill(pool: PagePool, owner: str, tokens: list[int], register: bool = True) -> list[int]:
    """Allocate pages for `tokens`, write them, and register the full ones."""
    chain: list[bytes] = []
    table = []
    for start in range(0, len(tokens), pool.page_size):
        page = pool.allocate(owner, start)
        pool.write(page, 0, tokens[start : start + pool.page_size])
        if register and start + pool.page_size <= len(tokens):
            pool.register(page, pool.index.name(chain, tokens, len(table)))
        table.append(page)
    return table


def release(pool: PagePool, owner: str, table: list[int], remembered: bool = False) -> None:
    for page in reversed(table):
        pool.release(page, owner, remembered)


def test_match_finds_the_longest_cached_prefix_in_whole_pages():
    pool = PagePool(8, 4)
    table = fill(pool, "a/0", list(range(14)))
    assert pool.match(list(range(14))) == table[:3]
    assert pool.match([*range(9), 77, 78, 79, 80]) == table[:2]
    assert pool.match([99, *range(13)]) == []
    assert pool.match(list(range(14)), limit=7) == table[:1]


@pytest.mark.parametrize("length", [4, 8, 12])
def test_match_never_covers_the_last_token(length: int):
    pool = PagePool(8, 4)
    fill(pool, "a/0", list(range(length)))
    assert len(pool.match(list(range(length)))) == length // 4 - 1
    assert len(pool.match(list(range(length + 1)))) == length // 4


def test_match_in_nothing_and_for_nothing_is_empty():
    pool = PagePool(2, 4)
    assert pool.match([]) == []
    assert pool.match([1]) == []
    assert pool.match(list(range(20))) == []


def test_the_same_page_of_tokens_after_another_prefix_is_another_page():
    pool = PagePool(8, 2)
    fill(pool, "a/0", [1, 1, 5, 5])
    second = fill(pool, "b/0", [2, 2, 5, 5])
    assert pool.match([2, 2, 5, 5, 0]) == second


def test_pages_of_another_model_never_match():
    names = []
    for salt in (b"one", b"two"):
        pool = PagePool(2, 2, salt)
        names.append(pool.index.name([], [1, 2], 0))
    assert names[0] != names[1]


def test_stored_tokens_are_compared_so_that_a_forged_name_does_not_match():
    pool = PagePool(4, 2)
    page = pool.allocate("a/0", 0)
    pool.write(page, 0, [1, 2])
    pool.register(page, pool.index.name([], [3, 4], 0))
    assert pool.match([3, 4, 5]) == []


def test_tokens_beyond_32_bits_and_negative_ones_have_names_of_their_own():
    index = PagePool(1, 1).index
    assert len({index.name([], [token], 0) for token in (0, 1, -1, 2**31, 2**32, 2**32 + 1)}) == 6


def test_only_full_pages_can_be_registered():
    pool = PagePool(2, 4)
    page = pool.allocate("a/0", 0)
    pool.write(page, 0, [1, 2, 3])
    with pytest.raises(IntegrityError, match="3 of 4"):
        pool.register(page, b"x")


def test_the_first_of_two_equal_pages_stays_indexed_and_the_duplicate_has_no_hash():
    pool = PagePool(4, 2)
    (first,) = fill(pool, "a/0", [1, 2])
    (second,) = fill(pool, "b/0", [1, 2])
    assert pool.match([1, 2, 3]) == [first]
    assert pool.detail(first).hash
    assert pool.detail(second).hash == ""
    release(pool, "b/0", [second])
    assert pool.state(second) == "free"
    release(pool, "a/0", [first])
    assert pool.state(first) == "cached"
    assert pool.match([1, 2, 3]) == [first]
    pool.check({})


def test_a_reused_page_takes_its_stale_hash_with_it():
    pool = PagePool(1, 2)
    release(pool, "a/0", fill(pool, "a/0", [1, 2]))
    assert pool.match([1, 2, 3]) == [0]
    assert pool.allocate("b/0", 0) == 0
    assert pool.match([1, 2, 3]) == []
    assert pool.detail(0).hash == ""
    pool.check({"b/0": [0]})


def test_eviction_takes_the_least_recently_used_page_and_only_when_none_is_free():
    pool = PagePool(3, 1)
    for token in (1, 2):
        release(pool, "a/0", fill(pool, "a/0", [token]))
    assert pool.totals() == PoolTotals(3, 0, 0, 2, 1)
    pool.take(0, "b/0")  # used again: now page 1 is the oldest
    pool.release(0, "b/0")
    assert pool.allocate("c/0", 0) == 2
    assert pool.allocate("c/0", 1) == 1
    assert pool.match([2, 0]) == []
    assert pool.match([1, 0]) == [0]
    assert pool.allocate("c/0", 2) == 0
    assert pool.available == 0
    with pytest.raises(IntegrityError, match="all 3 are in use"):
        pool.allocate("d/0", 0)


def test_the_end_of_a_released_prefix_is_evicted_before_its_beginning():
    pool = PagePool(3, 1)
    release(pool, "a/0", fill(pool, "a/0", [1, 2, 3]))
    pool.allocate("b/0", 0)
    assert len(pool.match([1, 2, 3, 4])) == 2


def test_a_shared_page_is_used_until_its_last_reference_goes():
    pool = PagePool(2, 1)
    (page,) = fill(pool, "a/0", [1])
    pool.take(page, "b/0")
    assert pool.totals() == PoolTotals(2, 1, 1, 0, 1)
    assert pool.detail(page).owners == ("a/0", "b/0")
    pool.release(page, "a/0")
    assert pool.totals() == PoolTotals(2, 1, 0, 0, 1)
    pool.release(page, "b/0")
    assert pool.totals() == PoolTotals(2, 0, 0, 1, 1)


def test_references_are_checked():
    pool = PagePool(2, 1)
    page = pool.allocate("a/0", 0)
    with pytest.raises(IntegrityError, match="b/0 releases page 0"):
        pool.release(page, "b/0")
    pool.release(page, "a/0")
    with pytest.raises(IntegrityError, match="which is free"):
        pool.take(page, "b/0")


@pytest.mark.parametrize("tokens", [[1], [1, 2]])
def test_a_remembered_page_is_revived_even_if_partial_or_without_a_hash(tokens: list[int]):
    pool = PagePool(2, 2)
    (page,) = fill(pool, "a/0", tokens, register=False)
    generation = pool.generation(page)
    pool.release(page, "a/0", remembered=True)
    assert pool.state(page) == "cached"
    assert pool.revive(page, generation, "b/0")
    assert pool.detail(page).token_ids == tuple(tokens)
    pool.check({"b/0": [page]})


def test_a_page_that_nobody_could_find_again_is_free_at_once():
    pool = PagePool(2, 2)
    (page,) = fill(pool, "a/0", [1, 2], register=False)
    pool.release(page, "a/0")
    assert pool.state(page) == "free"
    assert not pool.revive(page, pool.generation(page), "b/0")


def test_a_page_is_not_kept_for_a_reader_it_had_before_it_was_reused():
    pool = PagePool(1, 2)
    pool.release(*fill(pool, "a/0", [1]), "a/0", remembered=True)
    pool.release(*fill(pool, "b/0", [2]), "b/0")
    assert pool.state(0) == "free"


def test_a_reused_page_is_not_revived():
    pool = PagePool(1, 2)
    (page,) = fill(pool, "a/0", [1])
    generation = pool.generation(page)
    pool.release(page, "a/0", remembered=True)
    pool.release(pool.allocate("b/0", 0), "b/0", remembered=True)
    assert not pool.revive(page, generation, "c/0")
    page = pool.allocate("b/0", 0)
    assert not pool.revive(page, generation, "c/0")


def test_clear_cache_forgets_what_nobody_uses_and_only_that():
    pool = PagePool(4, 1)
    table = fill(pool, "a/0", [1, 2])
    release(pool, "b/0", fill(pool, "b/0", [7, 8]))
    pool.drain_changes()
    pool.clear_cache()
    assert {(c.page, c.state, c.evicted) for c in pool.drain_changes()} == {(2, "free", True), (3, "free", True)}
    assert pool.match([7, 8, 9]) == []
    assert pool.match([1, 2, 3]) == table
    pool.check({"a/0": table})


def test_writes_must_continue_what_is_there():
    pool = PagePool(1, 4)
    page = pool.allocate("a/0", 0)
    pool.write(page, 0, [1, 2])
    pool.write(page, 0, [1, 2, 3])  # recomputed with one more
    assert pool.detail(page).token_ids == (1, 2, 3)
    with pytest.raises(IntegrityError, match="which holds 3"):
        pool.write(page, 4, [1])
    with pytest.raises(IntegrityError, match="2 tokens at slot 3"):
        pool.write(page, 3, [4, 5])


def test_changes_say_what_happened_since_the_last_drain():
    pool = PagePool(1, 2)
    fill(pool, "a/0", [1, 2])
    change = pool.drain_changes()[0]
    assert change == PageChange(0, "used", ("a/0",), 2, 1, pool.detail(0).hash)
    assert len(change.hash) == 16
    assert pool.drain_changes() == ()
    pool.release(0, "a/0")
    assert pool.drain_changes() == (PageChange(0, "cached", (), 2, 0, change.hash),)
    pool.allocate("b/0", 0)
    assert pool.drain_changes() == (PageChange(0, "used", ("b/0",), 0, 1, "", evicted=True),)
    pool.write(0, 0, [5])
    assert pool.drain_changes() == (PageChange(0, "used", ("b/0",), 1, 1),)


def test_a_copy_says_where_it_came_from():
    pool = PagePool(2, 4)
    (source,) = fill(pool, "a/0", [1, 2, 3])
    target = pool.allocate("b/0", 0)
    pool.drain_changes()
    pool.copy(source, target, 2)
    assert pool.drain_changes() == (PageChange(target, "used", ("b/0",), 2, 1, copied_from=source),)
    pool.write(target, 2, [7])
    assert pool.drain_changes() == (PageChange(target, "used", ("b/0",), 3, 1),)
    assert pool.detail(target).token_ids == (1, 2, 7)


def test_detail_of_a_page_tells_tokens_owners_and_position():
    pool = PagePool(3, 2)
    table = fill(pool, "a/0", [5, 6, 7])
    detail = pool.detail(table[1])
    assert (detail.token_ids, detail.owners, detail.refs, detail.fill, detail.hash, detail.positions) == (
        (7,),
        ("a/0",),
        1,
        1,
        "",
        2,
    )
    untouched = pool.detail(2)
    assert (untouched.state, untouched.positions, untouched.token_ids) == ("free", -1, ())
    with pytest.raises(IndexError, match="page 3 of 3"):
        pool.detail(3)


@pytest.mark.parametrize(("pages", "size"), [(0, 16), (4, 0)])
def test_an_empty_pool_is_refused(pages: int, size: int):
    with pytest.raises(ValueError, match="at least one page"):
        PagePool(pages, size)


@pytest.mark.parametrize(
    "damage",
    [
        lambda pool: pool._free.append(0),
        lambda pool: pool._cached.update({0: None}),
        lambda pool: pool._free.clear(),
        lambda pool: pool.index.remove(pool._touched[0].name),
        lambda pool: pool._touched[0].tokens.pop(),
        lambda pool: setattr(pool._touched[0], "owners", ()),
        lambda pool: setattr(pool._touched[0], "owners", ("a/0", "b/0")),
        lambda pool: setattr(pool, "_shared", 1),
        lambda pool: setattr(pool._touched[2], "tokens", [4]),
        lambda pool: pool.index.add(b"stale", 1),
    ],
)
def test_check_finds_every_kind_of_damage(damage):
    pool = PagePool(4, 2)
    table = fill(pool, "a/0", [1, 2, 3])
    pool.release(pool.allocate("b/0", 0), "b/0")
    pool.check({"a/0": table})
    damage(pool)
    with pytest.raises(IntegrityError):
        pool.check({"a/0": table})


@pytest.mark.parametrize("tables", [{}, {"a/0": [0]}, {"a/0": [0, 1, 2]}, {"b/0": [0, 1]}, {"a/0": [0, 1, 1]}])
def test_check_finds_block_tables_that_disagree(tables: dict[str, list[int]]):
    pool = PagePool(4, 2)
    fill(pool, "a/0", [1, 2, 3])
    with pytest.raises(IntegrityError):
        pool.check(tables)


@given(st.lists(st.lists(st.integers(0, 1), max_size=12), min_size=1, max_size=6), st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_match_equals_the_longest_common_whole_page_prefix(prompts: list[list[int]], size: int):
    pool = PagePool(100, size)
    for number, prompt in enumerate(prompts[:-1]):
        fill(pool, f"{number}/0", prompt)
    wanted = prompts[-1]
    best = 0
    for prompt in prompts[:-1]:
        common = next((i for i, (a, b) in enumerate(zip(prompt, wanted, strict=False)) if a != b), None)
        common = min(len(prompt), len(wanted)) if common is None else common
        best = max(best, min(common, max(0, len(wanted) - 1)) // size)
    assert len(pool.match(wanted)) == best
