"""The full screen, from a command: when it can be shown, and showing it."""

from __future__ import annotations

import asyncio
import gc
import os
import sys

import msgspec

from ...engine import places
from ...engine.protocol import SamplingSettings
from . import exits
from .flags import EngineFlags

PLAIN_TERMINALS = ("dumb", "unknown")  # they can't address their cells


def fits() -> bool:
    """Input and output are terminals, and the terminal can address its cells."""
    terminal = os.environ.get("TERM", "") not in PLAIN_TERMINALS or sys.platform == "win32"
    return terminal and sys.stdin.isatty() and sys.stdout.isatty()


def show(flags: EngineFlags, settings: SamplingSettings, system: str, theme: str) -> int:
    """Show the chat on the full screen until the reader leaves it; returns the exit code."""
    gc.disable()  # until the first paint: collecting what is being imported only delays it
    from ..app import run_session
    from ..session import Session

    configure = msgspec.structs.replace(flags.configure, delivery="buffered" if flags.buffered else None)
    session = Session(flags.engine(), flags.load, settings, system=system, configure=configure)
    try:
        return asyncio.run(run_session(session, places.state(), theme))
    except KeyboardInterrupt:
        return exits.INTERRUPTED
