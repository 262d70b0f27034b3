"""The scheduler over a simulated memory: the reported bugs it must not have, and what each switch promises."""

from __future__ import annotations

import time

import pytest
from cutaway.engine.errors import SettingError, TooLongError
from cutaway.engine.pages import IntegrityError, PagePool
from cutaway.engine.plan import StepPlan
from cutaway.engine.protocol import PoolTotals
from cutaway.engine.scheduler import Scheduler
from cutaway.engine.sequence import Sequence, Status

from .simulated_engine import SimulatedEngine, contents, next_token, reply


def prompt(length: int, seed: int = 0) -> list[int]:
    return [(at * at + seed) % 5 for at in range(length)]


def work_of(plan: StepPlan | None, sequence: Sequence):
    assert plan is not None
    return next((work for work in plan.work if work.sequence is sequence), None)


def reason_of(plan: StepPlan | None, sequence: Sequence) -> str:
    assert plan is not None
    return next(w.reason for w in plan.waits if (w.request, w.sample) == (sequence.request, sequence.sample))


def step_until(engine: SimulatedEngine, condition) -> None:
    for _ in range(1000):
        if condition():
            return
        engine.step()
    raise AssertionError("it never came true")


# ---------------------------------------------------------------------------------------------- reported bugs


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


# ---------------------------------------------------------------------------------------------------- budget


def test_chunks_stay_within_the_budget_and_decodes_come_first():
    engine = SimulatedEngine(64, token_budget=20)
    decoding = [engine.submit([seed, 1], 30) for seed in range(3)]
    engine.step()
    long = engine.submit(prompt(50), 3)
    chunks = []
    while not long.generated:
        plan = engine.step()
        assert [work.phase for work in plan.work] == ["decode"] * 3 + ["prefill"]
        assert [work.sequence for work in plan.work[:3]] == decoding
        chunks.append(plan.work[-1].count)
    assert chunks == [17, 17, 16]


def test_more_lanes_than_budget_are_never_filled():
    engine = SimulatedEngine(64, token_budget=2)
    waiting = [engine.submit([seed, 1, 1], 5) for seed in range(4)]
    plan = engine.step()
    assert plan.computed == 2
    assert reason_of(plan, waiting[2]) == "all 2 lanes are taken, as many as the token budget of 2 serves"
    engine.run_dry()
    engine.check_replies()


def test_a_smaller_budget_takes_effect_at_the_next_iteration():
    engine = SimulatedEngine(64)
    sequence = engine.submit(prompt(600), 2)
    assert engine.step().computed == 512
    engine.scheduler.token_budget = 10
    assert engine.step().computed == 10
    assert sequence.computed == 522


def test_lanes_keep_their_numbers_while_others_come_and_go():
    engine = SimulatedEngine(64, max_lanes=3)
    a, b, c = (engine.submit([seed], new) for seed, new in enumerate((3, 9, 9)))
    engine.step()
    assert (a.lane, b.lane, c.lane) == (0, 1, 2)
    step_until(engine, lambda: a.status is Status.FINISHED)
    d = engine.submit([3], 3)
    engine.step()
    assert (a.lane, b.lane, c.lane, d.lane) == (-1, 1, 2, 0)
    engine.scheduler.max_lanes = 1
    engine.step()
    assert (b.lane, c.lane, d.lane) == (1, 2, 0)


# ------------------------------------------------------------------------------------------ waits and overtaking


def test_each_wait_has_its_reason_in_words_and_numbers():
    engine = SimulatedEngine(6)
    engine.submit(prompt(63), 20)
    engine.step()
    big = engine.submit(prompt(60, 1), 5)
    others = [engine.submit(prompt(50, seed), 5) for seed in range(2, 7)]
    plan = engine.step()
    assert reason_of(plan, big) == "4 pages needed, 2 free"
    assert (plan.waits[0].pages_needed, plan.waits[0].pages_free) == (4, 2)
    assert reason_of(plan, others[-1]) == "5 sequences before it"


def test_the_next_in_line_is_told_that_all_lanes_are_taken():
    engine = SimulatedEngine(6, max_lanes=2)
    sequences = [engine.submit([seed], 5) for seed in range(4)]
    plan = engine.step()
    assert reason_of(plan, sequences[2]) == "all 2 lanes are taken"
    assert reason_of(plan, sequences[3]) == "1 sequence before it"


