"""A device that computes as late as it may, or at once: what the engine launches ahead is tested against it.

It has a stream of work, done in the order of its launch when the host waits for a result. Its "keys and values" are
chains of hashes, one link a position, and the logits are a function of the last link: a wrong page, slot, token or
order shows as another reply. Logits lie in buffers that the next step of the same size overwrites, as graphs have it.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from cutaway.engine.build import assemble
from cutaway.engine.plan import StepPlan
from cutaway.engine.protocol import AnyEvent, ModelCard
from cutaway.engine.sampler import Draw, Sampler, SampleRow, Sampling
from cutaway.engine.survey_device import DeviceSurvey
from cutaway.engine.tokenizer import load_tokenizer
from torch import Tensor

from .engine_driver import Driver
from .tiny_folder import VOCABULARY

STATES = 211


class Stream:
    """Work in the order of its launch; `eager`: done at once, else when it is waited for."""

    def __init__(self, eager: bool) -> None:
        self.eager = eager
        self.worked: Callable[[], None] = lambda: None  # called after each piece of work
        self._waiting: list[Callable[[], None]] = []
        self._done = 0

    def launch(self, work: Callable[[], None]) -> int:
        """Returns the number to wait for."""
        self._waiting.append(work)
        number = self._done + len(self._waiting)
        if self.eager:
            self.wait(number)
        return number

    def wait(self, number: int | None = None) -> None:
        """Until the work of this number is done; without one, all of it."""
        while self._waiting and (number is None or self._done < number):
            self._done += 1
            self._waiting.pop(0)()
            self.worked()


class Memory:
    """What the device has written, slot by slot, and the model: logits by the last link of a chain."""

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.links: dict[int, tuple[int, int]] = {}  # slot: token, link
        self.computed = 0  # positions
        generator = torch.Generator().manual_seed(5)
        self._logits = torch.randn(STATES, VOCABULARY, generator=generator) * 4

    def step(self, plan: StepPlan, guesses: Tensor | None) -> list[Tensor]:
        for copy in plan.copies:
            for offset in range(copy.fill):
                self.links[copy.target * self.page_size + offset] = self.links[copy.source * self.page_size + offset]
        rows: list[Tensor] = []
        for work in plan.work:
            slots = [
                work.block_table[at // self.page_size] * self.page_size + at % self.page_size for at in range(work.end)
            ]
            assert tuple(slots[work.start :]) == work.slots
            link = 0
            for at, slot in enumerate(slots):
                if at >= work.start:
                    token = work.token_ids[at - work.start]
                    if token < 0:
                        assert guesses is not None, "a token that nobody guesses"
                        token = int(guesses[~token])
                    self.links[slot] = (token, hash((link, token)))
                    self.computed += 1
                token, held = self.links[slot]
                assert held == hash((link, token)), f"slot {slot} holds another sequence's position"
                link = held
            if work.samples:
                rows.append(self._logits[link % STATES])
        return rows


class LateLogits:
    """Logits that are there when the stream has come so far; indexing them is work in the stream, too."""

    device = torch.device("cpu")

    def __init__(self, read: Callable[[], Tensor]) -> None:
        self.read = read

    def __getitem__(self, rows: Tensor) -> LateLogits:
        return LateLogits(lambda: self.read()[rows])


class PlainRunner:
    """Runs on the device and waits for it."""

    def __init__(self, stream: Stream, memory: Memory) -> None:
        self.stream = stream
        self.memory = memory
        self.buffers: dict[int, Tensor] = {}
        self.before: Callable[[StepPlan], None] = lambda plan: None

    def run(self, plan: StepPlan) -> Any:
        return self.launch(plan, None)

    def launch(self, plan: StepPlan, guesses: Tensor | None) -> Any:
        self.before(plan)
        count = len(plan.sampling)
        logits = self.buffers.setdefault(count, torch.empty(count, VOCABULARY))

        def work() -> None:
            for row, made in zip(logits, self.memory.step(plan, guesses), strict=True):
                row.copy_(made)

        self.stream.launch(work)
        return LateLogits(lambda: logits)

    def use_threads(self, count: int) -> None:
        """There are none."""

    def release(self, key: str) -> None:
        """Nothing is kept."""


class AheadRunner(PlainRunner):
    """Only launches."""

    def run_ahead(self, plan: StepPlan, guesses: Tensor) -> Any:
        return self.launch(plan, guesses)


class OnDevice(Sampler):
    """The device's way, on a CPU."""

    def _survey(self, logits: Tensor) -> DeviceSurvey:
        return DeviceSurvey()


class LateSampling(Sampling):
    """Draws that wait for the stream."""

    def __init__(self, launch: Callable[[], Sampling], stream: Stream, rows: int, spoil: Callable[[], bool]) -> None:
        guesses = torch.full((rows,), -1, dtype=torch.int32)
        super().__init__([], [], [], False, list, guesses, self._here)
        self._made: Sampling | None = None
        self._stream = stream

        def work() -> None:
            self._made = launch()
            if self._made.guesses is not None:
                guesses.copy_(self._made.guesses)
                for row in range(rows):
                    if spoil():
                        guesses[row] = (guesses[row] + 1) % VOCABULARY

        self._number = stream.launch(work)
        self.wait = lambda: stream.wait(self._number)

    def draws(self) -> list[Draw]:
        self._stream.wait(self._number)
        assert self._made is not None
        return self._made.draws()

    def _here(self) -> list[int]:
        self._stream.wait(self._number)
        assert self.guesses is not None
        return self.guesses.tolist()


class LateSampler(Sampler):
    """Looks at logits in the stream; a share of the guesses is wrong."""

    def __init__(self, stream: Stream, wrong: float) -> None:
        super().__init__()
        self._stream = stream
        self._chance = random.Random(7)
        self._wrong = wrong
        self._real = OnDevice()

    def start(self, logits: Any, rows: Sequence[SampleRow], inspect: bool = True, guess: bool = False) -> LateSampling:
        taken = [dataclasses.replace(row, generated=list(row.generated), history=None) for row in rows]
        return LateSampling(
            lambda: self._real.start(logits.read(), taken, inspect, guess),
            self._stream,
            len(rows),
            lambda: self._chance.random() < self._wrong,
        )


def start(
    folder: Path, *, ahead: bool, eager: bool = False, wrong: float = 0.0, **card: Any
) -> tuple[Driver, PlainRunner]:
    """A core over such a device; `folder` gives the tokenizer, `card` changes pages, lanes, …"""
    values: dict[str, Any] = {
        "name": "late", "identity": "0" * 64, "architecture": "chain", "parameters": 0, "weight_bytes": 0,
        "precision": "float32", "device": "cpu", "threads": 1, "window": 512, "vocabulary": VOCABULARY, "layers": 0,
        "page_size": 4, "pages": 64, "page_bytes": 0, "max_lanes": 8, "token_budget": 32, "attention": "paged", **card,
    }  # fmt: skip
    events: list[AnyEvent] = []
    stream = Stream(eager or not ahead)
    runner = (AheadRunner if ahead else PlainRunner)(stream, Memory(values["page_size"]))
    core = assemble(ModelCard(**values), load_tokenizer(folder), runner, events.append)
    core.sampler = LateSampler(stream, wrong)
    core.start()
    return Driver(core, events), runner
