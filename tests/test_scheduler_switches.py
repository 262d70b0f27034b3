"""What each switch of the scheduler promises, also when it is flipped while sequences run."""

from __future__ import annotations

import pytest
from cutaway.engine.protocol import PoolTotals
from cutaway.engine.sequence import Status

from .simulated_engine import SimulatedEngine, prompt, reason_of, reply, step_until, work_of

# --------------------------------------------------------------------------------------------------------------- static


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


def test_what_ends_before_anything_was_computed_does_not_pad():
    engine = SimulatedEngine(64, policy="static")
    a, b = engine.submit(prompt(5), 5), engine.submit(prompt(7, 1), 5)
    engine.step(between=lambda: engine.scheduler.finish(a))
    assert a.status is Status.FINISHED
    assert [work.sequence for work in engine.step().work] == [b]


@pytest.mark.parametrize("kv_reuse", [True, False])
def test_padding_alone_is_not_worth_an_iteration(kv_reuse: bool):
    engine = SimulatedEngine(64, policy="static", kv_reuse=kv_reuse)
    short, _ = engine.submit(prompt(5), 1), engine.submit(prompt(7, 1), 5)
    plan = engine.scheduler.schedule()
    assert plan is not None
    engine.run(plan)
    engine.scheduler.commit(plan)
    engine.scheduler.finish(short)
    assert short.status is Status.PADDING
    assert engine.scheduler.schedule() is None  # the other one has no token to go on with


def test_padding_never_asks_for_logits_even_if_every_token_was_computed():
    engine = SimulatedEngine(64, policy="static")
    short, long = engine.submit(prompt(5), 4), engine.submit(prompt(7, 1), 9)
    plan = engine.scheduler.schedule()
    assert plan is not None
    drawn = engine.run(plan)
    engine.scheduler.commit(plan)
    engine.scheduler.finish(short)  # before what was drawn for it is appended
    long.tokens.append(next(token for work, token in drawn if work.sequence is long))
    pad = work_of(engine.step(), short)
    assert (pad.end, len(short), pad.samples) == (5, 5, False)


def test_an_abort_in_a_static_batch_leaves_no_padding():
    engine = SimulatedEngine(64, policy="static")
    a, b = engine.submit(prompt(5), 20), engine.submit(prompt(7, 1), 20)
    engine.step()
    engine.scheduler.abort(a)
    assert [work.sequence for work in engine.step().work] == [b]
    step_until(engine, lambda: len(b) == 12)
    engine.scheduler.finish(b)
    assert engine.pool.totals().used == 0


# ----------------------------------------------------------------------------------------------------- without KV reuse


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


# ---------------------------------------------------------------------------------------------------------------- cache


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


def test_without_kv_reuse_the_prefix_cache_spares_nothing():
    engine = SimulatedEngine(64)
    engine.submit(prompt(40), 3)
    engine.run_dry()
    engine.scheduler.kv_reuse = False
    sequence = engine.submit(prompt(40), 3)
    work = work_of(engine.step(), sequence)
    assert (work.start, work.spared, work.reuse_needs, sequence.cached) == (0, 0, 40, 0)


def test_the_end_of_a_finished_sequence_is_evicted_before_its_beginning():
    engine = SimulatedEngine(4, 4)
    first = engine.submit(prompt(12), 2)
    engine.run_dry()
    engine.submit([1], 6)  # takes the free page and evicts one
    engine.run_dry()
    assert len(engine.pool.match(first.tokens)) == 2


def test_matched_pages_are_not_evicted_by_the_allocation_that_follows():
    engine = SimulatedEngine(4, 4)
    engine.submit(prompt(9), 4)
    engine.run_dry()
    assert engine.pool.totals() == PoolTotals(4, 0, 0, 3, 1)
    sequence = engine.submit(prompt(13), 2)
    assert work_of(engine.step(), sequence).start == 8
    engine.run_dry()
    engine.check_replies()
