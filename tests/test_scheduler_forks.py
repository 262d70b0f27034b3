"""Forks: full pages shared, the partial one copied, whatever has become of the source."""

from __future__ import annotations

import pytest
from cutaway.engine.errors import SettingError
from cutaway.engine.sequence import Status

from .simulated_engine import SimulatedEngine, prompt, reply, step_until, work_of


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


def test_a_fork_in_the_middle_of_its_sources_prompt_shares_what_has_been_computed():
    engine = SimulatedEngine(64, token_budget=20)
    source = engine.submit(prompt(50), 4)
    engine.step()
    fork = engine.fork(source, 0, 4)
    assert fork.computed == 20
    assert fork.block_table[:1] == source.block_table[:1]
    assert len(fork.block_table) == 2
    engine.run_dry()
    assert fork.generated == source.generated


def test_a_fork_of_a_fork_that_waits_shares_nothing():
    engine = SimulatedEngine(64, max_lanes=1)
    source = engine.submit(prompt(40), 9)
    step_until(engine, lambda: len(source) == 43)
    first = engine.fork(source, 2, 5)
    assert first.block_table
    second = engine.fork(first, 2, 5)
    assert not second.block_table
    engine.run_dry()
    engine.check_replies()


def test_a_fork_within_a_page_does_not_inherit_the_pages_name():
    engine = SimulatedEngine(64, 4)
    source = engine.submit(prompt(4), 20)
    step_until(engine, lambda: len(source) == 18)
    fork = engine.fork(source, 2, 10, forced=(source.tokens[6] + 1) % 5)
    assert len(source.chain) == 4
    assert fork.chain == source.chain[:1]
    engine.run_dry()
    assert engine.pool.match(fork.tokens)[1] != engine.pool.match(source.tokens)[1]
    engine.check_replies()


def test_a_padding_lane_can_be_forked_like_a_running_one():
    engine = SimulatedEngine(64, policy="static")
    short, long = engine.submit(prompt(20), 4), engine.submit(prompt(20, 1), 9)
    step_until(engine, lambda: short.status is Status.PADDING)
    fork = engine.fork(short, 2, 5)
    assert (fork.block_table[0], fork.computed) == (short.block_table[0], 21)
    step_until(engine, lambda: long.status is Status.FINISHED)
    assert fork.status is Status.WAITING
    assert [work.count for work in engine.step().work] == [1]
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
    assert fork.computed == 19
    engine.scheduler.abort(fork)
    assert fork.computed == 16
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


def test_a_decode_takes_a_waiting_forks_own_pages_before_another_runs_into_preemption():
    engine = SimulatedEngine(8, 4, max_lanes=2)
    source = engine.submit(prompt(10), 2)
    engine.run_dry()
    a, b = engine.submit(prompt(5, 1), 11), engine.submit(prompt(5, 2), 11)
    engine.step()
    forks = [engine.fork(source, at, 3) for at in (0, 1)]
    assert all(fork.block_table for fork in forks)
    engine.run_dry()
    assert (a.preemptions, b.preemptions) == (0, 0)
    assert all(len(fork) == fork.max_length for fork in forks)
    engine.check_replies()


def test_a_fork_that_ends_before_its_first_work_pads_only_once():
    engine = SimulatedEngine(64, policy="static")
    source = engine.submit(prompt(40), 5)
    engine.run_dry()
    long, fork = engine.submit(prompt(50, 1), 9), engine.fork(source, 3, 9)
    engine.scheduler.kv_reuse = False
    engine.scheduler.token_budget = 60
    assert [work.sequence for work in engine.step().work] == [long]
    assert fork.status is Status.RUNNING
    engine.scheduler.finish(fork)
    engine.scheduler.token_budget = 200
    assert [(work.sequence, work.phase) for work in engine.step().work] == [(fork, "padding"), (long, "recompute")]
    engine.run_dry()


@pytest.mark.parametrize("at", [-1, 6])
def test_a_fork_outside_the_reply_is_refused(at: int):
    engine = SimulatedEngine(64)
    source = engine.submit(prompt(20), 5)
    engine.run_dry()
    with pytest.raises(SettingError, match=f"at must be from 0 to 5, the tokens generated so far, not {at}"):
        engine.fork(source, at, 5)
