"""The process that runs a compiler: `python compile_child.py JOB`, a JSON object. Standard library only.

It ends with its input: whoever started it can die in any way and leaves no compiler running and no file behind.
JOB: `commands` are tried in turn until one makes the file `made`, in the folder `scratch`; that becomes `target`, whole
or not at all, and `scratch` goes in any case. `nice` is added to the priority's number, `limit` is in seconds. Exits
with 0, or with 1 and says why on standard output, or with 2 where its input ended first.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

MOST = 500  # characters of a compiler's words that are kept
ENDED = 2


class Work:
    """One compiler after the other, until its input ends."""

    def __init__(self, scratch: str, limit: float) -> None:
        self.scratch = scratch
        self.limit = limit
        self.ended = False
        self._lock = threading.Lock()
        self._running: subprocess.Popen[str] | None = None

    def run(self, command: list[str]) -> str | None:
        """What went wrong; None if nothing did."""
        with self._lock:
            if self.ended:
                return "ended"
            self._running = running = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env={**os.environ, "TMPDIR": self.scratch},  # a compiler that is killed leaves its files there
                process_group=0,
            )
        try:
            said = running.communicate(timeout=self.limit)[1]
        except subprocess.TimeoutExpired:
            self._kill()
            running.communicate()
            return f"it was not done after {self.limit:.0f} seconds"
        if running.returncode == 0:
            return None
        if running.returncode < 0:
            return f"it was killed by signal {-running.returncode}"
        return said.strip()[:MOST] or f"it ended with {running.returncode}"

    def end_with_input(self) -> None:
        """Wait for the end of standard input, then end the compiler and all that it started."""
        with contextlib.suppress(OSError):
            while os.read(0, 1024):
                pass
        with self._lock:
            self.ended = True
        self._kill()

    def _kill(self) -> None:
        running = self._running
        if running is not None and running.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(running.pid, signal.SIGKILL)


def main(job: dict[str, object]) -> int:
    """Do what `job` says; returns the exit code."""
    made, target, scratch = (str(job[name]) for name in ("made", "target", "scratch"))
    with contextlib.suppress(OSError):
        os.nice(int(str(job["nice"])))
    work = Work(scratch, float(str(job["limit"])))
    threading.Thread(target=work.end_with_input, daemon=True).start()
    said: str | None = "there was nothing to run"
    commands = job["commands"]
    assert isinstance(commands, list)
    try:
        for command in commands:
            said = work.run(command)
            if work.ended:
                return ENDED
            if said is None:
                Path(made).replace(target)
                return 0
    except OSError as error:
        said = str(error)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(said, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
