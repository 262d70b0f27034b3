"""The engine process and the compiler that it starts: who ends when, and what is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
from cutaway.engine import compiling, kernels
from cutaway.engine.client import EngineClient
from cutaway.engine.compiling import Compilation
from cutaway.engine.protocol import CardChanged, Load, ModelCard, Ready, SamplingSettings

from . import slow_compiler, tiny_folder
from .patience import PATIENCE
from .slow_compiler import SlowCompiler, children, compile_children
from .talking import Listener, submit

pytestmark = pytest.mark.skipif(kernels.load() is None, reason=f"no kernels here: {kernels.problem()}")


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowCompiler]:
    with slow_compiler.compiler(tmp_path / "compiler", monkeypatch) as slow:
        yield slow


@asynccontextmanager
async def engine(folder: Path) -> AsyncIterator[tuple[EngineClient, Listener, ModelCard]]:
    client = EngineClient()
    await client.start()
    try:
        listener = Listener(client)
        await client.send(Load(model=str(folder), pages=32, page_size=16))
        ready = await listener.first(Ready)
        assert isinstance(ready, Ready)
        yield client, listener, ready.card
    finally:
        await client.close()


def gone(processes: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(processes, timeout=PATIENCE)[1]


async def test_an_idle_engine_says_by_itself_that_our_kernels_have_taken_over(
    compiler: SlowCompiler, tmp_path: Path
) -> None:
    folder = tiny_folder.make(tmp_path / "model")
    async with engine(folder) as (client, listener, card):
        assert card.compiling
        await client.send(submit("before", "hi", settings=SamplingSettings(max_tokens=4)))
        assert (await listener.finished("before")).generated_tokens
        compiler.let_go()
        changed = await listener.first(CardChanged)
        assert isinstance(changed, CardChanged)
        assert changed.card.kernel.startswith("cutaway int8")
        await client.send(submit("after", "hi", settings=SamplingSettings(max_tokens=4)))
        assert (await listener.finished("after")).generated_tokens
    assert [name.rpartition(".")[2] for name in compiler.files] == ["so"]


@pytest.mark.parametrize("how", ["shutdown", "kill"])
async def test_no_compiler_and_no_file_outlive_the_engine(compiler: SlowCompiler, tmp_path: Path, how: str) -> None:
    folder = tiny_folder.make(tmp_path / "model")
    async with engine(folder) as (client, _, card):
        assert card.compiling
        assert client.welcome is not None
        below = children(client.welcome.pid)
        assert len(compile_children(client.welcome.pid)) == 1
        if how == "kill":
            psutil.Process(client.welcome.pid).kill()
    assert await asyncio.to_thread(gone, below)
    assert [name for name in compiler.files if not name.endswith(kernels.ENDED)] == []


async def test_another_model_goes_on_with_the_same_compilation(compiler: SlowCompiler, tmp_path: Path) -> None:
    first, second = (tiny_folder.make(tmp_path / name) for name in ("first", "second"))
    async with engine(first) as (client, listener, _):
        assert client.welcome is not None
        before = compile_children(client.welcome.pid)
        await client.send(Load(model=str(second), pages=32, page_size=16))
        ready = await listener.first(Ready)
        assert isinstance(ready, Ready)
        assert (ready.card.name, ready.card.compiling) == ("second", True)
        assert compile_children(client.welcome.pid) == before
        compiler.let_go()
        changed = await listener.first(CardChanged)
        assert isinstance(changed, CardChanged)
        assert (changed.card.name, changed.card.compiling) == ("second", False)
    assert len([event for event in listener.heard if isinstance(event, CardChanged)]) == 1


def test_two_compilations_of_the_same_file_both_end_well(compiler: SlowCompiler) -> None:
    target = kernels.target()
    both = [kernels._compile(target, str(compiler.program), gently=True) for _ in range(2)]
    compiler.let_go()
    assert all(one.wait(PATIENCE) for one in both)
    assert [one.problem for one in both] == ["", ""]
    assert compiler.files == [target.name]


def test_ending_a_compilation_ends_the_compiler_and_leaves_nothing(compiler: SlowCompiler) -> None:
    compilation = kernels.begin()
    assert compilation is not None
    below = children()
    compilation.end()
    assert gone(below)
    assert compilation.over
    assert "ended before" in compilation.problem
    assert compiler.files == []


def test_a_compiler_that_is_killed_is_told(compiler: SlowCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "NATIVE", ((),))
    compiler.program.write_text("#!/bin/sh\nkill -9 $$\n")
    compilation = kernels.begin()
    assert compilation is not None
    assert compilation.wait(PATIENCE)
    assert kernels.at_hand() is None
    assert "killed by signal 9" in kernels.problem()
    assert compiler.files == []


def test_a_compilation_that_is_killed_is_told(compiler: SlowCompiler) -> None:
    compilation = kernels.begin()
    assert compilation is not None
    (child,) = compile_children()
    below = child.children(recursive=True)
    child.kill()
    assert compilation.wait(PATIENCE)
    assert kernels.at_hand() is None
    assert "ended with -9" in kernels.problem()
    assert compiler.files == []
    compiler.let_go()  # what it had started ends by itself
    assert gone(below)


def test_a_cache_that_can_not_be_written_is_told(compiler: SlowCompiler) -> None:
    compiler.cache.write_text("a file where a folder should be")
    assert kernels.begin() is None
    assert kernels.at_hand() is None
    assert "File exists" in kernels.problem() or "Not a directory" in kernels.problem()


def test_what_a_machine_without_power_left_goes_after_a_day(compiler: SlowCompiler, monkeypatch) -> None:
    left = compiler.cache / "kernels" / "compile-left"
    left.mkdir(parents=True)
    (left / "half.so").touch()
    monkeypatch.setattr(compiling.time, "time", lambda: left.stat().st_mtime + compiling.STALE + 1)
    assert isinstance(kernels.begin(), Compilation)
    assert not left.exists()
