"""From torch's kernels to our own, between two steps: for a model that was loaded while ours were being compiled.

Both ways keep their keys and values in the same pages and multiply by the same values, so replies go on where they
are; what they say next differs by rounding only. When the compiler is done, the model is made ready once more beside
the one that serves, self-test included, and takes over before the next step. Then the other one goes.
"""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
import torch

from . import faults, kernel_choice, kernels
from .decode_step import DecodeStep, NativeStep, TorchStep
from .errors import CutawayError, KernelsError
from .kv_cache import KVCache
from .loading import beside_serving
from .protocol import CardChanged, Failed, ModelCard
from .runner import PagedRunner, Runner
from .sampler import Sampler
from .scheduler import Scheduler
from .served import Served
from .threads import usable_cores

if TYPE_CHECKING:
    from .core import EngineCore

logger = logging.getLogger(__name__)

NEXT = "The next start tries again; `cutaway doctor` tells what is missing."


def prefix_salt(card: ModelCard) -> bytes:
    """What pages must have in common to hold the same bits for the same tokens."""
    return f"{card.identity}:{card.precision}:{card.kernel}".encode()


def spare_one() -> int:
    """Threads that leave a core to the compiler, where there is more than one."""
    return max(1, usable_cores() - 1)


class Takeover:
    """The same model with our own kernels, made ready beside the one that serves.

    `prepare` makes it, and looks now and then whether it should stop. `threads` 0 means as many as are fastest.
    """

    def __init__(self, threads: int, prepare: Callable[[Callable[[], bool]], Served]) -> None:
        self.threads = threads
        self.made: Served | None = None
        self.problem: CutawayError | None = None  # why there is none
        self._prepare: Callable[[Callable[[], bool]], Served] | None = prepare
        self._closed = threading.Event()
        self._done = threading.Event()
        self._wake: Callable[[], None] = lambda: None

    @property
    def ready(self) -> bool:
        """Whether it is known how it went: `made` or `problem` is there."""
        return self._done.is_set()

    def begin(self, wake: Callable[[], None]) -> None:
        """Get ready as soon as the compiler is done; `wake` is called then, by another thread."""
        self._wake = wake
        compilation = kernels.under_way()
        if compilation is None:
            self._start()
        else:
            compilation.then(self._start)

    def wait(self) -> None:
        """Until `ready`; `begin` must have been called."""
        self._done.wait()

    def close(self) -> None:
        """Nobody waits for it any more."""
        self._closed.set()
        self._prepare = self.made = None

    def _start(self) -> None:
        if not self._closed.is_set():
            threading.Thread(target=self._run, name="takeover", daemon=True).start()

    def _run(self) -> None:
        prepare = self._prepare
        try:
            if kernels.at_hand() is None:
                told = f"Our own kernels can't serve, so torch's go on, several times slower: {kernels.problem()}"
                raise KernelsError(f"{told.rstrip('.')}.", NEXT)
            if prepare is not None:
                with beside_serving():
                    self.made = prepare(self._closed.is_set)
        except Exception as error:
            self.problem = faults.as_error(error, "changing to our own kernels")
            if not self._closed.is_set():
                logger.warning("torch's kernels go on", exc_info=error)
        self._prepare = None
        if self._closed.is_set():
            self.made = None
        self._done.set()
        self._wake()


def take_over(core: EngineCore, takeover: Takeover) -> None:
    """Let our own kernels serve from the next step on, or say once why they do not."""
    core.takeover = None
    made, problem = takeover.made, takeover.problem
    takeover.close()
    if made is not None and (not made.reason) != (core.card.attention == "paged"):
        made, problem = None, KernelsError(f"Our own kernels can't serve this model: {made.reason}.", "Torch's go on.")
    if made is not None:
        core.runner = made.runner
        core.sampler = Sampler()  # which looks at logits by our kernels, too
        core.card = msgspec.structs.replace(
            core.card,
            kernel=made.kernel,
            weight_bytes=made.weight_bytes,
            step_bytes=made.step_bytes,
            deterministic=made.deterministic,
            selftest=made.test,
        )
        # A prefix must hold the bits that our kernels give it, or a reply would depend on who came before.
        _forget_prefixes(core.scheduler, prefix_salt(core.card))
        gc.collect()  # the other way's weights go
    threads = takeover.threads or _measure(core.runner, core.card.page_size)
    core.runner.use_threads(threads)
    if not takeover.threads and isinstance(core.runner, PagedRunner):
        core.runner.watch_threads()
    core.card = msgspec.structs.replace(core.card, threads=threads, compiling=False)
    core.emit(CardChanged(core.card))
    if problem is not None:
        core.emit(Failed(problem.message, problem.action, KernelsError.kind))
    logger.info("%s serves, %d threads", core.card.kernel, threads)


def settle(core: EngineCore) -> None:
    """Wait until our own kernels serve, if they are still to come: for whoever measures. To be called when started."""
    if core.takeover is not None:
        core.takeover.wait()
        take_over(core, core.takeover)


def _forget_prefixes(scheduler: Scheduler, salt: bytes) -> None:
    """Match none of the pages computed so far from now on.

    Sequences that have pages go on with them, and so do their forks; those that have none begin anew.
    """
    scheduler.pool.clear_cache()
    scheduler.pool.index.restart(salt)
    for sequence in scheduler.waiting:
        if not sequence.block_table:
            sequence.chain.clear()


def _measure(runner: Runner, page_size: int) -> int:
    """How many threads are fastest, measured beside the pages that hold somebody's tokens."""
    if not isinstance(runner, PagedRunner):
        return usable_cores()
    some = next(iter(runner.cache.keys.values()))
    page = KVCache.zeros(runner.cache.shapes, 1, page_size, some.dtype, some.device)
    decode: DecodeStep | None = None
    if isinstance(runner.decode, NativeStep | TorchStep):
        decode = type(runner.decode)(runner.model, page, runner.decode.shape)
    return kernel_choice.threads(PagedRunner(runner.model, page, decode), page_size, torch.device("cpu"))
