"""Drives a real core in this process: submit, run until idle, read the events back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from cutaway.engine.build import build
from cutaway.engine.core import EngineCore
from cutaway.engine.protocol import (
    AnyCommand,
    AnyEvent,
    Finished,
    Load,
    LoadProgress,
    PromptRendered,
    Sampled,
    SamplingSettings,
    Step,
    Submit,
    TextDelta,
)

E = TypeVar("E")
GREEDY = SamplingSettings(temperature=0.0, max_tokens=16, ignore_eos=True)


@dataclasses.dataclass
class Driver:
    """A core and everything it said."""

    core: EngineCore
    events: list[AnyEvent]

    def send(self, *commands: AnyCommand) -> None:
        for command in commands:
            self.core.handle(command)

    def submit(self, name: str, ids: list[int], settings: SamplingSettings = GREEDY, **more: Any) -> None:
        self.send(Submit(name, token_ids=tuple(ids), settings=settings, **more))

    def run(self, limit: int = 100_000, until: Callable[[], bool] = lambda: False) -> int:
        """Step until idle, or until a condition holds; checks the integrity of pool and scheduler after every step."""
        steps = 0
        while self.core.has_work and not until():
            self.core.step()
            self.core.scheduler.check()
            steps += 1
            assert steps < limit, "the engine does not come to rest"
        return steps

    def of(self, kind: type[E], request: str | None = None) -> list[E]:
        found = [event for event in self.events if isinstance(event, kind)]
        return [e for e in found if request is None or getattr(e, "request", None) == request]

    def sampled(self, request: str, sample: int = 0) -> list[Sampled]:
        return [s for step in self.of(Step) for s in step.sampled if (s.request, s.sample) == (request, sample)]

    def ids(self, request: str, sample: int = 0) -> list[int]:
        return list(self.finished(request, sample).token_ids)

    def finished(self, request: str, sample: int = 0) -> Finished:
        [event] = [e for e in self.of(Finished, request) if e.sample == sample]
        return event

    def text(self, request: str, channel: str = "answer", sample: int = 0) -> str:
        deltas = [e for e in self.of(TextDelta, request) if e.channel == channel and e.sample == sample]
        return "".join(e.text for e in deltas)

    def prompt(self, request: str) -> PromptRendered:
        [event] = self.of(PromptRendered, request)
        return event

    def complete(self, ids: list[int], settings: SamplingSettings = GREEDY, name: str = "") -> list[int]:
        """Run one request alone and return its generated ids."""
        name = name or f"alone{len(self.events)}"
        self.submit(name, ids, settings)
        self.run()
        return self.ids(name)

    def steps(self) -> Iterator[Step]:
        """Iterations in which something ran."""
        return (step for step in self.of(Step) if step.lanes)


def start(model: Path | str, progress: Callable[[LoadProgress], None] = lambda _: None, **options: Any) -> Driver:
    """Load a model as the engine does, in float32 unless told otherwise."""
    events: list[AnyEvent] = []
    options = {"precision": "float32", **options}
    core = build(Load(model=str(model), **options), events.append, progress, lambda: False)
    core.start()
    return Driver(core, events)
