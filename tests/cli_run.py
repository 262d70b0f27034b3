"""Runs the command line as a shell and as a terminal would, on the scripted engine."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator

import pexpect

from .patience import LONG, PATIENCE
from .scripted_engine import COMMAND

ENGINE = shlex.join(COMMAND)
CUTAWAY = [sys.executable, "-m", "cutaway.tui.cli"]


def cutaway(*args: str, stdin: bytes | None = None, env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    """Run to the end, with nothing on standard input unless it is given."""
    given = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    return subprocess.run(
        [*CUTAWAY, *args], capture_output=True, timeout=LONG, env={**os.environ, **(env or {})}, **given
    )


def ask(*args: str, stdin: bytes | None = None, env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    return cutaway("ask", "--engine", ENGINE, *args, stdin=stdin, env=env)


@contextlib.contextmanager
def terminal(*args: str, env: dict[str, str] | None = None) -> Iterator[pexpect.spawn]:
    """Run in a real pseudo-terminal."""
    child = pexpect.spawn(
        CUTAWAY[0],
        [*CUTAWAY[1:], *args],
        timeout=PATIENCE,
        env={**os.environ, "TERM": "xterm", **(env or {})},  # pyright: ignore[reportArgumentType]
        dimensions=(24, 200),
        echo=False,
    )
    try:
        yield child
    finally:
        child.close(force=True)
