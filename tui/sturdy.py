"""Textual's terminal driver, going on where it would give up."""

from __future__ import annotations

import contextlib
import os
import sys
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

        def run_input_thread(self) -> None:
            while not self.exit_event.is_set():
                try:
                    super().run_input_thread()
                except UnicodeDecodeError:
                    self.write(MOUSE_ON)
                else:
                    return

    return SturdyDriver
