"""A few seconds of real work on the real engine: how fast it reads, and how fast it writes."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from itertools import pairwise

import msgspec

from ...engine.client import Engine
from ...engine.errors import CutawayError
from ...engine.models.storage import size
from ...engine.protocol import (
    Abort,
    AnyEvent,
    CardChanged,
    ClearCache,
    Configure,
    Failed,
    Finished,
    Inspect,
    Load,
    LoadProgress,
    Machine,
    Message,
    ModelCard,
    Ready,
    Rejected,
    SamplingSettings,
    Submit,
    TextDelta,
)
from ..commands.stats import percentile
from .findings import Finding

GROUP = "measured"
READ_WORDS = 300  # of the prompt that is read; a word is a token or two
WRITE_S = 2.5  # seconds of writing
PATIENCE_S = 120.0  # for an engine to tell of its machine: torch is imported, and kernels may be compiled
_WORDS = ("river", "stone", "light", "paper", "garden", "number", "winter", "letter", "music", "mountain", "silver")


class Trouble(CutawayError):
    """What the engine refused or failed at."""


class Examination:
    """One engine, asked about its machine and then put to work. `tell` gets progress."""

    def __init__(self, engine: Engine, tell: Callable[[LoadProgress], None]) -> None:
        self._engine = engine
        self._tell = tell
        self._events: AsyncIterator[AnyEvent] | None = None

    async def start(self) -> None:
        """Raises `CutawayError`."""
        await self._engine.start()
        self._events = self._engine.events()

    async def close(self) -> None:
        await self._engine.close()

    async def machine(self) -> Machine | None:
        """What the engine runs on; None from an engine that does not tell. Raises `CutawayError`."""
        self._tell(LoadProgress("look"))
        await self._engine.send(Inspect(machine=True))
        try:
            async with asyncio.timeout(PATIENCE_S):
                async for event in self._listen(("setting",)):
                    if isinstance(event, Machine):
                        return event
                    if isinstance(event, Failed):
                        return None
        except TimeoutError:
            return None
        return None

    async def load(self, load: Load) -> ModelCard:
        """The card of what is to be measured: our own kernels, where they are still being compiled, are waited for.

        Raises `CutawayError`: the model is not here, does not fit, or the engine died.
        """
        await self._engine.send(load)
        async for event in self._listen():
            if isinstance(event, LoadProgress):
                self._tell(event)
            elif isinstance(event, Ready | CardChanged):
                if event.card.compiling:
                    self._tell(LoadProgress("compile", note="our C++ kernels"))
                    continue
                await self._engine.send(Configure(inspect=False))
                return event.card
        raise Trouble("The engine ended.")

    async def measure(self, card: ModelCard) -> list[Finding]:
        """Read a prompt, then write for a while. Raises `CutawayError`."""
        if card.attention == "remote":
            return await self._measure_server(card)
        await self._engine.send(ClearCache())
        words = random.Random(7).choices(_WORDS, k=min(READ_WORDS, card.window // 4))
        read = await self._ask("read", " ".join(words), SamplingSettings(temperature=0, max_tokens=1, candidates=0))
        most = max(1, card.window - 64)
        settings = SamplingSettings(temperature=0, ignore_eos=True, max_tokens=most, candidates=0)
        written = await self._ask("write", "Once upon a time", settings, WRITE_S)
        return [_loaded(card), _prefill(read), _decode(written, card)]

    async def _measure_server(self, card: ModelCard) -> list[Finding]:
        """A server is only asked a question, in the settings that every one of them knows."""
        settings = SamplingSettings(temperature=0, max_tokens=512, candidates=0)
        written = await self._ask("write", "Tell a long story about a river.", settings, WRITE_S, chat=True)
        return [_loaded(card), _decode(written, card)]

    async def _ask(
        self, name: str, text: str, settings: SamplingSettings, seconds: float = 0.0, chat: bool = False
    ) -> Finished:
        """The end of one request, stopped after some seconds of writing."""
        asked = Submit(name, messages=(Message("user", text),)) if chat else Submit(name, text=text)
        await self._engine.send(msgspec.structs.replace(asked, settings=settings))
        self._tell(LoadProgress(name))
        began = 0.0
        async for event in self._listen():
            if isinstance(event, Rejected):
                raise Trouble(event.message, event.action)
            if isinstance(event, Finished):
                return event
            if isinstance(event, TextDelta) and seconds:
                began = began or time.monotonic()
                spent = time.monotonic() - began
                self._tell(LoadProgress(name, int(min(spent, seconds) * 10), int(seconds * 10)))
                if spent > seconds:
                    await self._engine.send(Abort(name))
                    seconds = 0.0
        raise Trouble("The engine ended.")

    async def _listen(self, kinds: tuple[str, ...] = ()) -> AsyncIterator[AnyEvent]:
        """Every event; failures are raised, but for these kinds, and those of kernels, which the card tells."""
        assert self._events is not None
        async for event in self._events:
            if isinstance(event, Failed) and event.kind not in (*kinds, "kernels"):
                raise Trouble(event.message, event.action)
            yield event


def not_measured(error: CutawayError) -> Finding:
    return Finding(GROUP, "speed", f"not measured: {error.message}", "wrong", error.action)


def _loaded(card: ModelCard) -> Finding:
    place = f"{card.device}, {card.precision}, {card.threads} thread{'s' if card.threads != 1 else ''}"
    told = f"{card.name} in {card.load_ns / 1e9:.1f} s: {place}, {size(card.weight_bytes)} of weights, {card.kernel}"
    return Finding(GROUP, "load", told, "note" if card.attention == "fallback" else "ok", card.attention_note)


def _prefill(end: Finished) -> Finding:
    line = end.timeline
    began = line.prefill[0][2] if line.prefill else line.scheduled_ns
    took = line.first_token_ns - began
    computed = end.prompt_tokens - end.cached_tokens
    if took <= 0:
        return Finding(GROUP, "prefill", "no figures came", "note")
    return Finding(GROUP, "prefill", f"{computed / (took / 1e9):,.0f} tokens a second, over {computed} tokens")


def _decode(end: Finished, card: ModelCard) -> Finding:
    stamps = end.timeline.tokens_ns
    if len(stamps) < 2 or stamps[-1] <= stamps[0]:
        return Finding(GROUP, "decode", "no figures came", "note")
    rate = (len(stamps) - 1) * 1e9 / (stamps[-1] - stamps[0])
    gaps = [(after - before) / 1e6 for before, after in pairwise(stamps)]
    pace = f"{percentile(gaps, 0.5):.1f} ms a token, p95 {percentile(gaps, 0.95):.1f}"
    reads = f"; {rate * card.step_bytes / 1e9:,.0f} GB/s of weights" if card.step_bytes else ""
    return Finding(GROUP, "decode", f"{rate:,.0f} tokens a second, over {len(stamps)} tokens ({pace}{reads})")
