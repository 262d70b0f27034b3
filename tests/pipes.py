"""An engine process seen from as close as can be."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

from cutaway.engine import wire
from cutaway.engine.protocol import (
    AnyCommand,
    AnyEvent,
)

from .patience import PATIENCE
from .scripted_engine import COMMAND


class Pipe:
    """Bytes in, messages out."""

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(COMMAND, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def send(self, *commands: AnyCommand) -> None:
        self.stdin.write(b"".join(map(wire.encode, commands)))
        self.stdin.flush()

    def events(self) -> Iterator[AnyEvent]:
        return (wire.decode_event(payload) for payload in wire.read_payloads(self.stdout.fileno()))

    def ends(self) -> int:
        self.stdin.close()
        return self.process.wait(PATIENCE)


@contextlib.contextmanager
def running() -> Iterator[Pipe]:
    """A started process, and its end."""
    engine = Pipe()
    try:
        yield engine
    finally:
        engine.process.kill()
        engine.process.wait()
        engine.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            engine.stdin.close()


def up_to(pipe: Pipe, kind: type) -> list[AnyEvent]:
    """Everything heard, the first event of this kind the last."""
    heard: list[AnyEvent] = []
    for event in pipe.events():
        heard.append(event)
        if isinstance(event, kind):
            return heard
    raise AssertionError(f"the engine ended after {heard[-3:]}")
