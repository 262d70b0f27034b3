"""The program in a real pseudo-terminal: what it writes, what the terminal shows, and how it leaves it."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pexpect
import pyte

from .patience import PATIENCE
from .scripted_engine import COMMAND

MODES = re.compile(rb"\x1b\[\?([\d;]+)([hl])")
KEPT_MODES = {1000, 1002, 1003, 1004, 1006, 1015, 1049, 2004}  # that must be off again at the end


class Terminal:
    """A pseudo-terminal with the program in it. `raw` is every byte that was written to it."""

    def __init__(
        self,
        *arguments: str,
        size: tuple[int, int] = (80, 24),
        env: dict[str, str] | None = None,
        model: str = "scripted",
    ) -> None:
        columns, rows = size
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.patience = PATIENCE
        command = ["-P", "-m", "cutaway.tui.cli", "chat"]
        if model:
            command += ["--engine", shlex.join(COMMAND), "--model", model, "--pages", "2048"]
        environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM", "COLORTERM")}
        environment |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONUNBUFFERED": "1"} | (env or {})
        self.child = pexpect.spawn(
            sys.executable,
            [*command, *arguments],
            dimensions=(rows, columns),
            env=environment,
            timeout=PATIENCE,
            cwd=str(Path(__file__).parent.parent),
        )
        self.before = termios.tcgetattr(self.child.child_fd)

    def read(self) -> bool:
        """Take what has been written; False if it was nothing."""
        try:
            data = self.child.read_nonblocking(65536, timeout=0.05)
        except (pexpect.TIMEOUT, pexpect.EOF):
            return False
        self.feed(data)
        return True

    def feed(self, data: bytes) -> None:
        """Show bytes that the program has written."""
        self.raw += data
        # pyte takes the kitty keyboard's "CSI > u" and "CSI < u" for text
        self._stream.feed(re.sub(rb"\x1b\[[<>=]\d*u", b"", data))

    def text(self) -> str:
        return "\n".join(self.screen.display)

    def until(self, condition: Callable[[], object], why: str) -> None:
        """Read until the condition holds; fails after a while."""
        end = time.monotonic() + self.patience
        while time.monotonic() < end:
            self.read()
            if condition():
                return
        raise AssertionError(f"waited in vain for {why}; the screen shows:\n{self.text()}")

    def shows(self, words: str) -> None:
        self.until(lambda: words in self.text(), repr(words))

    def send(self, keys: str | bytes) -> None:
        self.child.send(keys)

    def ask(self, text: str) -> None:
        """Type a message, and send it once it stands there: what comes in one read is typed, not pasted."""
        self.send(text)
        self.shows(text)
        self.send("\r")

    def ended(self) -> int | None:
        """Wait for the end; returns the exit status, negative for a signal that was not caught."""
        self.until(lambda: not self.child.isalive(), "the end")
        while self.read():
            pass
        self.after = termios.tcgetattr(self.child.child_fd)
        self.child.close()
        return self.child.exitstatus if self.child.exitstatus is not None else -(self.child.signalstatus or 0)

    def modes_left_on(self) -> set[int]:
        """Terminal modes that were switched on and not off again."""
        on: set[int] = set()
        for numbers, action in MODES.findall(self.raw):
            for number in map(int, numbers.split(b";")):
                (on.add if action == b"h" else on.discard)(number)
        return on & KEPT_MODES

    def cursor_shown(self) -> bool:
        return self.raw.rfind(b"\x1b[?25h") > self.raw.rfind(b"\x1b[?25l")

    def assert_left_as_found(self) -> None:
        """Modes are off, the cursor shows, the line discipline is as it was."""
        assert not self.modes_left_on(), self.modes_left_on()
        assert self.cursor_shown()
        assert self.after == self.before

    def kill(self) -> None:
        """End the program if it still runs."""
        with contextlib.suppress(OSError, pexpect.ExceptionPexpect):  # it may be gone already
            self.child.close(force=True)
