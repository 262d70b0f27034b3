"""How long tests wait for what must come, which costs nothing when all goes well; and waiting for other threads."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 60.0  # seconds
LONG = 240.0  # seconds, where a real model may have to be fetched, its kernels compiled and its weights converted first


def until(condition: Callable[[], object], why: str = "") -> None:
    """Let other threads and processes come to it; fails after a while."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {why or condition}"
        time.sleep(0.005)
