"""Runs the benchmark's requests, one group after the other, through a conversation with an engine."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from datetime import datetime

from ...engine.errors import CutawayError
from ...engine.protocol import (
    AnyEvent,
    ClearCache,
    Finished,
    Inspect,
    Metrics,
    ModelCard,
    SamplingSettings,
    Submit,
    TextDelta,
)
from ..commands.conversing import Conversation
from .measures import (
    FollowUpResult,
    Report,
    Served,
    StreamsResult,
    follow_up_result,
    position_bytes,
    served,
    streams_result,
)
from .prompts import Prompts

WARM_UP_WORDS = 64
WARM_UP_TOKENS = 8
CHAT_TOKENS = 2000  # of the chat that the follow-up goes on with, where the window has room
REPLY_TOKENS = 16
QUESTION_TOKENS = 12

Tell = Callable[[str, float], None]


class TooShort(CutawayError):
    """A reply that is no use for measuring."""

    kind = "bench"


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What is measured: numbers of requests at once, tokens of prompt and reply, and how often."""

    streams: tuple[int, ...]
    prompt_tokens: int
    new_tokens: int
    rounds: int


@dataclasses.dataclass
class _Heard:
    sent_ns: int
    arrivals_ns: list[int] = dataclasses.field(default_factory=list)
    text: list[str] = dataclasses.field(default_factory=list)


