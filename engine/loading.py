"""A model being loaded in a thread of its own, while the model loaded before goes on serving. No torch."""

from __future__ import annotations

import contextlib
import gc
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from .errors import LoadCancelled
from .protocol import AnyCommand, AnyEvent, Load, LoadProgress
from .voice import Voice

# A loader busy in Python would otherwise hold back every operation of a serving model by 5 ms.
SWITCH_WHILE_LOADING = 0.0002  # seconds

logger = logging.getLogger(__name__)


class _Loaders:
    """The threads that load now, and the interpreter's interval when none does."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.usual = sys.getswitchinterval()


_loaders = _Loaders()


@contextlib.contextmanager
def beside_serving() -> Iterator[None]:
    """Load in this thread without holding back a model that serves in another."""
    with _loaders.lock:
        if not _loaders.count:
            _loaders.usual = sys.getswitchinterval()
            sys.setswitchinterval(SWITCH_WHILE_LOADING)
        _loaders.count += 1
    try:
        yield
    finally:
        with _loaders.lock:
            _loaders.count -= 1
            if not _loaders.count:
                sys.setswitchinterval(_loaders.usual)


class Core(Protocol):
    """A loaded model. Everything is called by one thread; errors a user can meet become events, not exceptions."""

    def start(self, wake: Callable[[], None]) -> None:
        """Say `Ready` and `Configured`: it serves from now on.

        `wake` may be called from any thread when there is something for `step` to do that no command asked for.
        """
        ...

    @property
    def has_work(self) -> bool:
        """Whether `step` would run something now; false while paused."""
        ...

    def handle(self, command: AnyCommand) -> None:
        """Carry out one command. An abort ends the request before it returns."""
        ...

    def step(self) -> None:
        """Run one iteration, a small part of a second."""
        ...

    def idle_check(self) -> None:
        """Raise if anything is left over now that no request is alive."""
        ...

    def close(self) -> None:
        """Serve no more: whatever it still prepares is dropped."""
        ...


class Build(Protocol):
    """Makes a core, in a thread of its own; the core is not started.

    What is said through `emit` before the core serves is kept back until then. `progress` raises `LoadCancelled` after
    a cancel, and `cancelled` tells of one between calls. Raises `CutawayError`.
    """

    def __call__(
        self,
        load: Load,
        emit: Callable[[AnyEvent], None],
        progress: Callable[[LoadProgress], None],
        cancelled: Callable[[], bool],
    ) -> Core: ...


class Loading:
    """One load: running until `done` was called, then with a `core` or an `error`."""

    def __init__(
        self, load: Load, build: Build, send: Callable[[AnyEvent], None], done: Callable[[Loading], None]
    ) -> None:
        self.load = load
        self.voice = Voice(send)
        self.core: Core | None = None
        self.error: BaseException | None = None
        self._build = build
        self._send = send
        self._done = done
        self._cancelled = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Ask the loader to stop. Whatever it still says is not heard."""
        self._cancelled.set()

    def _run(self) -> None:
        gc.disable()  # of all that importing makes nothing is garbage, and looking for some takes half a second
        try:
            with beside_serving():
                self.core = self._build(self.load, self.voice, self._progress, self._cancelled.is_set)
        except BaseException as error:  # a thread has nobody above it to tell
            self.error = error
        finally:
            gc.enable()
            self._done(self)

    def _progress(self, event: LoadProgress) -> None:
        if self.cancelled:
            raise LoadCancelled("The load was cancelled.")
        self._send(event)
