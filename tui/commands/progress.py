"""How far a load is: a moving line on a terminal's standard error, one plain line elsewhere."""

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
}


class Progress:
    """Shows one load after the other. `clear` takes the line away before anything else is written."""

    def __init__(self, name: str) -> None:
        self._name = name or "the default model"
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._shown = 0  # cells on the line
        self._told = False
        self._painted = 0.0
        self._stage = ""

    def show(self, event: LoadProgress) -> None:
        """Show this state, unless the last one has only just been painted."""
        if not self._terminal:
            if not self._told:
                exits.say(f"loading {self._name} …")
            self._told = True
            return
        now = time.monotonic()
        if event.stage == self._stage and now - self._painted < REPAINT:
            return
        self._stage, self._painted = event.stage, now
        self._paint(describe(event))

    def clear(self) -> None:
        """Leave an empty line."""
        if self._shown:
            self._paint("")
            sys.stderr.write("\r")
            sys.stderr.flush()

    def _paint(self, text: str) -> None:
        text = encodable(text, sys.stderr.encoding or "ascii").replace("\n", " ")[:78]
        sys.stderr.write("\r" + text.ljust(self._shown))
        sys.stderr.flush()
        self._shown = len(text)


def describe(event: LoadProgress) -> str:
    """One line: stage, bar, amounts."""
    words = _WORDS.get(event.stage, event.stage)
    note = f" {event.note}" if event.note else ""
    if event.total <= 0:
        return f"{words}{note} …"
    share = min(1.0, event.done / event.total)
    bar = "█" * round(share * WIDTH) + "·" * (WIDTH - round(share * WIDTH))
    amounts = f"{_amount(event.done, event.unit)} of {_amount(event.total, event.unit)}"
    return f"{words} {bar} {share:4.0%} {amounts}{note}"


def _amount(count: int, unit: str) -> str:
    return f"{count / 1e6:.1f} MB" if unit == "bytes" else f"{count} {unit}".rstrip()
