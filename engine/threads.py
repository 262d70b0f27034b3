"""How many threads compute, and how long they wait awake. Imports no torch: the environment must come first.

A sleeping OpenMP worker takes 50 to 100 us to wake on a virtual machine, and one that spins without bound ruins a
busy one; so the wait is bounded. Our own kernels keep their own helpers (kernels_team.h) and are not touched by
these settings: they are for the operators of torch around them.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path

SPINS = 3000  # turns of libgomp's waiting loop: some ten microseconds
ENOUGH = 0.03  # a further thread must save this share of the time


def prepare_environment(environment: MutableMapping[str, str] = os.environ, threads: int = 0) -> None:
    """Set how OpenMP runs, before torch is imported; what the user set stays.

    `threads` 0 means one a physical core that this process may use.
    """
    count = str(threads or usable_cores())
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        environment.setdefault(name, environment.get("OMP_NUM_THREADS", count))
    if "OMP_WAIT_POLICY" not in environment:
        environment.setdefault("GOMP_SPINCOUNT", str(SPINS))  # libgomp, which torch's Linux builds carry
        environment.setdefault("KMP_BLOCKTIME", "0")  # LLVM's and Intel's, in milliseconds


def usable_cores(system: Path = Path("/sys")) -> int:
    """Physical cores that this process may use: affinity, sibling threads and the container's quota considered."""
    try:
        allowed = os.sched_getaffinity(0)
    except AttributeError:  # not Linux
        return max(1, (os.cpu_count() or 2) // (1 if os.uname().machine == "arm64" else 2))
    cores = {_first_sibling(system, cpu) for cpu in allowed}
    try:
        quota, period = (system / "fs/cgroup/cpu.max").read_text().split()
        limit = len(cores) if quota == "max" else int(quota) // int(period)
    except (OSError, ValueError):
        limit = len(cores)
    return max(1, min(len(cores), limit))


def _first_sibling(system: Path, cpu: int) -> str:
    """The lowest hardware thread on the core of `cpu`, which stands for the core."""
    try:
        siblings = (system / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(cpu)
    return siblings.replace("-", ",").split(",")[0]


@dataclasses.dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured: the chosen number of threads, and milliseconds a step by number of threads."""

    threads: int
    milliseconds: dict[int, float]


def calibrate(step: Callable[[int], object], most: int, seconds: float = 0.2) -> Calibration:
    """Time `step(threads)` with 1, 2, 4 ... `most` threads in turn for about `seconds`, and choose.

    Each count is judged by its median, so that a core that another program keeps busy counts against using it. More
    threads must pay for themselves. Every count is tried three times at least.
    """
    counts = list(_doublings(max(1, most)))
    times: dict[int, list[float]] = {count: [] for count in counts}
    for count in counts:
        step(count)  # wakes helpers, fills caches
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[counts[-1]]) < 3:
        for count in counts:
            start = time.perf_counter()
            step(count)
            times[count].append((time.perf_counter() - start) * 1e3)
    middle = {count: statistics.median(taken) for count, taken in times.items()}
    best = counts[0]
    for count in counts[1:]:
        if middle[count] < middle[best] * (1 - ENOUGH):
            best = count
    return Calibration(best, middle)


def _doublings(most: int) -> Iterator[int]:
    count = 1
    while count < most:
        yield count
        count *= 2
    yield most


class ThreadWatch:
    """Keeps choosing between two numbers of threads while steps run, since machines get busy and quiet again.

    Now and then a few steps run with the other number; if their median is clearly better, it becomes the one. The
    first tries come soon, in case the choice at load was made in a bad moment, later ones seldom: `LONGEST` steps
    apart they cost next to nothing. Steps that suddenly take longer are a reason to try at once. Only steps of
    equal work are compared, and what is known of them outlasts a prompt that is read in between.
    """

    SOONEST, LONGEST = 16, 256  # steps between tries
    TRIES = 4  # steps with the other number; the first wakes threads and does not count
    HOPELESS = 1.2  # so many times slower, and no further one is tried
    RECENT, SLOWER = 8, 1.5  # so many steps, so many times slower than those before: something happened
    KINDS = 8  # amounts of work that are remembered

    def __init__(self, chosen: int, other: int) -> None:
        self.chosen = chosen
        self.other = other
        self._pause = self.SOONEST
        self._since = 0  # steps since the last try
        self._work = 0
        self._trying = 0  # the work that the other number is tried on; 0: none
        self._usual: dict[int, deque[float]] = {}  # seconds of the last steps, by work
        self._tried: list[float] = []

    def count(self, work: int) -> int:
        """The number of threads for the next step, which computes `work` positions."""
        self._work = work
        if work != self._trying:
            self._tried = []
            self._trying = work if self._due(work) else 0
        return self.other if self._trying else self.chosen

    def took(self, seconds: float) -> None:
        """The step just asked for took this long."""
        self._since += 1
        if not self._trying:
            self._usual.setdefault(self._work, deque(maxlen=4 * self.RECENT)).append(seconds)
            if len(self._usual) > self.KINDS:
                del self._usual[next(iter(self._usual))]
            return
        self._tried.append(seconds)
        usual = statistics.median(list(self._usual[self._work])[-self.RECENT :])
        wakes = self.other > self.chosen and len(self._tried) == 1
        hopeless = seconds > self.HOPELESS * usual and not wakes
        if len(self._tried) < self.TRIES and not hopeless:
            return
        better = not hopeless and statistics.median(self._tried[1:]) < usual * (1 - ENOUGH)
        if better:
            self.chosen, self.other = self.other, self.chosen
        self._pause = self.SOONEST if better else min(self.LONGEST, 2 * self._pause)
        self._since, self._trying = 0, 0
        self._usual.clear()

    def _due(self, work: int) -> bool:
        usual = self._usual.get(work, ())
        if len(usual) < self.SOONEST:
            return False
        return self._since >= self._pause or (self._since % self.RECENT == 0 and self._slowed(list(usual)))

    def _slowed(self, usual: list[float]) -> bool:
        before, recent = usual[: -self.RECENT], usual[-self.RECENT :]
        return statistics.median(recent) > self.SLOWER * statistics.median(before)