def test_small_requests_overtake_a_big_one_only_so_often():
    engine = SimulatedEngine(8, 4)
    holder = engine.submit(prompt(8), 21)
    engine.step()
    big = engine.submit(prompt(27, 1), 2)
    passed = 0
    while big.status is Status.WAITING:
        engine.submit([1], 1)
        plan = engine.step()
        passed += 0 if work_of(plan, big) else sum(work.admitted for work in plan.work)
    assert big.overtaken == passed == 8
    assert holder.status is Status.FINISHED
    engine.run_dry()
    assert big.generated == reply(prompt(27, 1), 2)


def test_a_preempted_sequence_comes_back_only_with_headroom():
    engine = SimulatedEngine(6)
    a, b = engine.submit(prompt(40), 40), engine.submit(prompt(40, 1), 40)
    step_until(engine, lambda: b.preemptions == 1)
    plan = engine.plans[-1]
    assert plan.preempted == (b.key,)
    assert reason_of(plan, b) == "paused after preemption until 6 pages are free"
    step_until(engine, lambda: b.status is Status.RUNNING)
    assert a.status is Status.FINISHED
    engine.run_dry()
    assert b.preemptions == 1


def test_the_youngest_is_preempted_even_if_it_is_the_one_in_need():
    engine = SimulatedEngine(4, 4)
    a = engine.submit(prompt(5), 10)
    b = engine.submit(prompt(8, 1), 8)
    step_until(engine, lambda: a.preemptions + b.preemptions)
    assert (a.preemptions, b.preemptions) == (0, 1)
    engine.run_dry()
    assert a.preemptions == 0
    engine.check_replies()


def test_a_lone_sequence_fills_the_entire_pool_and_no_more():
    engine = SimulatedEngine(3, 4)
    sequence = engine.submit(prompt(3), 1000)
    assert sequence.max_length == engine.scheduler.capacity == 12
    engine.run_dry()
    assert sequence.generated == reply(prompt(3), 9)
    assert sequence.preemptions == 0


def test_a_sequence_that_grows_past_the_pool_is_a_bug_that_is_told():
    engine = SimulatedEngine(1, 4)
    sequence = engine.submit(prompt(3), 5)
    sequence.max_length = 100
    with pytest.raises(IntegrityError, match="r0/0 has 5 tokens, the pool holds 4"):
        engine.run_dry()


# ----------------------------------------------------------------------------------------------------- static


def test_static_admits_only_into_an_empty_batch_and_pads_until_all_have_finished():
    engine = SimulatedEngine(64, policy="static", max_lanes=2)
    short, long = engine.submit(prompt(5), 2), engine.submit(prompt(7, 1), 6)
    late = engine.submit(prompt(3, 2), 2)
    step_until(engine, lambda: short.status is Status.PADDING)
    pages = engine.pool.totals().used
    while True:
        plan = engine.step()
        if long.status is Status.FINISHED:
            break
        pad = work_of(plan, short)
        assert (pad.phase, pad.start, pad.count, pad.samples) == ("padding", 5, 1, False)
        assert pad.token_ids == (short.tokens[5],)
        assert reason_of(plan, late) == "the static batch must end first"
        assert engine.pool.totals().used >= pages
    assert short.status is Status.FINISHED
    assert engine.pool.totals().used == 0
    assert [work.sequence for work in engine.step().work] == [late]
    engine.run_dry()
    engine.check_replies()


def test_switching_to_continuous_drops_padding_at_the_next_iteration():
    engine = SimulatedEngine(64, policy="static", max_lanes=2)
    short, long = engine.submit(prompt(5), 2), engine.submit(prompt(7, 1), 20)
    late = engine.submit(prompt(3, 2), 2)
    step_until(engine, lambda: short.status is Status.PADDING)
    engine.scheduler.policy = "continuous"
    plan = engine.step()
    assert short.status is Status.FINISHED
    assert {work.sequence for work in plan.work} == {long, late}


def test_padding_gives_way_when_a_decode_needs_a_page():
    engine = SimulatedEngine(4, 4, policy="static")
    short, long = engine.submit(prompt(6), 1), engine.submit(prompt(7, 1), 9)
    step_until(engine, lambda: long.status is Status.FINISHED)
    assert long.preemptions == 0
    assert long.generated == reply(prompt(7, 1), 9)
    assert short.status is Status.FINISHED


def test_an_abort_in_a_static_batch_leaves_no_padding():
    engine = SimulatedEngine(64, policy="static")
    a, b = engine.submit(prompt(5), 20), engine.submit(prompt(7, 1), 20)
    engine.step()
    engine.scheduler.abort(a)
    assert [work.sequence for work in engine.step().work] == [b]
    step_until(engine, lambda: len(b) == 12)
    engine.scheduler.finish(b)
    assert engine.pool.totals().used == 0


