"""Textual's terminal driver, going on where it would give up."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textual.app import App
    from textual.driver import Driver

# Mouse buttons, every movement, and the form of their reports (xterm's ctlseqs, "Mouse Tracking")
MOUSE_ON = "\x1b[?1000h\x1b[?1003h\x1b[?1015h\x1b[?1006h"


class UntilGone:
    """The terminal as a file. Once it is gone, writing to it does nothing.

    An error here would end Textual's writing thread, and whoever waits for that thread's queue would wait for ever.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            return self._file.write(text)
        return 0

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._file.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def end_when_hung_up(descriptor: int) -> None:
    """Wait until the terminal is gone, then ask this process to end as a hang-up does.

    The signal of a closed terminal goes to the leader of its session, who need not pass it on to us; and Textual
    would read the end of input again and again.
    """
    poller = select.poll()
    poller.register(descriptor, 0)
    if any(happened & select.POLLHUP for _, happened in poller.poll()):
        os.kill(os.getpid(), signal.SIGHUP)


def driver(told: Callable[[Driver], None]) -> type[Driver] | None:
    """The driver for this terminal; None leaves the choice to Textual. `told` gets the one that is made."""
    if sys.platform == "win32" or os.environ.get("TEXTUAL_DRIVER"):
        return None
    from textual.drivers.linux_driver import LinuxDriver

    class SturdyDriver(LinuxDriver):
        """Survives bytes that are no text.

        A terminal that forgot its mouse mode (tmux does when it is attached again) reports clicks in the old form,
        whose bytes are no UTF-8. They are dropped, and the mode is asked for again.
        """

        def __init__(self, app: App[object], **options: Any) -> None:
            super().__init__(app, **options)
            self._file: Any = UntilGone(self._file)
            told(self)
            if os.isatty(self.fileno) and hasattr(select, "poll"):
                threading.Thread(target=end_when_hung_up, args=(self.fileno,), name="hang-up", daemon=True).start()

        def _sigcont_application(self, *_: Any) -> None:
            # Who was only held (SIGSTOP) still has the terminal. Textual would take it once more, and at the end wait
            # for ever for the first of two threads that read keys.
            if self._must_signal_resume:
                super()._sigcont_application()

        def run_input_thread(self) -> None:
            while not self.exit_event.is_set():
                try:
                    super().run_input_thread()
                except UnicodeDecodeError:
                    self.write(MOUSE_ON)
                else:
                    return

    return SturdyDriver
