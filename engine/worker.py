"""The engine as a process: `cutaway engine` speaks the protocol on standard input and output.

Descriptor 1 is moved away at once and pointed at descriptor 2, so that no library can write into the stream; both
become the log. The process ends when its input ends: whoever started it can die in any way and leaves no orphan. torch
is imported by the first load, after the environment is prepared for it.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from . import kernels, log, threads, wire
from .errors import ProtocolError
from .loading import Build, Core
from .outbox import Outbox
from .protocol import PROTOCOL_VERSION, AnyEvent, Failed, Hello, Load, LoadProgress, Metrics, Welcome
from .serving import Lost, Serving, Unreadable

GRACE = 5.0  # seconds that a client's end leaves for a step in progress
REST = 0.06  # seconds between two writes of what streams: less than a screen needs between two paints
LAST_WRITES = 2.0  # seconds for the client to read what is still to be said

logger = logging.getLogger(__name__)


class AnyServing(Protocol):
    """What stands between the pipe and whatever answers: local cores, or a server."""

    @property
    def inbox(self) -> AnyInbox: ...

    def run(self) -> int: ...


class AnyInbox(Protocol):
    def put(self, item: Any, /) -> None: ...


def main(
    build: Build | None = None, serving_for: Callable[[Callable[[AnyEvent], None]], AnyServing] | None = None
) -> int:
    """Serve the client on descriptors 0 and 1 until it is gone; return the exit code.

    `build` makes cores; without it the real ones are made. `serving_for` makes what takes their place, from the
    function that its events go to. To be called once, by the process's main thread.
    """
    source, target = _take_pipes()
    log_file = log.start()
    outbox, ended = Outbox(), threading.Event()
    send = _events_into(outbox)
    serving: AnyServing = serving_for(send) if serving_for is not None else Serving(build or build_core, send)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C in a shared terminal is the client's to understand
    signal.signal(signal.SIGTERM, lambda *_: serving.inbox.put(Lost()))
    threads.prepare_environment()
    writer = threading.Thread(target=_write, args=(target, outbox, serving), name="write", daemon=True)
    writer.start()
    reader = threading.Thread(target=_read, args=(source, outbox, serving, ended), name="read", daemon=True)
    reader.start()
    try:
        code = serving.run()
    except Exception:
        logger.critical("the engine's loop failed", exc_info=True)
        code = 1
    outbox.close()
    writer.join(LAST_WRITES)
    kernels.end()
    ended.set()
    logger.info("ended with %d", code)
    if log_file is not None:
        log_file.rotate()
    return code


def build_core(
    load: Load,
    emit: Callable[[AnyEvent], None],
    progress: Callable[[LoadProgress], None],
    cancelled: Callable[[], bool],
) -> Core:
    """Make a real core: the first import of torch."""
    progress(LoadProgress("import", note="torch"))
    from .build import build

    return build(load, emit, progress, cancelled)


def version() -> str:
    """Of this package."""
    return importlib.metadata.version("cutaway")


def greet(hello: object) -> Welcome:
    """The answer to a client's first message. Raises `ProtocolError` for one that can't be served."""
    if not isinstance(hello, Hello):
        raise ProtocolError(f"The first message must be Hello, not {type(hello).__name__}.")
    if hello.protocol != PROTOCOL_VERSION:
        raise ProtocolError(
            f"The client {hello.client or 'here'} speaks protocol {hello.protocol}, and this engine (cutaway "
            f"{version()}) speaks {PROTOCOL_VERSION}.",
            "Install the same version of cutaway on both sides.",
        )
    return Welcome(PROTOCOL_VERSION, version(), os.getpid(), time.monotonic_ns())


def _take_pipes() -> tuple[int, int]:
    """Keep the two ends of the stream to ourselves; leave harmless ones in their places."""
    source, target = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return source, target


def _events_into(outbox: Outbox) -> Callable[[AnyEvent], None]:
    def send(event: AnyEvent) -> None:
        if isinstance(event, Metrics):
            event = msgspec.structs.replace(event, events_merged=outbox.merged)
        outbox.put(event)

    return send


def _write(target: int, outbox: Outbox, serving: AnyServing) -> None:
    try:
        while events := outbox.take(rest=REST):
            wire.write_all(target, b"".join(map(_encoded, events)))
    except OSError:
        serving.inbox.put(Lost())


def _encoded(event: AnyEvent) -> bytes:
    try:
        return wire.encode(event)
    except ProtocolError as error:
        logger.exception("an event could not be sent")
        return wire.encode(Failed(error.message, error.action, error.kind, request=getattr(event, "request", "")))


def _read(source: int, outbox: Outbox, serving: AnyServing, ended: threading.Event) -> None:
    greeted = False
    try:
        for payload in wire.read_payloads(source):
            try:
                command = wire.decode_command(payload)
            except wire.UnknownMessage as error:
                if not greeted:
                    raise
                serving.inbox.put(Unreadable(error))
                continue
            if not greeted:
                outbox.put(greet(command))
                greeted = True
            serving.inbox.put(command)
        serving.inbox.put(Lost())
    except ProtocolError as error:
        serving.inbox.put(Lost(str(error)))
    except OSError:
        serving.inbox.put(Lost())
    if not ended.wait(GRACE + LAST_WRITES):
        logger.critical("a step did not end within %.0f s of the client's end", GRACE)
        os._exit(1)