class Bench:
    """One benchmark over an opened conversation. `tell` is told what is measured, and the share done of everything."""

    def __init__(self, conversation: Conversation, card: ModelCard, sizes: Sizes, tell: Tell) -> None:
        self.conversation = conversation
        self.card = card
        self.sizes = sizes
        self._tell = tell
        self._prompts = Prompts()
        self._stage = ""
        self._units = _units(sizes, follow_ups=card.attention != "remote")
        self._done = 0
        self._requests = 0
        self._clears = card.attention != "remote"  # a server's cache can't be cleared from here
        self._memory = 0  # bytes a second; 0: the engine does not tell
        conversation.heard = self._hear

    async def run(self) -> Report:
        """Measure everything. Raises `CutawayError`: the engine's troubles, or `TooShort`."""
        if self.card.compiling:
            self._tell("waiting for the kernels", 0.0)
            self.card = await self.conversation.compiled()
        self._stage = "warming up"
        text = self._prompts.make(WARM_UP_WORDS)
        [first], _ = await self._together([text], WARM_UP_TOKENS)
        self._prompts.learn(WARM_UP_WORDS, first.prompt_tokens)
        # An engine answers in order: when the second reply is there, the answer is too, if it gives one.
        await self.conversation.engine.send(Inspect(memory=True))
        await self._together([self._prompts.make(WARM_UP_TOKENS)], WARM_UP_TOKENS)
        rounds: dict[int, list[list[Served]]] = {count: [] for count in self.sizes.streams}
        warm: list[Served] = []
        cold: list[Served] = []
        for number in range(1, self.sizes.rounds + 1):
            for count, found in rounds.items():
                plural = "stream" if count == 1 else "streams"
                self._stage = f"{count} {plural}, round {number} of {self.sizes.rounds}"
                found.append(await self._streams(count))
            if not self._clears:
                continue
            self._stage = f"follow-up, round {number} of {self.sizes.rounds}"
            pair = await self._follow_up()
            warm.append(pair[0])
            cold.append(pair[1])
        results = tuple(streams_result(found, self.card, self._memory) for found in rounds.values())
        return self._report(results, follow_up_result(warm, cold) if warm else None)

    async def _streams(self, count: int) -> list[Served]:
        if self._clears:
            await self.conversation.engine.send(ClearCache())
        prompts = [self._prompts.make(self.sizes.prompt_tokens) for _ in range(count)]
        requests, _ = await self._together(prompts, self.sizes.new_tokens)
        return requests

    async def _follow_up(self) -> tuple[Served, Served]:
        """The same follow-up with what the chat left in the prefix cache, and after clearing it."""
        room = min(self.card.window, self.card.pages * self.card.page_size or self.card.window)
        opening = self._prompts.make(min(CHAT_TOKENS, room // 2))
        await self.conversation.engine.send(ClearCache())
        _, [reply] = await self._together([opening], REPLY_TOKENS)
        text = f"{opening}{reply} {self._prompts.make(QUESTION_TOKENS)}"
        [warm], _ = await self._together([text], WARM_UP_TOKENS)
        await self.conversation.engine.send(ClearCache())
        [cold], _ = await self._together([text], WARM_UP_TOKENS)
        return warm, cold

    async def _together(self, prompts: list[str], new_tokens: int) -> tuple[list[Served], list[str]]:
        """Send all prompts at once and wait for their replies: how they went, and what they said."""
        settings = SamplingSettings(temperature=0.0, max_tokens=new_tokens, ignore_eos=True, candidates=0)
        heard: dict[str, _Heard] = {}
        submits: list[Submit] = []
        for prompt in prompts:
            self._requests += 1
            name = f"bench{self._requests}"
            submits.append(Submit(name, text=prompt, settings=settings, fit=False))
            heard[name] = _Heard(time.monotonic_ns())

        def hear(event: AnyEvent) -> None:
            if isinstance(event, TextDelta):
                one = heard[event.request]
                one.arrivals_ns.append(time.monotonic_ns())
                one.text.append(event.text)
                self._tell(self._stage, (self._done + self._written(heard, new_tokens)) / self._units)

        self._tell(self._stage, self._done / self._units)
        ends = {end.request: end for end in await self.conversation.together(submits, hear)}
        self._done += len(prompts) * new_tokens
        requests = [self._one(ends[submit.request], heard[submit.request]) for submit in submits]
        return requests, ["".join(heard[submit.request].text) for submit in submits]

    @staticmethod
    def _written(heard: dict[str, _Heard], new_tokens: int) -> int:
        return sum(min(new_tokens, len(one.arrivals_ns)) for one in heard.values())

    @staticmethod
    def _one(end: Finished, heard: _Heard) -> Served:
        if end.reason == "failed":
            raise CutawayError(f"The engine could not answer: {end.detail}", "Its log says more.")
        one = served(end, heard.sent_ns, heard.arrivals_ns)
        if len(one.tokens_ns) < 2:
            raise TooShort(
                f"A reply ended after {len(one.tokens_ns)} tokens ({end.reason}): there is nothing to measure.",
                "Ask for more with --new-tokens, or for a prompt with room behind it.",
            )
        return one

    def _hear(self, event: AnyEvent) -> None:
        if isinstance(event, Metrics):
            self._memory = event.memory_bytes_per_s

    def _report(self, streams: tuple[StreamsResult, ...], follow_up: FollowUpResult | None) -> Report:
        card, sizes = self.card, self.sizes
        return Report(
            made=datetime.now().astimezone().isoformat(timespec="seconds"),
            cutaway=self.conversation.version,
            model=card.name,
            identity=card.identity,
            device=card.device,
            precision=card.precision,
            kernel=card.kernel,
            threads=card.threads,
            load_ms=round(card.load_ns / 1e6, 1),
            step_bytes=card.step_bytes,
            position_bytes=position_bytes(card),
            memory_bytes_per_s=self._memory,
            prompt_tokens=sizes.prompt_tokens,
            new_tokens=sizes.new_tokens,
            rounds=sizes.rounds,
            streams=streams,
            follow_up=follow_up,
        )


def _units(sizes: Sizes, follow_ups: bool) -> int:
    """All tokens that will be written."""
    a_round = sum(sizes.streams) * sizes.new_tokens
    a_round += (REPLY_TOKENS + 2 * WARM_UP_TOKENS) if follow_ups else 0
    return 2 * WARM_UP_TOKENS + sizes.rounds * a_round
