"""A C++ compiler that waits for a word: it stands at a gate, then gives out kernels compiled before, or fails."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from cutaway.engine import kernels


class SlowCompiler:
    """What `CXX` names in a cache folder of its own. `let_go` opens the gate for good."""

    def __init__(self, folder: Path, cache: Path, ready_made: Path) -> None:
        self.cache = cache
        self.program = folder / "c++"
        self.gate = folder / "gate"
        self._words = folder / "words"
        gate, words, made = (shlex.quote(str(path)) for path in (self.gate, self._words, ready_made))
        self.program.write_text(
            "#!/bin/sh\n"
            '[ "$1" = --version ] && { echo slow; exit; }\n'
            f"until [ -e {gate} ]; do sleep 0.05; done\n"
            f"if [ -e {words} ]; then cat {words} >&2; exit 1; fi\n"
            'while [ "$1" != -o ]; do shift; done\n'
            f'cp {made} "$2"\n'
        )
        self.program.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        return {"CXX": str(self.program), "CUTAWAY_CACHE_DIR": str(self.cache)}

    def let_go(self, fail_with: str = "") -> None:
        """Let it compile, or fail with these words."""
        if fail_with:
            self._words.write_text(fail_with)
        self.gate.touch()

    @property
    def files(self) -> list[str]:
        """What is in the kernels' folder."""
        folder = self.cache / "kernels"
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@contextlib.contextmanager
def compiler(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowCompiler]:
    """This process has no kernels yet, and this compiler to make them."""
    library = kernels.load()
    assert library is not None
    folder.mkdir()
    slow = SlowCompiler(folder, folder / "cache", library.path)
    for name, value in slow.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(kernels, "_kept", kernels._Kept())
    try:
        yield slow
    finally:
        kernels.end()


def children(pid: int | None = None) -> list[psutil.Process]:
    """All processes below one, this one if none is named."""
    return psutil.Process(pid).children(recursive=True)


def compile_children(pid: int | None = None) -> list[psutil.Process]:
    """Those of them that run a compiler for us."""
    found: list[psutil.Process] = []
    for process in children(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            if any(part.endswith("compile_child.py") for part in process.cmdline()):
                found.append(process)
    return found
