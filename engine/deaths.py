"""How a process ended, in words; and how to end one with everything it started. No torch."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence

from .errors import EngineDied

_SIGNALS = {
    "SIGKILL": "was killed, most likely because memory ran out",
    "SIGSEGV": "crashed (segmentation fault)",
    "SIGABRT": "crashed (abort)",
    "SIGBUS": "crashed (bus error)",
    "SIGILL": "crashed: it needs processor instructions that this machine lacks",
    "SIGTERM": "was told to end by another program",
    "SIGHUP": "lost its terminal",
}
_SHELL_CODES = {
    126: "could not be started: its command is not executable",
    127: "could not be started: its command was not found",
    255: "could not be reached: the connection failed or was refused",
}
_KILLED = {137, 143, 139}  # 128 + signal: how a shell, ssh or docker tells of it


def describe(code: int | None, last_line: str = "") -> EngineDied:
    """What to tell about an engine that ended with `code` (negative: by that signal; None: it only went silent)."""
    if code is None:
        words = "stopped talking"
    elif code < 0:
        words = _by_signal(-code)
    elif code in _KILLED:
        words = _by_signal(code - 128)
    elif code in _SHELL_CODES:
        words = _SHELL_CODES[code]
    elif code == 0:
        words = "ended, though nobody asked it to"
    else:
        words = f"ended with exit code {code}"
    action = f"Its last words: {last_line}" if last_line else ""
    return EngineDied(f"The engine {words}.", action, code)


def not_started(command: Sequence[str], error: OSError | ValueError) -> EngineDied:
    """What to tell about a command that the system would not start."""
    name = command[0]
    if isinstance(error, FileNotFoundError):
        return EngineDied(f"The engine command {name!r} was not found.", "Check --engine.", 127)
    if isinstance(error, PermissionError):
        return EngineDied(f"The engine command {name!r} is not executable.", "Check --engine.", 126)
    return EngineDied(f"The engine command {name!r} could not be started: {error}.", "Check --engine.")


def terminate_group(pid: int) -> None:
    """Ask the process group that `pid` leads to end. It must not have been waited for yet."""
    _signal_group(pid, signal.SIGTERM)


def kill_group(pid: int) -> None:
    """End the process group that `pid` leads. It must not have been waited for yet."""
    _signal_group(pid, getattr(signal, "SIGKILL", signal.SIGTERM))


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(pid, number)
        else:
            os.kill(pid, number)


def _by_signal(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"was ended by signal {number}"
    return _SIGNALS.get(name, f"was ended by {name}")
