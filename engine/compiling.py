"""Runs a compiler beside whatever else the engine does: started, waited for or ended. No torch."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

NICE = 10  # added to the priority's number: whoever waits for an answer comes first
LIMIT = 900.0  # seconds for one try: a busy machine leaves little to a low priority
ENDING = 5.0  # seconds for the child to end the compiler and clean up
STALE = 86400.0  # seconds after which a folder left by a machine that lost its power goes

CHILD = Path(__file__).with_name("compile_child.py")


class Compilation:
    """One file being made in a child process, which ends with this one. Safe to use from several threads.

    `commands(made)` are command lines that write the file `made`, tried in turn; it becomes `target` when it is whole.
    `gently`: with a low priority. Raises `OSError` where the folder can't be written or no process be started.
    """

    def __init__(self, target: Path, commands: Callable[[Path], list[list[str]]], *, gently: bool) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target.parent)
        self.target = target
        self.began = time.monotonic()
        self.problem = ""  # why there is no target; known when it is over
        self._scratch = Path(tempfile.mkdtemp(prefix="compile-", dir=target.parent))
        made = self._scratch / target.name
        job = {
            "commands": commands(made),
            "made": str(made),
            "target": str(target),
            "scratch": str(self._scratch),
            "nice": NICE if gently else 0,
            "limit": LIMIT,
        }
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-I", "-S", str(CHILD), json.dumps(job)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,  # Ctrl+C in a shared terminal is not for it
            )
        except OSError:
            shutil.rmtree(self._scratch, ignore_errors=True)
            raise
        self.ended = False  # by us, before it was done
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._then: list[Callable[[], None]] = []
        threading.Thread(target=self._watch, name="compile", daemon=True).start()

    @property
    def over(self) -> bool:
        return self._over.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is over, or so many seconds; returns whether it is."""
        return self._over.wait(seconds)

    def then(self, call: Callable[[], None]) -> None:
        """Have `call` called when it is over, by a thread of its own; at once if it is."""
        with self._lock:
            if not self.over:
                self._then.append(call)
                return
        call()

    def end(self) -> None:
        """End the compiler, if it still runs, and leave no file. Returns when that is done."""
        if self.over:
            return
        self.ended = True
        assert self._child.stdin is not None
        with contextlib.suppress(OSError):
            self._child.stdin.close()
        if not self.wait(ENDING):
            self._child.kill()
            self.wait(ENDING)

    def _watch(self) -> None:
        assert self._child.stdout is not None
        said = self._child.stdout.read().strip()
        code = self._child.wait()
        shutil.rmtree(self._scratch, ignore_errors=True)
        if self.ended and not self.target.exists():
            self.problem = "it was ended before it was done"
        elif code != 0:
            self.problem = said or f"its process ended with {code}"
        with self._lock:
            self._over.set()
            calls, self._then = self._then, []
        for call in calls:
            call()


def _sweep(folder: Path) -> None:
    """Remove what is left of compilations that nobody can be running any more."""
    for path in _scratches(folder):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > STALE:
                shutil.rmtree(path, ignore_errors=True)


def _scratches(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from folder.glob("compile-*")