# -------------------------------------------------------------------------------------------- without KV reuse


def test_without_kv_reuse_the_whole_prefix_is_computed_for_every_token():
    engine = SimulatedEngine(64, kv_reuse=False)
    sequence = engine.submit(prompt(20), 4)
    engine.run_dry()
    works = [work for plan in engine.plans for work in plan.work]
    assert [(w.phase, w.start, w.count, w.reuse_needs) for w in works] == [
        ("recompute", 0, 20, 20),
        ("recompute", 0, 21, 1),
        ("recompute", 0, 22, 1),
        ("recompute", 0, 23, 1),
    ]
    assert sequence.generated == reply(prompt(20), 4)


def test_without_kv_reuse_lanes_take_turns_when_the_budget_is_too_small():
    engine = SimulatedEngine(64, kv_reuse=False, token_budget=30)
    sequences = [engine.submit(prompt(20, seed), 6) for seed in range(3)]
    for _ in range(9):
        assert len(engine.step().work) == 1
    assert [len(s.generated) for s in sequences] == [3, 3, 3]
    engine.run_dry()
    engine.check_replies()


def test_a_prompt_longer_than_the_budget_runs_alone_without_kv_reuse():
    engine = SimulatedEngine(64, kv_reuse=False, token_budget=30)
    long, short = engine.submit(prompt(100), 2), engine.submit([1], 2)
    assert [work.count for work in engine.step().work] == [100]
    assert work_of(engine.step(), short).admitted
    assert [work.count for work in engine.step().work] == [101]
    engine.run_dry()
    assert long.generated == reply(prompt(100), 2)


def test_kv_reuse_switched_back_on_goes_on_from_what_was_computed():
    engine = SimulatedEngine(64)
    sequence = engine.submit(prompt(20), 12)
    for on in (True, True, False, False, True, True):
        engine.scheduler.kv_reuse = on
        engine.step()
    assert [engine.plans[i].work[0].count for i in range(6)] == [20, 1, 22, 23, 1, 1]
    engine.run_dry()
    assert sequence.generated == reply(prompt(20), 12)


def test_kv_reuse_switched_on_in_the_middle_of_a_prompt_keeps_the_chunks():
    engine = SimulatedEngine(64, token_budget=8)
    sequence = engine.submit(prompt(20), 3)
    engine.step()
    engine.scheduler.kv_reuse = False
    work = work_of(engine.step(), sequence)
    assert (work.start, work.count, work.reuse_needs, work.samples) == (0, 20, 12, True)
    engine.run_dry()
    assert sequence.generated == reply(prompt(20), 3)


# ------------------------------------------------------------------------------------------------------ cache


def test_without_prefix_cache_nothing_is_matched_or_made_matchable():
    engine = SimulatedEngine(64, prefix_cache=False)
    engine.submit(prompt(40), 3)
    engine.run_dry()
    assert len(engine.pool.index) == 0
    engine.scheduler.prefix_cache = True
    second = engine.submit(prompt(40), 3)
    engine.run_dry()
    third = engine.submit(prompt(40), 3)
    engine.run_dry()
    assert (second.cached, third.cached) == (0, 32)
    engine.check_replies()


def test_cached_counts_only_the_first_admission():
    engine = SimulatedEngine(64)
    engine.submit(prompt(40), 3)
    engine.run_dry()
    sequence = engine.submit(prompt(40), 20)
    step_until(engine, lambda: len(sequence) == 52)
    engine.scheduler.preempt(sequence)
    work = work_of(engine.step(), sequence)
    assert work.spared == 48
    assert sequence.cached == 32


def test_matched_pages_are_not_evicted_by_the_allocation_that_follows():
    engine = SimulatedEngine(4, 4)
    engine.submit(prompt(9), 4)
    engine.run_dry()
    assert engine.pool.totals() == PoolTotals(4, 0, 0, 3, 1)
    sequence = engine.submit(prompt(13), 2)
    assert work_of(engine.step(), sequence).start == 8
    engine.run_dry()
    engine.check_replies()


# ------------------------------------------------------------------------------------------------------ forks


