"""The thread environment and the calibration."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cutaway.engine import threads
from cutaway.engine.threads import calibrate, prepare_environment, usable_cores


def test_environment_is_set_where_the_user_said_nothing() -> None:
    environment: dict[str, str] = {}
    prepare_environment(environment, threads=3)
    assert environment["OMP_NUM_THREADS"] == environment["MKL_NUM_THREADS"] == "3"
    assert int(environment["GOMP_SPINCOUNT"]) > 0


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"])
def test_what_the_user_set_stays(name: str) -> None:
    environment = {name: "7"}
    prepare_environment(environment, threads=3)
    assert environment[name] == "7"


def test_a_wait_policy_of_the_users_is_not_overruled() -> None:
    environment = {"OMP_WAIT_POLICY": "PASSIVE"}
    prepare_environment(environment, threads=3)
    assert "GOMP_SPINCOUNT" not in environment


def test_preparing_imports_no_torch() -> None:
    code = "import sys, cutaway.engine.threads as t; t.prepare_environment({}); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def machine(folder: Path, siblings: dict[int, str], quota: str = "max 100000") -> Path:
    for cpu, text in siblings.items():
        topology = folder / f"devices/system/cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(text + "\n")
    (folder / "fs/cgroup").mkdir(parents=True)
    (folder / "fs/cgroup/cpu.max").write_text(quota + "\n")
    return folder


@pytest.mark.parametrize(
    ("siblings", "quota", "cores"),
    [
        ({0: "0", 1: "1"}, "max 100000", 2),
        ({0: "0-1", 1: "0-1"}, "max 100000", 1),
        ({0: "0,4", 1: "1,5", 4: "0,4", 5: "1,5"}, "max 100000", 2),
        ({0: "0", 1: "1", 2: "2", 3: "3"}, "250000 100000", 2),
        ({0: "0", 1: "1"}, "50000 100000", 1),
        ({0: "0", 1: "1"}, "nonsense", 2),
    ],
)
@pytest.mark.skipif(not hasattr(threads.os, "sched_getaffinity"), reason="affinity is Linux's")
def test_cores_are_counted_once_and_within_the_quota(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, siblings: dict[int, str], quota: str, cores: int
) -> None:
    monkeypatch.setattr(threads.os, "sched_getaffinity", lambda _: set(siblings))
    assert usable_cores(machine(tmp_path, siblings, quota)) == cores


class Clock:
    """Time that passes only when a step says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cost: dict[int, list[float]]) -> None:
        self.now, self.cost, self.calls = 0.0, cost, dict.fromkeys(cost, 0)
        monkeypatch.setattr(threads.time, "perf_counter", lambda: self.now)

    def step(self, count: int) -> None:
        costs = self.cost[count]
        self.now += costs[self.calls[count] % len(costs)]
        self.calls[count] += 1


def test_calibration_takes_the_fastest_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, {1: [0.010], 2: [0.006], 4: [0.004], 6: [0.005]})
    found = calibrate(clock.step, 6)
    assert found.threads == 4
    assert found.milliseconds == pytest.approx({1: 10, 2: 6, 4: 4, 6: 5})
    assert clock.now < 0.3


def test_calibration_keeps_one_thread_where_a_second_hardly_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    assert calibrate(Clock(monkeypatch, {1: [0.0100], 2: [0.0099]}).step, 2).threads == 1


def test_a_second_thread_that_often_stalls_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, {1: [0.010], 2: [0.006, 0.030, 0.045]})
    assert calibrate(clock.step, 2).threads == 1


def test_slow_steps_are_tried_three_times_each(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, {1: [5.0], 2: [3.0]})
    assert calibrate(clock.step, 2).threads == 2
    assert clock.calls == {1: 4, 2: 4}


def run(watch: threads.ThreadWatch, steps: int, cost: dict[int, float], work: int = 1) -> list[int]:
    """Feed a watch steps that take what `cost` says; returns the numbers of threads it asked for."""
    asked = []
    for _ in range(steps):
        asked.append(watch.count(work))
        watch.took(cost[asked[-1]])
    return asked


def test_a_watch_corrects_a_bad_choice_within_its_first_try() -> None:
    watch = threads.ThreadWatch(1, 2)
    run(watch, watch.SOONEST + watch.TRIES, {1: 0.010, 2: 0.004})
    assert watch.chosen == 2


def test_a_watch_keeps_a_good_choice_and_tries_ever_less_often() -> None:
    watch = threads.ThreadWatch(2, 1)
    asked = run(watch, 5000, {1: 0.010, 2: 0.004})
    assert watch.chosen == 2
    assert asked[-2000:].count(1) <= 2000 * 0.005


def test_a_watch_does_not_go_on_with_what_is_much_slower_but_lets_threads_wake() -> None:
    fewer, more = threads.ThreadWatch(2, 1), threads.ThreadWatch(1, 2)
    cost = {1: 0.010, 2: 0.004}
    assert run(fewer, 3 * fewer.SOONEST, cost).count(1) == 1
    assert run(more, more.SOONEST, cost) == [1] * more.SOONEST
    assert run(more, 1, {2: 0.100}) == [2]  # it had to wake one
    assert run(more, more.TRIES - 1, cost) == [2] * (more.TRIES - 1)
    assert more.chosen == 2


def test_a_watch_follows_a_machine_that_gets_busy_and_quiet_again() -> None:
    watch = threads.ThreadWatch(2, 1)
    run(watch, 2000, {1: 0.010, 2: 0.004})
    run(watch, 400, {1: 0.010, 2: 0.100})
    assert watch.chosen == 1
    run(watch, 400, {1: 0.010, 2: 0.004})
    assert watch.chosen == 2


def test_a_watch_that_has_become_calm_sees_at_once_that_a_core_was_taken() -> None:
    watch = threads.ThreadWatch(2, 1)
    run(watch, 5000, {1: 0.010, 2: 0.004})
    run(watch, 2 * watch.SOONEST + watch.TRIES, {1: 0.010, 2: 0.020})
    assert watch.chosen == 1


def test_prompts_read_between_short_replies_do_not_keep_a_watch_from_trying() -> None:
    watch = threads.ThreadWatch(2, 1)
    run(watch, 5000, {1: 0.010, 2: 0.004})
    for _ in range(20):
        run(watch, 1, {1: 0.100, 2: 0.200}, work=64)
        run(watch, 20, {1: 0.010, 2: 0.020})
    assert watch.chosen == 1


def test_a_watch_compares_only_steps_of_equal_work() -> None:
    watch = threads.ThreadWatch(2, 1)
    for work in range(200):
        assert run(watch, watch.SOONEST, {1: 0.001, 2: 0.004}, work) == [2] * watch.SOONEST
    assert watch.chosen == 2
