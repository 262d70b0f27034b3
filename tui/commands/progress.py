"""How far a load or a measurement is: a moving line on a terminal's standard error, plain lines elsewhere."""

from __future__ import annotations

import sys
import time

from ...engine.protocol import LoadProgress
from ..printable import encodable
from . import exits

REPAINT = 0.1  # seconds
WIDTH = 20  # cells of the bar
_WORDS = {
    "find": "looking for the model",
    "download": "downloading",
    "verify": "checking",
    "unpack": "unpacking",
    "convert": "converting (once)",
    "import": "starting",
    "weights": "reading weights",
    "selftest": "testing",
    "calibrate": "measuring",
    "compile": "compiling (once)",
    "connect": "connecting to",
    "look": "looking at the machine",
    "read": "measuring how it reads",
    "write": "measuring how it writes",
}


class StatusLine:
    """One line on a terminal's standard error that is painted over again and again; `clear` takes it away."""

    def __init__(self) -> None:
        self.terminal = sys.stderr is not None and sys.stderr.isatty()
        self._shown = 0  # cells on the line
        self._painted = 0.0

    def paint(self, text: str, now: bool = False) -> None:
        """Show `text`, unless something has only just been painted and it need not be shown `now`."""
        if not now and time.monotonic() - self._painted < REPAINT:
            return
        self._painted = time.monotonic()
        text = encodable(text, sys.stderr.encoding or "ascii").replace("\n", " ")[:78]
        sys.stderr.write("\r" + text.ljust(self._shown))
        sys.stderr.flush()
        self._shown = len(text)

    def clear(self) -> None:
        """Leave an empty line."""
        if self._shown:
            self.paint("", now=True)
            sys.stderr.write("\r")
            sys.stderr.flush()


class Progress:
    """Shows one load after the other. `clear` takes the line away before anything else is written."""

    def __init__(self, name: str) -> None:
        self._name = name or "the default model"
        self._line = StatusLine()
        self._told = False
        self._stage = ""

    def show(self, event: LoadProgress) -> None:
        """Show this state, unless the last one of its stage has only just been painted."""
        if not self._line.terminal:
            if not self._told:
                exits.say(f"loading {self._name} …")
            self._told = True
            return
        self._line.paint(describe(event), now=event.stage != self._stage)
        self._stage = event.stage

    def clear(self) -> None:
        """Leave an empty line."""
        self._line.clear()


def describe(event: LoadProgress) -> str:
    """One line: stage, bar, amounts."""
    words = _WORDS.get(event.stage, event.stage)
    note = f" {event.note}" if event.note else ""
    if event.total <= 0:
        return f"{words}{note} …"
    amounts = f"{_amount(event.done, event.unit)} of {_amount(event.total, event.unit)}"
    return f"{words} {meter(event.done / event.total)} {amounts}{note}"


def meter(share: float) -> str:
    """ "██████·············· 30%", of a share from 0 to 1."""
    share = min(1.0, max(0.0, share))
    return "█" * round(share * WIDTH) + "·" * (WIDTH - round(share * WIDTH)) + f" {share:4.0%}"


def _amount(count: int, unit: str) -> str:
    return f"{count / 1e6:.1f} MB" if unit == "bytes" else f"{count} {unit}".rstrip()