@pytest.mark.parametrize("length", [31, 32, 33, 1])
def test_parallel_samples_share_the_prompts_pages_and_compute_one_token(length: int):
    engine = SimulatedEngine(64)
    source = engine.submit(prompt(length), 10)
    engine.step()
    table = list(source.block_table)
    forks = [engine.fork(source, 0, 10) for _ in range(3)]
    plan = engine.step()
    for fork in forks:
        work = work_of(plan, fork)
        assert (work.start, work.count, work.samples, work.admitted) == (length - 1, 1, True, True)
        full = (length - 1) // 16
        assert fork.block_table[:full] == table[:full]
        assert not set(fork.block_table[full:]) & set(table)
    partial = (length - 1) % 16
    assert [copy.fill for copy in plan.copies] == [partial] * 3 * bool(partial)
    engine.run_dry()
    assert all(fork.generated == source.generated for fork in forks)


def test_a_fork_goes_on_from_a_forced_token():
    engine = SimulatedEngine(64)
    source = engine.submit(prompt(20), 30)
    step_until(engine, lambda: len(source.generated) == 15)
    fork = engine.fork(source, 5, 8, forced=6)
    assert fork.tokens == [*source.tokens[:25], 6]
    assert fork.prompt_length == 20
    work = work_of(engine.step(), fork)
    assert (work.phase, work.start, work.count) == ("decode", 25, 1)
    engine.run_dry()
    assert fork.generated[6:] == reply([*source.tokens[:25], 6], 8)
    assert source.generated == reply(prompt(20), 30)


@pytest.mark.parametrize("prefix_cache", [True, False])
def test_a_finished_reply_is_forked_from_its_remaining_pages(prefix_cache: bool):
    engine = SimulatedEngine(64, prefix_cache=prefix_cache)
    source = engine.submit(prompt(20), 20)
    engine.run_dry()
    assert source.status is Status.FINISHED
    forks = [engine.fork(source, 18, 5), engine.fork(source, 3, 5, forced=2)]
    plan = engine.step()
    assert [work_of(plan, fork).count for fork in forks] == [1, 1]
    assert sorted((copy.target, copy.fill) for copy in plan.copies) == sorted(
        [(forks[0].block_table[2], 5), (forks[1].block_table[1], 7)]
    )
    engine.run_dry()
    engine.check_replies()


def test_a_fork_of_a_finished_reply_computes_again_what_has_been_reused():
    engine = SimulatedEngine(4, 4)
    source = engine.submit(prompt(6), 8)
    engine.run_dry()
    engine.submit(prompt(9, 3), 6)
    engine.run_dry()
    fork = engine.fork(source, 4, 5)
    assert not fork.block_table
    engine.run_dry()
    assert fork.generated == source.generated[:4] + reply(source.tokens[:10], 5)


def test_a_fork_finds_what_its_source_has_lost_in_the_prefix_index():
    engine = SimulatedEngine(4, 4)
    first, second = engine.submit(prompt(5), 2), engine.submit(prompt(5), 2)
    engine.step()
    engine.step()
    assert first.block_table == []
    engine.submit([1], 5)
    engine.run_dry()  # the duplicates of `second` have no hash; one of them is reused
    fork = engine.fork(second, 1, 2)
    work = work_of(engine.step(), fork)
    assert work.start >= 4
    engine.run_dry()
    engine.check_replies()


def test_a_fork_without_kv_reuse_or_of_a_waiting_source_shares_nothing():
    engine = SimulatedEngine(64, max_lanes=1)
    running, waiting = engine.submit(prompt(20), 5), engine.submit(prompt(20, 1), 5)
    engine.step()
    assert not engine.fork(waiting, 0, 3).block_table
    engine.scheduler.kv_reuse = False
    assert not engine.fork(running, 0, 3).block_table
    engine.run_dry()
    engine.check_replies()


def test_a_fork_keeps_shared_pages_alive_when_its_source_goes():
    engine = SimulatedEngine(64)
    source = engine.submit(prompt(40), 10)
    step_until(engine, lambda: len(source.generated) == 4)
    fork = engine.fork(source, 2, 10)
    shared = fork.block_table[:2]
    engine.scheduler.abort(source)
    assert all(engine.pool.detail(page).owners == (fork.key,) for page in shared)
    assert work_of(engine.step(), fork).count == 1
    engine.run_dry()
    engine.check_replies()


def test_an_aborted_fork_gives_back_its_pages_and_its_copy():
    engine = SimulatedEngine(64)
    source = engine.submit(prompt(20), 10)
    engine.step()
    before = engine.pool.totals()
    fork = engine.fork(source, 0, 10)
    assert engine.pool.totals().used == before.used + 1
    engine.scheduler.abort(fork)
    assert engine.pool.totals() == before
    assert engine.step().copies == ()


