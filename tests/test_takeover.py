"""A model serves while our kernels are being compiled, and goes over to them between two steps."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from cutaway.engine import kernels, machine, takeover
from cutaway.engine.decode_step import NativeStep, TorchStep
from cutaway.engine.protocol import CardChanged, Configure, Failed, Load, LoadProgress, Pause, Ready, SamplingSettings
from cutaway.engine.runner import PagedRunner
from cutaway.engine.selftest import QUANTISED_TOLERANCE

from . import engine_driver, slow_compiler, tiny_folder
from .engine_driver import Driver
from .slow_compiler import SlowCompiler

ready_made = kernels.load()
pytestmark = pytest.mark.skipif(ready_made is None, reason=f"no kernels here: {kernels.problem()}")

OURS = "cutaway int8"
PROMPT = list(range(5, 45))
SEEDED = SamplingSettings(temperature=1.0, seed=11, max_tokens=16, ignore_eos=True)


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowCompiler]:
    with slow_compiler.compiler(tmp_path / "compiler", monkeypatch) as slow:
        yield slow


def start(folder: Path, **options: Any) -> Driver:
    return engine_driver.start(folder, **{"precision": "auto", "pages": 32, "page_size": 16, **options})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_folder.make(tmp_path / "model")


@pytest.fixture
def driver(compiler: SlowCompiler, folder: Path) -> Driver:
    started = start(folder)
    assert started.core.card.compiling
    assert started.core.card.kernel == "torch bfloat16"
    assert started.core.card.precision == "int8"
    return started


def decode_step(driver: Driver) -> NativeStep | TorchStep | None:
    runner = driver.core.runner
    assert isinstance(runner, PagedRunner)
    assert runner.decode is None or isinstance(runner.decode, NativeStep | TorchStep)
    return runner.decode


def compiled(driver: Driver, slow: SlowCompiler, fail_with: str = "") -> None:
    """The compiler is done, and the engine has only to take its next step."""
    slow.let_go(fail_with)
    assert driver.core.takeover is not None
    driver.core.takeover.wait()


def every_logit(driver: Driver, tokens: list[int]) -> torch.Tensor:
    """Of an idle engine, of every position: [len(tokens), vocabulary]."""
    driver.send(Configure(kv_reuse=True))
    step = decode_step(driver)
    rows = torch.arange(len(tokens))
    table = torch.arange(-(-len(tokens) // 16), dtype=torch.int32).expand(len(tokens), -1)
    if isinstance(step, NativeStep):
        return step.rows(torch.tensor(tokens), rows, rows, table, rows + 1, rows)
    assert step is not None
    return torch.cat(
        [
            step(torch.tensor([token]), rows[n : n + 1], rows[n : n + 1], table[n : n + 1], rows[n : n + 1] + 1)
            for n, token in enumerate(tokens)
        ]
    )


def test_a_reply_that_began_with_torchs_kernels_goes_on_with_ours(driver: Driver, compiler: SlowCompiler) -> None:
    driver.submit("a", PROMPT)
    driver.run(until=lambda: len(driver.sampled("a")) == 6)
    compiled(driver, compiler)
    driver.run()
    [change] = driver.of(CardChanged)
    assert change.card == driver.core.card
    assert change.card.kernel.startswith(OURS)
    assert change.card.deterministic
    assert not change.card.compiling
    assert isinstance(decode_step(driver), NativeStep)
    ids = driver.ids("a")
    assert [token.index for token in driver.sampled("a")] == list(range(16))
    assert [token.id for token in driver.sampled("a")] == ids
    # What ours say to the same text, give or take the rounding of the keys and values that torch's kernels left.
    logits = every_logit(driver, PROMPT + ids)[len(PROMPT) - 1 : -1]
    chosen = logits.gather(1, torch.tensor(ids)[:, None])[:, 0]
    assert ((logits.max(1).values - chosen) / logits.std(1) < QUANTISED_TOLERANCE).all()


def test_both_ways_multiply_by_the_same_values(driver: Driver, compiler: SlowCompiler) -> None:
    theirs = every_logit(driver, PROMPT)
    compiled(driver, compiler)
    driver.core.step()
    ours = every_logit(driver, PROMPT)
    difference = (ours - theirs).pow(2).mean(1).sqrt() / theirs.std(1)
    assert 0 < difference.max() < QUANTISED_TOLERANCE / 2


def test_a_seeded_reply_goes_on_with_its_own_random_numbers(
    driver: Driver, compiler: SlowCompiler, folder: Path
) -> None:
    driver.submit("a", PROMPT, SEEDED)
    driver.run(until=lambda: len(driver.sampled("a")) == 6)
    compiled(driver, compiler)
    driver.run()
    throughout = start(folder)
    throughout.submit("a", PROMPT, SEEDED)
    throughout.run()
    assert [token.draw for token in driver.sampled("a")] == [token.draw for token in throughout.sampled("a")]


@pytest.mark.parametrize("switches", [{}, {"policy": "static"}, {"kv_reuse": False}, {"prefix_cache": False}])
def test_every_request_in_flight_ends_whole(compiler: SlowCompiler, folder: Path, switches: dict[str, Any]) -> None:
    driver = start(folder, pages=9, max_lanes=3, token_budget=16)  # too few pages for three replies: some are preempted
    driver.send(Configure(**switches))
    for number in range(5):
        driver.submit(f"r{number}", PROMPT[: 10 + 5 * number], SEEDED, samples=1 + number % 2)
    driver.run(until=lambda: len(driver.sampled("r0")) == 3)
    compiled(driver, compiler)
    driver.run()
    assert len(driver.of(CardChanged)) == 1
    for number in range(5):
        for sample in range(1 + number % 2):
            assert driver.finished(f"r{number}", sample).reason == "length"
            assert [t.index for t in driver.sampled(f"r{number}", sample)] == list(range(16))
    driver.core.idle_check()


def test_what_was_cached_before_is_not_mixed_with_what_comes_after(
    driver: Driver, compiler: SlowCompiler, folder: Path
) -> None:
    driver.complete(PROMPT, name="before")
    driver.submit("across", PROMPT[1:])
    driver.run(until=lambda: len(driver.sampled("across")) == 3)
    compiled(driver, compiler)
    driver.run()
    driver.complete(PROMPT, name="first")
    driver.complete(PROMPT, name="second")
    driver.complete(PROMPT[1:], name="as across")
    throughout = start(folder)
    throughout.complete(PROMPT, name="first")
    throughout.complete(PROMPT[1:], name="as across")
    assert [driver.finished(name).cached_tokens for name in ("first", "second", "as across")] == [0, 32, 0]
    bits = [token.logprob for token in driver.sampled("first")]
    assert bits == [token.logprob for token in throughout.sampled("first")]
    assert bits == [token.logprob for token in driver.sampled("second")]
    told = [token.logprob for token in driver.sampled("as across")]
    assert told == [token.logprob for token in throughout.sampled("as across")]


def test_the_weights_of_before_are_let_go(driver: Driver, compiler: SlowCompiler) -> None:
    runner = driver.core.runner
    assert isinstance(runner, PagedRunner)
    model, pages = weakref.ref(runner.model), runner.cache
    del runner
    compiled(driver, compiler)
    assert model() is not None
    driver.core.step()
    gc.collect()
    assert model() is None
    assert isinstance(driver.core.runner, PagedRunner)
    assert driver.core.runner.cache is pages
    assert driver.core.takeover is None


def test_an_idle_engine_is_woken_and_a_paused_one_takes_over_too(compiler: SlowCompiler, folder: Path) -> None:
    driver = start(folder)
    driver.send(Pause())
    driver.submit("a", PROMPT)
    assert not driver.core.has_work
    compiled(driver, compiler)
    assert driver.core.has_work
    driver.core.step()
    assert not driver.core.has_work
    assert driver.sampled("a") == []
    assert driver.core.card.kernel.startswith(OURS)


def test_the_next_load_goes_the_short_way_to_the_same_bits(
    driver: Driver, compiler: SlowCompiler, folder: Path
) -> None:
    compiled(driver, compiler)
    driver.core.step()
    again = start(folder)
    assert not again.core.card.compiling
    assert isinstance(again.core.runner, PagedRunner)
    assert type(again.core.runner.model) is torch.nn.Module  # by the blueprint
    assert torch.equal(every_logit(driver, PROMPT), every_logit(again, PROMPT))
    assert again.core.card.selftest == driver.core.card.selftest


@pytest.mark.parametrize("family", ["olmo", "lfm2"])
def test_models_without_a_step_of_ours_take_over_as_well(compiler: SlowCompiler, tmp_path: Path, family: str) -> None:
    driver = start(tiny_folder.make(tmp_path / family, family))
    driver.submit("a", PROMPT)
    driver.run(until=lambda: len(driver.sampled("a")) == 6)
    compiled(driver, compiler)
    driver.run()
    assert driver.of(CardChanged)[0].card.kernel.startswith(OURS)
    assert driver.finished("a").generated_tokens == 16


def test_a_compiler_that_fails_is_told_once_and_torch_goes_on(
    driver: Driver, compiler: SlowCompiler, folder: Path
) -> None:
    driver.submit("a", PROMPT)
    driver.run(until=lambda: len(driver.sampled("a")) == 6)
    compiled(driver, compiler, fail_with="no room on this disk")
    driver.run()
    assert driver.finished("a").generated_tokens == 16
    [failed] = driver.of(Failed)
    assert "no room on this disk" in failed.message
    assert "doctor" in failed.action
    assert (failed.kind, failed.fatal, failed.loading, failed.request) == ("kernels", False, False, "")
    assert not driver.core.card.compiling
    assert driver.core.card.kernel == "torch bfloat16"
    assert compiler.files == []
    again = start(folder)  # in this process nobody tries again
    assert not again.core.card.compiling
    assert again.core.card.precision == "float32"
    assert kernels.begin() is None


def test_kernels_that_compute_something_else_do_not_take_over(
    driver: Driver, compiler: SlowCompiler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(takeover.kernel_choice, "threads", lambda *_: 1)
    honest = NativeStep.run
    monkeypatch.setattr(NativeStep, "run", lambda *a, **k: honest(*a, **k).flip(-1))
    driver.submit("a", PROMPT)
    driver.run(until=lambda: len(driver.sampled("a")) == 6)
    compiled(driver, compiler)
    driver.run()
    assert "logits differ" in caplog.text
    step = decode_step(driver)
    assert not isinstance(step, NativeStep)
    assert driver.finished("a").generated_tokens == 16


def test_bits_that_must_not_change_wait_for_the_compiler(compiler: SlowCompiler, folder: Path) -> None:
    told: list[LoadProgress] = []

    def progress(event: LoadProgress) -> None:
        told.append(event)
        if event.stage == "compile" and len([one for one in told if one.stage == "compile"]) == 1:
            compiler.let_go()

    driver = engine_driver.start(
        folder, progress=progress, precision="auto", deterministic=True, pages=32, page_size=16
    )
    assert not driver.core.card.compiling
    assert driver.core.card.kernel.startswith(OURS)
    assert "no bit may change later" in told[0].note
    assert driver.of(Ready)[0].card.deterministic


def test_a_compilation_that_was_ended_early_is_waited_for_by_the_next_load(
    driver: Driver, compiler: SlowCompiler, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.core.close()
    kernels.end()
    monkeypatch.setattr(kernels, "_kept", kernels._Kept())  # another process
    assert kernels.ended_early()
    waited: list[str] = []

    def progress(event: LoadProgress) -> None:
        if event.stage == "compile" and not waited:
            waited.append(event.note)
            compiler.let_go()

    again = engine_driver.start(folder, progress=progress, precision="auto", pages=32, page_size=16)
    assert waited
    assert again.core.card.kernel.startswith(OURS)
    assert not kernels.ended_early()


def test_whoever_measures_can_wait(driver: Driver, compiler: SlowCompiler) -> None:
    compiler.let_go()
    takeover.settle(driver.core)
    assert driver.core.card.kernel.startswith(OURS)
    takeover.settle(driver.core)
    assert len(driver.of(CardChanged)) == 1


def test_the_machine_says_that_they_are_being_compiled(driver: Driver, compiler: SlowCompiler) -> None:
    told = machine.report()
    assert (told.kernels, told.kernels_problem, told.precision) == ("", "they are being compiled", "int8")
    compiled(driver, compiler)
    assert machine.report().kernels.startswith(OURS)


def test_another_precision_has_nothing_compiled(compiler: SlowCompiler, folder: Path) -> None:
    driver = start(folder, precision="float32")
    driver.complete(PROMPT)
    assert not driver.core.card.compiling
    assert kernels.under_way() is None
    assert compiler.files == []
    assert Load().precision == "auto"


def test_a_compiler_that_fails_before_the_model_is_there_is_told_as_well(compiler: SlowCompiler, folder: Path) -> None:
    def progress(event: LoadProgress) -> None:
        if event.stage == "selftest" and (compilation := kernels.under_way()) is not None:
            compiler.let_go("no room on this disk")
            compilation.wait()

    driver = engine_driver.start(folder, progress=progress, precision="auto", pages=32, page_size=16)
    assert driver.core.takeover is not None
    driver.core.takeover.wait()
    driver.complete(PROMPT)
    [failed] = driver.of(Failed)
    assert "no room on this disk" in failed.message
    assert not driver.core.card.compiling


def test_kernels_that_are_compiled_before_the_weights_are_there_serve_at_once(
    compiler: SlowCompiler, folder: Path
) -> None:
    def progress(event: LoadProgress) -> None:
        if event.stage == "weights" and (compilation := kernels.under_way()) is not None:
            compiler.let_go()
            compilation.wait()

    driver = engine_driver.start(folder, progress=progress, precision="auto", pages=32, page_size=16)
    assert not driver.core.card.compiling
    assert driver.core.takeover is None
    assert isinstance(decode_step(driver), NativeStep)
