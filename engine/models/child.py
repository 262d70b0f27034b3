"""Runs a download in a process of its own: it can be stopped at any moment, and what grows on disk is its progress."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from .local import Watch


def run(command: list[str], log: Path, tick: Callable[[], None], environment: Mapping[str, str] | None = None) -> int:
    """Run `command` with its output in the file `log`, calling `tick` ten times a second; returns its exit status.

    What `tick` raises ends the process and is raised again.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )
        try:
            while _running(process):
                tick()
        finally:
            process.kill()
            process.wait()
    return process.returncode


def bytes_below(folder: Path) -> int:
    """The size of all files below `folder`; files and folders that come and go meanwhile count or not."""
    total = 0
    for parent, _, names in os.walk(folder):  # `rglob` raises for a folder that goes
        for name in names:
            with contextlib.suppress(OSError):
                told = Path(parent, name).lstat()
                total += told.st_size if stat.S_ISREG(told.st_mode) else 0
    return total


def growth(folder: Path, total: int, note: str, watch: Watch) -> Callable[[], None]:
    """A `tick` that tells what came to `folder` since now, of `total` bytes, as stage "download"."""
    before = bytes_below(folder)

    def tick() -> None:
        watch.tell("download", min(max(0, bytes_below(folder) - before), total), total, "bytes", note)

    return tick


def _running(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(timeout=0.1)
    except subprocess.TimeoutExpired:
        return True
    return False
