"""How long until the engine is ready, from a warm disk, beside what importing torch alone takes in the same run.

    python benchmarks/ready.py [--rounds 5]

Each time is from the start of a fresh engine process to its `Ready`, as a client sees it. The first load of a model
on a machine goes through transformers and leaves a blueprint; it is measured too, with the blueprints put aside.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cutaway.engine import places
from cutaway.engine.client import EngineClient
from cutaway.engine.errors import CutawayError
from cutaway.engine.protocol import CardChanged, Failed, Load, Ready

TARGET = 3.0  # seconds


async def _ready(environment: dict[str, str]) -> float:
    os.environ.update(environment)
    began = time.perf_counter()
    client = EngineClient()
    await client.start()
    try:
        await client.send(Load(offline=True))
        async for event in client.events():
            if isinstance(event, Ready) and event.card.compiling:
                continue  # the next load has the kernels
            if isinstance(event, Ready | CardChanged):
                return time.perf_counter() - began
            if isinstance(event, Failed):
                raise CutawayError(event.message)
        raise CutawayError("the engine ended")
    finally:
        await client.close()


def _import_torch() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    usual = places.cache()
    asyncio.run(_ready({}))  # leaves the blueprint, fills the disk's cache
    times: dict[str, list[float]] = {"import torch": [], "ready": [], "ready, first load of a model": []}
    with tempfile.TemporaryDirectory() as scratch:
        empty = Path(scratch) / "cache"
        empty.mkdir()
        for part in usual.iterdir():
            if part.name != "blueprints":
                (empty / part.name).symlink_to(part)
        for _ in range(rounds):
            times["import torch"].append(_import_torch())
            times["ready"].append(asyncio.run(_ready({"CUTAWAY_CACHE_DIR": str(usual)})))
            times["ready, first load of a model"].append(asyncio.run(_ready({"CUTAWAY_CACHE_DIR": str(empty)})))
            shutil.rmtree(empty / "blueprints", ignore_errors=True)
    medians = {side: statistics.median(values) for side, values in times.items()}
    for side, values in times.items():
        print(f"{side:30} {medians[side]:5.2f} s   rounds: {', '.join(f'{value:.2f}' for value in values)}")
    share = medians["import torch"] / medians["ready"]
    print(f"ready from a warm disk: {medians['ready']:.2f} s (target {TARGET:.0f} s), {share:.0%} of it torch's import")


if __name__ == "__main__":
    main()
