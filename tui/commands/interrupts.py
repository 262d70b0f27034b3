"""Ctrl+C while something runs: the first asks it to stop, the second leaves."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def interrupts(first: Callable[[], None]) -> Iterator[None]:
    """While inside, Ctrl+C calls `first`, and again raises `KeyboardInterrupt` in the current task."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    pressed = 0

    def press() -> None:
        nonlocal pressed
        pressed += 1
        if pressed == 1:
            first()
        elif task is not None:
            task.cancel()

    before = signal.getsignal(signal.SIGINT)
    try:
        loop.add_signal_handler(signal.SIGINT, press)
    except NotImplementedError:  # Windows' event loop has no signals of its own
        signal.signal(signal.SIGINT, lambda *_: loop.call_soon_threadsafe(press))
    try:
        yield
    except asyncio.CancelledError:
        if pressed > 1:
            raise KeyboardInterrupt from None
        raise
    finally:
        with contextlib.suppress(NotImplementedError):
            loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)