def test_without_a_page_for_the_copy_only_full_pages_are_shared():
    engine = SimulatedEngine(3, 4)
    source = engine.submit(prompt(11), 1)
    engine.step(between=lambda: None)
    other = engine.submit([1], 3)
    running = engine.submit(prompt(6, 2), 3)
    engine.step()
    assert engine.pool.available == 0
    fork = engine.fork(running, 0, 2)
    assert (fork.block_table, fork.computed) == (running.block_table[:1], 4)
    engine.run_dry()
    engine.check_replies()
    assert source.status is other.status is Status.FINISHED


def test_waiting_forks_give_up_their_pages_before_anyone_starves():
    engine = SimulatedEngine(6, 4, max_lanes=2)
    source = engine.submit(prompt(12), 8)
    step_until(engine, lambda: source.status is Status.FINISHED)
    engine.submit(prompt(20, 1), 3)
    forks = [engine.fork(source, at, 4) for at in (3, 5, 7)]
    engine.run_dry()
    assert all(len(fork) == fork.max_length for fork in forks)
    engine.check_replies()


@pytest.mark.parametrize("at", [-1, 6])
def test_a_fork_outside_the_reply_is_refused(at: int):
    engine = SimulatedEngine(64)
    source = engine.submit(prompt(20), 5)
    engine.run_dry()
    with pytest.raises(SettingError, match=f"at must be from 0 to 5, the tokens generated so far, not {at}"):
        engine.fork(source, at, 5)


# ---------------------------------------------------------------------------------------------- small promises


def test_an_idle_scheduler_has_nothing_to_plan():
    scheduler = Scheduler(PagePool(4, 4))
    assert scheduler.schedule() is None
    scheduler.check()


def test_endings_may_come_twice_and_at_any_time():
    engine = SimulatedEngine(8, max_lanes=1)
    a, b = engine.submit(prompt(5), 5), engine.submit(prompt(6), 5)
    engine.step()
    for end in (engine.scheduler.abort, engine.scheduler.finish):
        for sequence in (a, b, b, a):
            end(sequence)
    assert engine.step() is None
    assert engine.pool.totals().used == 0


def test_only_what_runs_can_be_preempted():
    engine = SimulatedEngine(8)
    sequence = engine.submit(prompt(5), 5)
    with pytest.raises(IntegrityError, match="waiting and can't be preempted"):
        engine.scheduler.preempt(sequence)


def test_a_lane_that_got_no_token_appended_is_left_alone():
    engine = SimulatedEngine(8)
    engine.submit(prompt(5), 5)
    plan = engine.scheduler.schedule()
    assert plan is not None
    engine.run(plan)
    engine.scheduler.commit(plan)
    assert engine.scheduler.schedule() is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda s: setattr(s.running[0], "lane", 5),
        lambda s: setattr(s.running[0], "status", Status.WAITING),
        lambda s: setattr(s.waiting[0], "lane", 0),
        lambda s: setattr(s.running[0], "computed", 17),
        lambda s: s.running[0].tokens.__setitem__(1, 99),
        lambda s: s.running[0].block_table.pop(),
        lambda s: s.running[0].block_table.reverse(),
        lambda s: setattr(s._lanes, "occupied", 0),
        lambda s: s.pool.take(s.running[0].block_table[-1], "x/0"),
        lambda s: s._copies.clear(),
        lambda s: s._admission.remove(s.waiting[-1]),
    ],
)
def test_check_finds_every_kind_of_damage(damage):
    engine = SimulatedEngine(16, max_lanes=1)
    source = engine.submit(prompt(20), 5)
    engine.submit(prompt(20), 5)
    engine.step()
    engine.fork(source, 1, 5)
    engine.check()
    damage(engine.scheduler)
    with pytest.raises(IntegrityError):
        engine.scheduler.check()


def test_planning_a_step_of_16_decodes_takes_well_under_a_third_of_a_millisecond():
    scheduler = Scheduler(PagePool(100_000, 16))
    for number in range(200):
        scheduler.add(Sequence(f"r{number}", 0, prompt(30, number), 30, 1000))
    fastest = 1.0
    for _ in range(150):
        began = time.perf_counter()
        plan = scheduler.schedule()
        assert plan is not None
        scheduler.commit(plan)
        took = time.perf_counter() - began
        if all(work.phase == "decode" for work in plan.work):
            assert len(plan.work) == 16
            fastest = min(fastest, took)
        for work in plan.work:
            work.sequence.tokens.append(next_token(contents(work.sequence.tokens)[-1]))
    assert fastest < 0.3e-3
