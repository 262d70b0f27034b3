"""Threads for the arithmetic: how many, and how long an idle one spins. To be settled before torch is imported.

OpenMP's workers wait between two parallel regions. If they spin without end, a busy machine is ruined (a token takes
seconds); if they sleep at once, a virtual machine needs 50 to 100 µs to wake one, thousands of times a token. A
bounded spin serves both.
"""

from __future__ import annotations

import os

SPINS = "3000"  # turns of libgomp's waiting loop, some tens of µs


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def prepare_environment() -> None:
    """Set what OpenMP reads when torch loads it, unless the user has set it. Torch must not be imported yet."""
    os.environ.setdefault("OMP_NUM_THREADS", str(usable_cores()))
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
