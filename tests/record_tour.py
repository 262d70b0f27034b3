"""Records the tour that is played where there is no model: the unattended tour on the default model.

    python -m tests.record_tour

Its words are the same on the same machine, its times are not: make the tour's snapshots and pictures anew after it.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from cutaway.engine.client import EngineClient
from cutaway.engine.protocol import Load
from cutaway.engine.trace import Recording
from cutaway.tui.session import Session
from cutaway.tui.tour import check
from cutaway.tui.tour.progress import Tour
from cutaway.tui.tour.recorded import trace_file
from cutaway.tui.tour.scripts import load_chapters

LIMIT = 1_000_000  # bytes
PAGES = 256  # few, so that the pool fits the panels


async def record(path: Path) -> None:
    """Write the trace; raises `SystemExit` if a comparison does not come out as told, or if the file is too large."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        session = Session(Recording(EngineClient(), made), Load(pages=PAGES))
        plays, _ = load_chapters()
        tour = Tour([play.chapter for play in plays])
        async with check.staged(session, tour.question) as stage:
            checked = await check.walk(stage, plays, tour, print)
        print(check.table(checked))
        if wrong := check.verdicts(checked):
            raise SystemExit("\n".join(wrong))
        if made.stat().st_size > LIMIT:
            raise SystemExit(f"The trace has {made.stat().st_size:,} bytes, more than {LIMIT:,}.")
        made.replace(path)
    print(f"{path.stat().st_size:,} of {LIMIT:,} bytes")


if __name__ == "__main__":
    asyncio.run(record(trace_file()))
