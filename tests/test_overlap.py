"""The next step launched while this one runs: the replies of one step after the other, and a screen that is true."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from cutaway.engine import endings
from cutaway.engine.plan import StepPlan
from cutaway.engine.protocol import (
    Abort,
    ClearCache,
    Configure,
    Finished,
    Fork,
    Inspect,
    Pause,
    Resume,
    SamplingSettings,
    Step,
    StepOnce,
    Submit,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from . import late_device, tiny_folder
from .engine_driver import Driver

POOLS = [{"pages": 18, "page_size": 4}, {"pages": 80, "page_size": 4}, {"pages": 60, "page_size": 1}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder.make(tmp_path_factory.mktemp("model") / "tiny", num_hidden_layers=1)


def random_settings(draw: random.Random) -> SamplingSettings:
    return SamplingSettings(
        temperature=draw.choice([0.0, 0.7, 1.5]),
        top_k=draw.choice([0, 0, 5]),
        top_p=draw.choice([1.0, 0.9]),
        min_p=draw.choice([0.0, 0.05]),
        repetition_penalty=draw.choice([1.0, 1.0, 1.2]),
        frequency_penalty=draw.choice([0.0, 0.0, 0.5]),
        logit_bias=draw.choice([{}, {}, {7: 5.0}]),
        min_tokens=draw.choice([0, 0, 3]),
        seed=draw.randrange(1000),
        max_tokens=draw.randint(1, 16),
        stop=draw.choice([(), (), ("e", "th")]),
        ignore_eos=draw.random() < 0.5,
        candidates=draw.choice([0, 4]),
    )


def random_request(draw: random.Random, number: int) -> Submit:
    shared = [(7 * at) % 300 + 3 for at in range(draw.randrange(20))]
    prompt = shared + [draw.randrange(3, 400) for _ in range(draw.randint(1, 12))]
    return Submit(
        f"r{number}", token_ids=tuple(prompt), settings=random_settings(draw), samples=draw.choice([1, 1, 1, 2])
    )


def what_was_said(driver: Driver, end: Finished) -> tuple[Any, ...]:
    """Of one sample: why it ended, its tokens with how each was drawn, and its text."""
    drawn = driver.sampled(end.request, end.sample)
    how = [(s.index, s.position, s.id, s.prob, s.draw, s.logprob, s.rank, s.candidates) for s in drawn]
    return end.reason, end.detail, end.token_ids, how, driver.text(end.request, sample=end.sample)


def check_truth(driver: Driver, runner: late_device.PlainRunner) -> None:
    """What the steps tell of positions is what the device computed; iterations are told once and in order."""
    steps = list(driver.steps())
    runner.stream.wait()
    assert sum(step.computed for step in steps) == runner.memory.computed
    assert [step.iteration for step in steps] == list(range(1, len(steps) + 1))
    for step in steps:
        assert step.padding == sum(lane.count for lane in step.lanes if lane.phase == "padding")
        assert min(step.schedule_ns, step.run_ns, step.sample_ns, step.finish_ns) >= 0
        assert not (step.ahead and step.not_ahead)
    ended: set[tuple[str, int]] = set()
    for event in driver.events:
        if isinstance(event, Step):
            useful = {(lane.request, lane.sample) for lane in event.lanes if lane.phase != "padding"}
            assert not useful & ended, "a lane works for a reply that was told to have ended"
            assert {(s.request, s.sample) for s in event.sampled} <= useful
        elif isinstance(event, Finished):
            assert (event.request, event.sample) not in ended
            ended.add((event.request, event.sample))


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    pool=st.sampled_from(POOLS),
    lanes=st.integers(1, 6),
    budget=st.integers(1, 30),
    eager=st.booleans(),
    wrong=st.sampled_from([0.0, 0.0, 0.2, 1.0]),
    inspect=st.booleans(),
)
def test_random_traffic_says_the_same_as_one_step_after_the_other(
    folder: Path, seed: int, pool: dict[str, int], lanes: int, budget: int, eager: bool, wrong: float, inspect: bool
) -> None:
    draw = random.Random(seed)
    card = {**pool, "max_lanes": lanes, "token_budget": budget}
    driver, runner = late_device.start(folder, ahead=True, eager=eager, wrong=wrong, **card)
    reference, _ = late_device.start(folder, ahead=False, **card)
    both: list[Submit | Fork] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(endings, "REMEMBERED", 10_000)
        driver.send(Configure(inspect=inspect))
        reference.send(Configure(inspect=inspect))
        for _ in range(draw.randint(20, 150)):
            chance = draw.random()
            if chance < 0.35:
                both.append(random_request(draw, len(both)))
                driver.send(both[-1])
            elif chance < 0.40 and both:
                driver.send(Abort(draw.choice(both).request))
            elif chance < 0.44 and both:
                both += a_fork(draw, driver, len(both))
            elif chance < 0.48:
                driver.send(Pause(), StepOnce(draw.randint(0, 2)))
                driver.run()
                driver.send(Resume())
            elif chance < 0.51:
                driver.send(Configure(policy=draw.choice(["continuous", "static"]), kv_reuse=draw.random() < 0.8))
            elif chance < 0.54:
                driver.send(draw.choice([ClearCache(), Inspect(), Configure(prefix_cache=draw.random() < 0.5)]))
            else:
                driver.core.step()
            driver.core.scheduler.check()
        driver.run()
        for command in both:
            reference.send(command)
            reference.run()
    driver.core.idle_check()
    assert driver.core.scheduler.pool.totals().used == 0
    assert not driver.core.has_work
    check_truth(driver, runner)
    for end in driver.of(Finished):
        ours, wanted = what_was_said(driver, end), what_was_said(reference, reference.finished(end.request, end.sample))
        if end.reason == "aborted":
            assert end.token_ids == wanted[2][: len(end.token_ids)]
        else:
            assert ours == wanted


def a_fork(draw: random.Random, driver: Driver, number: int) -> list[Fork]:
    """A fork of a reply that is there, sent; none where there is none."""
    known = [*driver.core.requests.values(), *driver.core.finished.values()]
    if not known:
        return []
    source = draw.choice(known)
    driver.send(Inspect())
    forced = draw.choice([None, draw.randrange(3, 400)])
    at = draw.randint(0, len(source.samples[0].generated))
    fork = Fork(f"r{number}", source.name, at=at, forced=forced, settings=random_settings(draw))
    driver.send(fork)
    return [fork]


def of_one_request(folder: Path, **options: Any) -> list[Step]:
    driver, runner = late_device.start(folder, ahead=True, **options)
    driver.submit("a", [5, 6, 7])
    driver.run()
    check_truth(driver, runner)
    assert driver.finished("a").generated_tokens == 16
    return list(driver.steps())


def test_every_step_of_a_lone_reply_but_the_first_is_launched_ahead(folder: Path) -> None:
    steps = of_one_request(folder)
    assert [step.ahead for step in steps] == [False, *[True] * 15]
    assert sum(step.padding for step in steps) == 0  # that max_tokens ends it is known before


@pytest.mark.parametrize("ahead", [False, True])
def test_the_wait_for_the_device_counts_as_running_once(
    folder: Path, ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, runner = late_device.start(folder, ahead=ahead)
    if not ahead:
        runner.stream.eager = False
    now, work = [0], 1_000_000

    def clock() -> int:
        now[0] += 1
        return now[0]

    def worked() -> None:
        now[0] += work

    runner.stream.worked = worked
    monkeypatch.setattr("time.monotonic_ns", clock)
    driver.core.handle(Submit("a", token_ids=(5, 6, 7), settings=SamplingSettings(max_tokens=8, ignore_eos=True)))
    driver.run()
    steps = list(driver.steps())
    assert len(steps) == 8
    assert all(step.run_ns >= work for step in steps)
    assert all(step.sample_ns < work for step in steps)
    assert sum(step.schedule_ns + step.run_ns + step.sample_ns + step.finish_ns for step in steps) <= now[0]


def test_a_wrong_guess_costs_its_step_and_says_so(folder: Path) -> None:
    steps = of_one_request(folder, wrong=1.0)
    assert sum(len(step.sampled) for step in steps) == 16
    assert all(step.computed == step.padding == 1 for step in steps if not step.sampled)
    assert any(step.padding for step in steps)


def test_what_is_launched_after_a_stop_token_is_padding(folder: Path) -> None:
    driver, runner = late_device.start(folder, ahead=True)
    driver.submit("a", [5, 6, 7])
    driver.run()
    drawn = driver.ids("a")
    driver.submit("b", [5, 6, 7], SamplingSettings(temperature=0.0, max_tokens=16, stop_ids=(drawn[4],)))
    driver.run()
    last = list(driver.steps())[-1]
    assert driver.ids("b") == drawn[: drawn.index(drawn[4]) + 1]
    assert [(lane.request, lane.phase) for lane in last.lanes] == [("b", "padding")]
    assert not last.sampled
    check_truth(driver, runner)


@pytest.mark.parametrize(
    ("card", "switch", "reason"),
    [
        ({"max_lanes": 3}, Configure(policy="static"), "a static batch ends together"),
        ({"max_lanes": 3}, Configure(kv_reuse=False), "whole prefixes are computed"),
        ({"pages": 5, "max_lanes": 3}, Configure(), "somebody waits and a lane is free"),
        ({"pages": 6, "max_lanes": 2}, Configure(), "pages must be taken from somebody"),
    ],
)
def test_a_step_that_is_not_launched_ahead_says_why(
    folder: Path, card: dict[str, int], switch: Configure, reason: str
) -> None:
    driver, runner = late_device.start(folder, ahead=True, **card)
    driver.send(switch)
    for name in ("a", "b", "c"):
        driver.submit(name, [5, 6, 7, 8, 9], SamplingSettings(temperature=0.0, max_tokens=10, ignore_eos=True))
    driver.run()
    assert reason in {step.not_ahead for step in driver.steps()}
    check_truth(driver, runner)


def test_a_pause_finds_nothing_on_its_way(folder: Path) -> None:
    driver, runner = late_device.start(folder, ahead=True)
    driver.submit("a", [5, 6, 7])
    for _ in range(3):
        driver.core.step()
    driver.send(Pause())
    runner.stream.wait()
    assert runner.memory.computed == sum(step.computed for step in driver.steps())
    driver.send(StepOnce(1))
    driver.run()
    assert list(driver.steps())[-1].not_ahead == ""
    driver.send(StepOnce(1))
    driver.run()
    assert list(driver.steps())[-1].not_ahead == "the engine is paused"
    driver.send(Resume())
    driver.run()
    assert driver.finished("a").generated_tokens == 16
    check_truth(driver, runner)


@pytest.mark.parametrize("at", range(1, 9))
def test_a_lane_that_fails_takes_no_other_with_it(folder: Path, at: int) -> None:
    reference, _ = late_device.start(folder, ahead=False)
    driver, runner = late_device.start(folder, ahead=True)
    expected = reference.complete([3, 4, 5], name="small")

    def fail(plan: StepPlan) -> None:
        if any(work.sequence.request == "big" and work.end > at for work in plan.work):
            raise MemoryError("out of memory")

    runner.before = fail
    driver.submit("big", [9, 9])
    driver.submit("small", [3, 4, 5])
    driver.run()
    assert driver.finished("big").reason == "failed"
    assert driver.ids("small") == expected
    assert driver.core.scheduler.pool.totals().used == 0
    assert driver.complete([3, 4, 5], name="next") == expected


def test_an_abort_while_its_step_is_on_the_way_leaves_the_others(folder: Path) -> None:
    reference, _ = late_device.start(folder, ahead=False)
    expected = reference.complete([3, 4, 5])
    driver, _ = late_device.start(folder, ahead=True)
    driver.submit("a", [9, 9])
    driver.submit("b", [3, 4, 5])
    for _ in range(4):
        driver.core.step()
    driver.send(Abort("a"))
    driver.submit("a", [3, 4, 5])  # the name may be taken again at once
    driver.run()
    assert driver.ids("b") == expected
    assert driver.of(Finished, "a")[1].token_ids == tuple(expected)
