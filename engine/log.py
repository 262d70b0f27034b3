"""The engine's log: file descriptors 1 and 2 themselves, so that what C libraries print ends there too. No torch."""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import sys
from pathlib import Path

from . import places

LARGEST = 1024 * 1024  # bytes of one file
KEPT = 3  # older files
_LINE = "%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"


def path() -> Path:
    """Where the engines of this user log to. Raises `CutawayError` when there is no home folder."""
    return places.state() / "engine.log"


class LogFile:
    """A file that descriptors are pointed at, and that starts anew when it has grown too large.

    Several engines may write to the same file: lines are appended whole, and an engine that finds the file renamed
    by another follows to the new one.
    """

    def __init__(self, where: Path, descriptors: tuple[int, ...] = (2, 1)) -> None:
        self.where = where
        self.descriptors = descriptors

    def open(self) -> None:
        """Point the descriptors at the file. Raises `OSError`."""
        self.where.parent.mkdir(parents=True, exist_ok=True)
        opened = os.open(self.where, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for descriptor in self.descriptors:
            os.dup2(opened, descriptor)
        os.close(opened)

    def rotate(self) -> None:
        """Begin a new file if this one is large. What can't be renamed grows on."""
        with contextlib.suppress(OSError):
            ours = os.fstat(self.descriptors[0])
            if ours.st_size < LARGEST:
                return
            if self.where.exists() and os.path.samestat(ours, self.where.stat()):
                for age in range(KEPT, 1, -1):
                    with contextlib.suppress(FileNotFoundError):
                        self._aged(age - 1).replace(self._aged(age))
                self.where.replace(self._aged(1))
            self.open()

    def _aged(self, age: int) -> Path:
        return self.where.with_name(f"{self.where.name}.{age}")


def start(where: Path | None = None) -> LogFile | None:
    """Send standard output and error, Python's logging and crash reports to the log.

    Returns None, and leaves the descriptors as they are, where no log can be kept (a read-only home, a full disk):
    that is no reason not to serve.
    """
    log: LogFile | None = None
    with contextlib.suppress(Exception):
        log = LogFile(where or path())
        log.open()
        log.rotate()
    level = logging.DEBUG if os.environ.get("CUTAWAY_DEBUG") else logging.INFO
    logging.basicConfig(stream=sys.stderr, level=level, format=_LINE, force=True)
    with contextlib.suppress(Exception):
        faulthandler.enable(sys.stderr)
    return log


def last_words(pid: int, where: Path | None = None) -> str:
    """The last warning or error that the engine with this `pid` logged; empty if there is none."""
    with contextlib.suppress(Exception):
        with (where or path()).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 65536))
            lines = file.read().decode("utf-8", "replace").splitlines()
        for line in reversed(lines):
            fields = line.split(" ", 4)  # date, time, process, level, the rest
            if len(fields) == 5 and fields[2] == str(pid) and fields[3] in ("WARNING", "ERROR", "CRITICAL"):
                return fields[4]
    return ""
