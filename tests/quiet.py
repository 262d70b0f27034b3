"""When an application under test has come to rest: not by the clock, as Textual tells it, but by what waits to run."""

from __future__ import annotations

import asyncio
import time

import pytest
import textual.app
import textual.pilot
from textual._wait import wait_for_idle

LONGEST = 2.0  # seconds, for what keeps itself busy


async def _idle(min_sleep: float = 1 / 50, max_sleep: float = 1) -> None:
    """As Textual's `wait_for_idle`, and until every message that was sent has been handled.

    Textual takes a process that gets no processor time for an idle one: on a busy machine a key is then still on its
    way from widget to widget when a test goes on.
    """
    await wait_for_idle(min_sleep, max_sleep)
    ready = asyncio.get_running_loop()._ready  # pyright: ignore[reportAttributeAccessIssue]
    end = time.monotonic() + LONGEST
    await asyncio.sleep(0)
    while ready and time.monotonic() < end:
        await asyncio.sleep(0)


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every `Pilot` wait so."""
    monkeypatch.setattr(textual.app, "wait_for_idle", _idle)
    monkeypatch.setattr(textual.pilot, "wait_for_idle", _idle)
