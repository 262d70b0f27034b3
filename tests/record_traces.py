"""Records the traces that snapshots and screenshots are made from: the real engine process, the default model.

    python -m tests.record_traces [name …]

One short conversation a trace, each showing one thing. Seeds are fixed, so a new recording on the same machine says
the same words; only its times differ. After it, look at the scenes (their `upto` counts steps), and make snapshots and
screenshots anew.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from cutaway.engine.client import EngineClient
from cutaway.engine.protocol import (
    AnyEvent,
    ClearCache,
    Configure,
    Configured,
    Failed,
    Finished,
    Fork,
    Load,
    Message,
    Pause,
    Ready,
    Rejected,
    Resume,
    Sampled,
    SamplingSettings,
    Step,
    StepOnce,
    Submit,
)
from cutaway.engine.trace import Recording
from cutaway.tui import traffic

TRACES = Path(__file__).parent / "traces"
LIMIT = 1_500_000  # bytes of all traces together

SKY = "Why is the sky blue? Answer in two sentences."
GUIDE = (
    "You are the guide of a small science museum. Visitors are curious and in no hurry, but they stand. Answer in "
    "two or three plain sentences, use no formulas, and end with something that they can look at in the next room."
)
LETTER = (
    "Here is a letter. Dear Anna, the garden is doing well after the rain. The beans have climbed over the fence and "
    "the neighbour has already asked whether he may keep what hangs on his side. I said yes, if he waters them in "
    "August. The old pump broke on Monday. Peter took it apart on the kitchen table and found a snail in the valve; "
    "he put the snail back into the pond and the valve back into the pump, and now both work again. The roof of the "
    "shed will have to wait until autumn, because the swallows are still in it. Come and see them before they leave. "
    "Yours, Marta. What is Marta waiting for, and why?"
)
COOL = SamplingSettings(temperature=0.7, top_p=0.95, seed=5, max_tokens=96)


class Talk:
    """A conversation that is being recorded: send, and read until something has happened."""

    def __init__(self, engine: Recording) -> None:
        self.engine = engine
        self._events = engine.events()
        self.drawn: dict[tuple[str, int], Sampled] = {}  # by request and index

    async def send(self, *commands: object) -> None:
        for command in commands:
            await self.engine.send(command)  # pyright: ignore[reportArgumentType]

    async def until(self, wanted: Callable[[AnyEvent], bool]) -> None:
        async for event in self._events:
            if isinstance(event, Failed | Rejected):
                raise SystemExit(f"The recording went wrong: {event.message} {event.action}")
            if isinstance(event, Step):
                self.drawn.update({(token.request, token.index): token for token in event.sampled})
            if wanted(event):
                return

    async def finished(self, *requests: str) -> None:
        """Wait for the end of all of these, in whatever order."""
        left = set(requests)

        def ended(event: AnyEvent) -> bool:
            if isinstance(event, Finished):
                left.discard(event.request)
            return not left

        await self.until(ended)

    async def tokens(self, request: str, many: int) -> None:
        await self.until(lambda _: (request, many - 1) in self.drawn)

    async def configure(self, **switches: object) -> None:
        await self.send(Configure(**switches))  # pyright: ignore[reportArgumentType]
        await self.until(lambda event: isinstance(event, Configured))


@asynccontextmanager
async def recorded(path: Path, load: Load) -> AsyncIterator[Talk]:
    """A loaded engine whose messages go to the file."""
    engine = Recording(EngineClient(), path)
    await engine.start()
    try:
        talk = Talk(engine)
        await talk.send(load)
        await talk.until(lambda event: isinstance(event, Ready))
        await talk.until(lambda event: isinstance(event, Configured))
        yield talk
    finally:
        await engine.close()


def ask(request: str, *turns: str, system: str = "", settings: SamplingSettings = COOL, label: str = "") -> Submit:
    """A question; `turns` are the user's and the model's messages in turn."""
    head = (Message("system", system),) if system else ()
    said = tuple(Message("assistant" if i % 2 else "user", text) for i, text in enumerate(turns))
    return Submit(request, messages=head + said, settings=settings, label=label)


# ------------------------------------------------------------------------------------------------ the traces


async def streamed(talk: Talk) -> None:
    """One question, answered as it is written."""
    await talk.send(ask("chat-1", SKY))
    await talk.finished("chat-1")


async def buffered(talk: Talk) -> None:
    """The same question streamed, and then, as cold as before, delivered as a whole."""
    await talk.send(ask("chat-1", SKY))
    await talk.finished("chat-1")
    await talk.send(ClearCache())
    await talk.configure(delivery="buffered")
    await talk.send(ask("chat-2", SKY))
    await talk.finished("chat-2")


async def policies(talk: Talk) -> None:
    """A question among eight requests of uneven length over four lanes: continuous, and then the same static."""
    for number, policy in enumerate(("continuous", "static"), 1):
        await talk.send(ClearCache())
        await talk.configure(policy=policy)
        names = [f"traffic-{number}{n}" for n in range(1, 9)]
        settings = msgspec.structs.replace(COOL, candidates=3)
        await talk.send(ask(f"chat-{number}", SKY), *traffic.submits(names, settings))
        await talk.finished(f"chat-{number}", *names)


async def temperatures(talk: Talk) -> None:
    """One question, cold and hot, with the same top-p."""
    for number, temperature in enumerate((0.2, 1.5), 1):
        settings = SamplingSettings(temperature=temperature, top_p=0.9, seed=11, max_tokens=48, candidates=20)
        await talk.send(ask(f"chat-{number}", "Describe the sea in one sentence.", settings=settings))
        await talk.finished(f"chat-{number}")


async def prefix(talk: Talk) -> None:
    """A long system prompt in two chats at once, and a second question in the first: the beginning is spared."""
    settings = SamplingSettings(temperature=0.7, top_p=0.95, seed=5, max_tokens=40)
    question = "What is a fossil?"
    await talk.send(ask("chat-1", question, system=GUIDE, settings=settings))
    await talk.tokens("chat-1", 12)
    await talk.send(ask("chat-2", "Why do magnets stick to iron?", system=GUIDE, settings=settings))
    await talk.finished("chat-1", "chat-2")
    said = "".join(talk.drawn["chat-1", i].piece for i in range(40) if not talk.drawn["chat-1", i].end)
    await talk.send(ask("chat-3", question, said, "How old is the oldest one?", system=GUIDE, settings=settings))
    await talk.finished("chat-3")


async def fork(talk: Talk) -> None:
    """While a reply is written, another leaves it at its most doubtful token and goes on, on the same pages."""
    await talk.send(ask("chat-1", SKY))
    await talk.tokens("chat-1", 40)
    source = max((talk.drawn["chat-1", i] for i in range(8, 32)), key=lambda token: token.entropy)
    other = next(c for c in source.candidates if c.id != source.id and c.prob)
    await talk.send(Fork("chat-2", "chat-1", source.index, forced=other.id, settings=COOL))
    await talk.finished("chat-1", "chat-2")


async def recompute(talk: Talk) -> None:
    """KV reuse turned off in the middle of a reply for a dozen tokens, and on again."""
    await talk.send(ask("chat-1", LETTER, settings=SamplingSettings(temperature=0.7, seed=9, max_tokens=56)))
    await talk.tokens("chat-1", 20)
    await talk.configure(kv_reuse=False)
    await talk.tokens("chat-1", 36)
    await talk.configure(kv_reuse=True)
    await talk.finished("chat-1")


async def preemption(talk: Talk) -> None:
    """Four replies that together need more pages than there are: some are sent back, and come again."""
    settings = SamplingSettings(temperature=0.7, seed=2, max_tokens=96, ignore_eos=True, candidates=3)
    stories = ("fox", "lighthouse", "clockmaker", "river")
    names = [f"traffic-{n}" for n in range(1, 5)]
    for name, about in zip(names, stories, strict=True):
        await talk.send(ask(name, f"Tell a story about a {about}.", settings=settings, label=about))
    await talk.finished(*names)


async def stepped(talk: Talk) -> None:
    """A long prompt, paused before its first iteration and taken in single steps, small chunk by small chunk."""
    await talk.send(Pause())
    await talk.until(lambda event: isinstance(event, Configured) and event.switches.paused)
    await talk.send(ask("chat-1", LETTER, settings=SamplingSettings(temperature=0.7, seed=4, max_tokens=24)))
    for _ in range(12):
        await talk.send(StepOnce())
        await talk.until(lambda event: isinstance(event, Step) and bool(event.lanes))
    await talk.send(Resume())
    await talk.finished("chat-1")


SCENES: dict[str, tuple[Load, Callable[[Talk], Awaitable[None]]]] = {
    "streamed": (Load(), streamed),
    "buffered": (Load(), buffered),
    "policies": (Load(max_lanes=4, pages=256), policies),
    "temperatures": (Load(pages=256), temperatures),
    "prefix": (Load(pages=256), prefix),
    "fork": (Load(pages=256), fork),
    "recompute": (Load(pages=256), recompute),
    "preemption": (Load(pages=26, window=256), preemption),
    "stepped": (Load(pages=256, token_budget=48), stepped),
}


async def record(names: list[str]) -> None:
    TRACES.mkdir(exist_ok=True)
    for name in names:
        load, play = SCENES[name]
        # Written beside and taken over when it is whole: a recording that fails leaves the old one.
        with tempfile.TemporaryDirectory(dir=TRACES) as folder:
            made = Path(folder) / f"{name}.trace"
            async with recorded(made, load) as talk:
                await play(talk)
            made.replace(TRACES / made.name)
        print(f"{name:<14} {(TRACES / f'{name}.trace').stat().st_size:>9,} bytes")
    total = sum(file.stat().st_size for file in TRACES.glob("*.trace"))
    print(f"{'all':<14} {total:>9,} of {LIMIT:,} bytes")
    if total > LIMIT:
        raise SystemExit("The traces are too large: ask for fewer tokens or candidates.")


if __name__ == "__main__":
    wanted = sys.argv[1:] or list(SCENES)
    if unknown := sorted(set(wanted) - set(SCENES)):
        raise SystemExit(f"There is no trace {unknown[0]!r}; there are {', '.join(SCENES)}.")
    asyncio.run(record(wanted))
