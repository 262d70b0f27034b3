"""Bugs reported of other engines, which this scheduler must not have. A test's name begins with the case's id."""

from __future__ import annotations

import pytest
from cutaway.engine.errors import TooLongError
from cutaway.engine.sequence import Status

from .simulated_engine import SimulatedEngine, prompt, reply, step_until, work_of


def test_kv_01_a_fully_cached_prompt_still_computes_its_last_token():
    engine = SimulatedEngine(8)
    first = engine.submit(prompt(32), 4)
    engine.run_dry()
    second = engine.submit(prompt(32), 4)
    work = work_of(engine.step(), second)
    assert (work.start, work.count, work.spared, work.samples) == (16, 16, 16, True)
    engine.run_dry()
    assert second.cached == 16
    assert first.tokens == second.tokens


def test_kv_04_a_page_is_matchable_only_after_the_step_that_filled_it():
    engine = SimulatedEngine(16)
    shared = prompt(32)
    a, b = engine.submit([*shared, 1], 5), engine.submit([*shared, 2], 5)
    plan = engine.step()
    assert [work.start for work in plan.work] == [0, 0]
    assert not set(a.block_table) & set(b.block_table)
    c = engine.submit([*shared, 3], 5)
    assert work_of(engine.step(), c).start == 32
    engine.run_dry()
    engine.check_replies()


def test_kv_05_preempted_requests_that_hit_their_own_pages_finish_with_the_right_tokens():
    engine = SimulatedEngine(6)
    a, b = engine.submit(prompt(40), 40), engine.submit(prompt(40, seed=1), 40)
    engine.run_dry()
    assert (a.preemptions, b.preemptions > 0) == (0, True)
    assert a.generated == reply(prompt(40), 40)
    assert b.generated == reply(prompt(40, seed=1), 40)


def test_kv_07_a_reply_that_ends_in_mid_page_leaves_only_full_computed_pages_to_match():
    engine = SimulatedEngine(16)
    first = engine.submit(prompt(20), 30)
    step_until(engine, lambda: len(first) == 31)
    engine.scheduler.finish(first)  # on a stop string: positions 0 to 29 have been computed
    engine.check()
    for length in (21, 31, 32, 33):
        found = engine.pool.match([*first.tokens, 1, 2, 3][:length])
        assert len(found) == 1, length
    second = engine.submit(first.tokens[:25], 20)
    assert work_of(engine.step(), second).start == 16
    engine.run_dry()
    assert second.generated == reply(first.tokens[:25], 20)


def test_kv_07_a_last_token_that_was_drawn_but_not_computed_does_not_complete_a_page():
    engine = SimulatedEngine(8)
    first = engine.submit(prompt(30), 2)
    engine.run_dry()
    assert len(first) == 32
    assert len(engine.pool.match([*first.tokens, 0])) == 1


def test_kv_09_duplicate_pages_of_one_step_leave_no_trace():
    engine = SimulatedEngine(8)
    before = engine.pool.totals()
    a, b = engine.submit(prompt(32), 3), engine.submit(prompt(32), 9)
    step_until(engine, lambda: a.status is Status.FINISHED)
    assert b.status is Status.RUNNING
    engine.run_dry()
    c = engine.submit(prompt(32), 5)
    engine.run_dry()
    assert c.cached == 16
    assert c.generated == reply(prompt(32), 5)
    engine.pool.clear_cache()
    engine.check()
    assert engine.pool.totals() == before


def test_sc_01_a_long_prompt_holds_nobody_up():
    engine = SimulatedEngine(400, token_budget=64)
    running = [engine.submit(prompt(5, seed), 200) for seed in range(2)]
    engine.step()
    a = engine.submit(prompt(4000), 5)
    engine.step()
    b = engine.submit([1, 2], 20)
    lengths = [len(s) for s in running]
    step_until(engine, lambda: b.generated)
    steps = len(running[0]) - lengths[0]
    assert steps <= 4
    assert len(running[1]) - lengths[1] == steps
    assert not a.generated
    while len(b) < 22:
        before = [len(s) for s in (*running, b)]
        engine.step()
        assert [len(s) for s in (*running, b)] == [length + 1 for length in before]
    engine.run_dry()
    assert len(a.generated) == 5
    engine.check_replies()


def test_sc_02_a_request_that_can_never_fit_is_refused_with_the_numbers():
    engine = SimulatedEngine(10)
    with pytest.raises(TooLongError, match=r"200 tokens needs 13 pages of 16 tokens, the pool has 10"):
        engine.submit(prompt(200), 10)
    b = engine.submit([1, 2], 3)
    engine.run_dry()
    assert b.generated == reply([1, 2], 3)


def test_sc_05_a_twice_preempted_reply_is_complete_and_says_nothing_twice():
    engine = SimulatedEngine(16)
    sequence = engine.submit(prompt(20), 12)
    told = []
    for _ in range(2):
        step_until(engine, lambda: len(sequence.generated) >= 5)
        engine.scheduler.preempt(sequence)
        plan = engine.step()
        told += plan.preempted
        assert work_of(plan, sequence).admitted
    engine.run_dry()
    assert told == ["r0/0", "r0/0"]
    assert sequence.preemptions == 2
    assert sequence.generated == reply(prompt(20), 12)


def test_ca_02_an_aborted_request_gives_its_lane_and_pages_back_at_once():
    engine = SimulatedEngine(16)
    other = engine.submit(prompt(5, seed=3), 50)
    engine.step()
    before = engine.pool.totals().used
    sequence = engine.submit(prompt(40), 10**9)
    step_until(engine, lambda: len(sequence.generated) == 3)
    engine.scheduler.abort(sequence)
    assert engine.pool.totals().used == before
    assert sequence not in engine.scheduler.running
    plan = engine.step()
    assert [work.sequence for work in plan.work] == [other]


def test_ca_05_an_abort_in_the_middle_of_a_long_prompt_stops_at_the_next_chunk():
    engine = SimulatedEngine(200, token_budget=64)
    sequence = engine.submit(prompt(40 * 64), 5)
    engine.step()
    engine.step(between=lambda: engine.scheduler.abort(sequence))
    assert sequence.computed == 64
    assert engine.pool.totals().used == 0
    assert engine.step() is None
    assert len(engine.plans) == 2
