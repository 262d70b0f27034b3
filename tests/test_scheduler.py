"""The scheduler over a simulated memory: budget, lanes, waiting, overtaking, preemption, speed."""

from __future__ import annotations

import pytest
from cutaway.engine.pages import IntegrityError, PagePool
from cutaway.engine.plan import PageCopy, StepPlan
from cutaway.engine.scheduler import Scheduler
from cutaway.engine.sequence import Sequence, Status

from .counting import calls
from .simulated_engine import SimulatedEngine, contents, next_token, prompt, reason_of, reply, step_until, work_of

# --------------------------------------------------------------------------------------------------------------- budget


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


def test_a_prompt_still_moves_when_the_budget_falls_below_the_decodes():
    engine = SimulatedEngine(64, token_budget=40)
    decoding = [engine.submit([seed, 1], 9) for seed in range(3)]
    engine.step()
    late = engine.submit(prompt(60), 2)
    engine.step()
    engine.scheduler.token_budget = 2
    plan = engine.step()
    assert {work.sequence for work in plan.work} == {*decoding, late}
    assert work_of(plan, late).count == 1
    engine.run_dry()
    engine.check_replies()


def test_what_can_not_be_divided_goes_to_the_oldest():
    engine = SimulatedEngine(64, token_budget=21, max_lanes=2)
    first, older = engine.submit([1], 1), engine.submit(prompt(90), 2)
    engine.step()
    younger = engine.submit(prompt(90, 1), 2)
    plan = engine.step()
    assert first.status is Status.FINISHED
    assert (younger.lane, older.lane) == (0, 1)
    assert (work_of(plan, younger).count, work_of(plan, older).count) == (10, 11)


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


# ------------------------------------------------------------------------------------------------- waits and overtaking


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
    engine.scheduler.preempt(big)
    assert big.overtaken == 0
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


# ------------------------------------------------------------------------------------------------------- small promises


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
        lambda s: s._copies.update({Sequence("gone", 0, [1], 1, 2): PageCopy(0, 1, 1)}),
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


def test_planning_a_step_of_16_decodes_stays_cheap_however_long_the_replies_and_the_queue_are():
    scheduler = Scheduler(PagePool(100_000, 16))
    for number in range(200):
        scheduler.add(Sequence(f"r{number}", 0, prompt(30, number), 30, 1000))
    cost = []
    for _ in range(150):
        planned: list[StepPlan] = []

        def plan_one(planned: list[StepPlan] = planned) -> None:
            plan = scheduler.schedule()
            assert plan is not None
            scheduler.commit(plan)
            planned.append(plan)

        counted = calls(plan_one)
        [plan] = planned
        if all(work.phase == "decode" for work in plan.work):
            assert len(plan.work) == 16
            cost.append(counted)
        for work in plan.work:
            work.sequence.tokens.append(next_token(contents(work.sequence.tokens)[-1]))
    assert max(cost) < 800, cost  # 0.1 ms on a machine of 2024
