"""How a command ends: the exit code of each kind of error, and what is said about it."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import traceback
from functools import partial

from ...engine import places
from ...engine.errors import CutawayError
from ...engine.protocol import Failed
from ..printable import encodable

OK, FAILED, USAGE, MODEL, REJECTED, DIED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130

_BY_KIND = {
    "setting": USAGE,
    "model": MODEL,
    "download": MODEL,
    "memory": MODEL,
    "prompt": REJECTED,
    "too-long": REJECTED,
    "died": DIED,
    "unreachable": DIED,
    "server": DIED,
    "key": MODEL,
    "protocol": DIED,
    "cancelled": INTERRUPTED,
}


class EngineFailed(CutawayError):
    """A failure that the engine told of; `detail` is for `--debug`."""

    def __init__(self, told: Failed) -> None:
        super().__init__(told.message, told.action)
        self.kind = told.kind or "fault"
        self.detail = told.detail


def code_of(kind: str) -> int:
    """The exit code of an error of this kind."""
    return _BY_KIND.get(kind, FAILED)


def debugging() -> bool:
    """Whether `--debug` was given."""
    return bool(os.environ.get("CUTAWAY_DEBUG"))


def say(text: str) -> None:
    """A line on standard error, whatever is in it and wherever that goes."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            print(encodable(text, sys.stderr.encoding or "ascii"), file=sys.stderr, flush=True)


def report(error: BaseException) -> int:
    """Tell what went wrong in one sentence, or with `--debug` in full, and return the exit code."""
    if isinstance(error, CutawayError):
        say(f"cutaway: {error}")
        if debugging():
            say(getattr(error, "detail", "") or _full(error))
        return code_of(error.kind)
    where = _log(_full(error))
    if debugging():
        say(_full(error))
    else:
        say(f"cutaway: unexpected {type(error).__name__}: {error}. {where}".rstrip())
    return FAILED


def _full(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)).rstrip()


def _log(text: str) -> str:
    """Keep a traceback, and say where."""
    try:
        file = places.state() / "cutaway.log"
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        private = partial(os.open, mode=0o600)  # it quotes the command line, questions and all
        with open(file, "a", encoding="utf-8", errors="replace", opener=private) as log:
            log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {' '.join(sys.argv)}\n{text}\n")
    except (OSError, CutawayError):
        return "--debug shows where."
    return f"{file} has the details."
