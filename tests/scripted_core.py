"""A core without a model: it answers by a script that the last message names. No torch.

"count 20" counts to 20, "forever" never ends, "recall" lists the messages it was sent, "raw \\x1b[2J" says that text
with its escapes decoded, "fail", "memory" and "die" go wrong at the third token, "noise" prints in between, anything
else is repeated. "slowly" in front takes 20 ms a step. The model to load may be "slow", "busy", "missing", "crash" or
"huge"; any other name loads at once. Tokens are words, and the prompt is read `token_budget` of them a step.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import signal
import sys
import time
import zlib
from collections.abc import Callable, Iterator

import msgspec
from cutaway.engine.errors import ModelError
from cutaway.engine.protocol import (
    Abort,
    AnyCommand,
    AnyEvent,
    Candidate,
    Configure,
    Configured,
    Finished,
    FinishReason,
    Fork,
    Inspect,
    Lane,
    Load,
    LoadProgress,
    Metrics,
    ModelCard,
    PageChange,
    PageDetail,
    Pause,
    PoolTotals,
    PromptRendered,
    PromptToken,
    Ready,
    Rejected,
    Resume,
    Role,
    Sampled,
    Step,
    StepOnce,
    Submit,
    Switches,
    TextDelta,
    Timeline,
    Wait,
)

SLOWLY = 0.02  # seconds a step
ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")


def build(
    load: Load,
    emit: Callable[[AnyEvent], None],
    progress: Callable[[LoadProgress], None],
    cancelled: Callable[[], bool],
) -> ScriptedCore:
    """Load the model that `load.model` describes."""
    match load.model:
        case "missing":
            raise ModelError("There is no model called missing.", "Try another.")
        case "crash":
            raise RuntimeError("the loader is broken")
        case "huge":
            raise MemoryError
        case "slow" | "busy":
            for done in range(100):
                progress(LoadProgress("weights", done, 100, "tensors"))
                _work(0.02) if load.model == "busy" else time.sleep(0.02)
        case _:
            progress(LoadProgress("weights", 1, 1, "tensors", load.model))
    return ScriptedCore(load, emit)


@dataclasses.dataclass(eq=False)
class Writing:
    """One sample being written."""

    request: str
    sample: int
    lane: int
    command: Submit
    prompt: list[str]
    reply: Iterator[str]
    label: str = ""
    computed: int = 0
    said: list[str] = dataclasses.field(default_factory=list)
    pages: list[int] = dataclasses.field(default_factory=list)
    stamps: dict[str, int] = dataclasses.field(default_factory=dict)
    tokens_ns: list[int] = dataclasses.field(default_factory=list)

    @property
    def length(self) -> int:
        return len(self.prompt) + len(self.said)


class ScriptedCore:
    """One loaded script, serving as the real core does."""

    def __init__(self, load: Load, emit: Callable[[AnyEvent], None]) -> None:
        pages = load.pages or 64
        self.emit = emit
        self.card = ModelCard(
            name=load.model or "scripted",
            identity="scripted",
            architecture="script",
            parameters=0,
            weight_bytes=0,
            precision="none",
            device="cpu",
            threads=1,
            window=load.window or 4096,
            vocabulary=1000,
            layers=1,
            page_size=load.page_size,
            pages=pages,
            page_bytes=1024,
            max_lanes=load.max_lanes,
            token_budget=load.token_budget,
            attention="paged",
            capabilities=("tokens", "candidates", "timeline", "lanes", "pause", "switches", "pages", "fork", "samples"),
        )
        self.switches = Switches(token_budget=load.token_budget, max_lanes=load.max_lanes)
        self.free = list(range(pages))
        self.writing: list[Writing] = []
        self.finished: dict[str, Writing] = {}
        self.credit = 0
        self.iteration = 0

    def start(self) -> None:
        self.emit(Ready(self.card))
        self.emit(Configured(self.switches))

    @property
    def has_work(self) -> bool:
        return bool(self.writing) and (not self.switches.paused or self.credit > 0)

    def idle_check(self) -> None:
        assert len(self.free) == self.card.pages, "pages leaked"

    # ------------------------------------------------------------------------------------------------ commands

    def handle(self, command: AnyCommand) -> None:
        match command:
            case Submit():
                self._submit(command)
            case Fork():
                self._fork(command)
            case Abort(request=name):
                for writing in [w for w in self.writing if w.request == name]:
                    self._end(writing, "aborted")
            case Configure():
                names = ("policy", "prefix_cache", "kv_reuse", "delivery", "inspect", "token_budget", "max_lanes")
                self._switch({n: v for n in names if (v := getattr(command, n)) is not None})
            case Pause():
                self._switch({"paused": True})
            case Resume():
                self.credit = 0
                self._switch({"paused": False})
            case StepOnce(count=count):
                self.credit += count
            case Inspect(page=None):
                self.emit(Metrics(num_requests_running=len(self.writing), iterations=self.iteration))
            case Inspect(page=page):
                self.emit(PageDetail(page or 0, "free" if page in self.free else "used"))
            case _:
                pass

    def _switch(self, changes: dict[str, object]) -> None:
        self.switches = msgspec.structs.replace(self.switches, **changes)
        self.emit(Configured(self.switches))

    def _submit(self, command: Submit) -> None:
        now = time.monotonic_ns()
        words = [w for m in command.messages for w in re.findall(r"\s*\S+", m.content)] or (command.text or "").split()
        if len(words) >= self.card.window:
            text = f"The prompt has {len(words)} tokens and the model's window is {self.card.window}."
            self.emit(Rejected(command.request, text, "Shorten it."))
            return
        self.emit(_rendered(command, words, self.card.window, now))
        for sample in range(command.samples):
            self._add(Writing(command.request, sample, 0, command, words, _script(command)), now)

    def _fork(self, command: Fork) -> None:
        now = time.monotonic_ns()
        alive = {w.request: w for w in self.writing if w.sample == command.sample}
        source = alive.get(command.source) or self.finished.get(command.source)
        if source is None:
            self.emit(Rejected(command.request, f"There is no request {command.source!r}."))
            return
        submit = msgspec.structs.replace(
            source.command, request=command.request, settings=command.settings or source.command.settings, samples=1
        )
        forced = [] if command.forced is None else [f" <{command.forced}>"]
        kept = source.said[: command.at] + forced
        reply = itertools.islice(_script(submit), len(kept), None)
        writing = Writing(command.request, 0, 0, submit, list(source.prompt), reply, said=kept)
        rendered = _rendered(submit, source.prompt, self.card.window, now)
        self.emit(msgspec.structs.replace(rendered, source=command.source))
        self._add(writing, now)
        if kept:
            self.emit(TextDelta(command.request, 0, "".join(kept), len(kept), now))

    def _add(self, writing: Writing, now: int) -> None:
        used = {w.lane for w in self.writing}
        writing.lane = next(lane for lane in itertools.count() if lane not in used)
        writing.stamps = {"submitted_ns": now, "rendered_ns": now, "queued_ns": now}
        self.writing.append(writing)

    # --------------------------------------------------------------------------------------------------- steps

    def step(self) -> None:
        started = time.monotonic_ns()
        self.iteration += 1
        self.credit = max(0, self.credit - 1)
        running = self.writing[: self.switches.max_lanes]
        waits = tuple(Wait(w.request, w.sample, "no lane is free") for w in self.writing[self.switches.max_lanes :])
        lanes: list[Lane] = []
        changes: list[PageChange] = []
        sampled: list[Sampled] = []
        ends: list[tuple[Writing, FinishReason, str]] = []
        if any("slowly" in w.command.messages[-1].content for w in running if w.command.messages):
            time.sleep(SLOWLY)
        for writing in running:
            writing.stamps.setdefault("scheduled_ns", started)
            lanes.append(self._advance(writing, changes))
            if writing.computed == writing.length:
                self._write(writing, sampled, ends)
        run_ns = time.monotonic_ns() - started
        self.emit(
            Step(
                self.iteration,
                started,
                run_ns=run_ns,
                lanes=tuple(lanes),
                waits=waits,
                pages=tuple(changes) if self.switches.inspect else (),
                sampled=tuple(sampled),
                computed=sum(lane.count for lane in lanes),
                reuse_needs=sum(lane.count for lane in lanes),
                recompute_needs=sum(lane.length for lane in lanes),
                pool=self._totals(),
                policy=self.switches.policy,
            )
        )
        for writing, reason, detail in ends:
            self._end(writing, reason, detail)

    def _advance(self, writing: Writing, changes: list[PageChange]) -> Lane:
        start = writing.computed
        count = min(writing.length - start, self.switches.token_budget)
        phase = "prefill" if start < len(writing.prompt) else "decode"
        writing.computed = start + count
        told = len(writing.pages)
        while len(writing.pages) * self.card.page_size < writing.computed:
            writing.pages.append(self.free.pop(0))
        fill = writing.computed - (len(writing.pages) - 1) * self.card.page_size
        owner = (f"{writing.request}/{writing.sample}",)
        full = [PageChange(page, "used", owner, self.card.page_size, 1) for page in writing.pages[told:-1]]
        changes += [*full, PageChange(writing.pages[-1], "used", owner, fill, 1)]
        table = tuple(writing.pages) if len(writing.pages) != told else ()
        return Lane(
            writing.lane, writing.request, writing.sample, phase, start, count, writing.length, len(writing.prompt),
            admitted=start == 0, block_table=table,
        )  # fmt: skip

    def _write(self, writing: Writing, sampled: list[Sampled], ends: list[tuple[Writing, FinishReason, str]]) -> None:
        piece = next(writing.reply, None)
        now = time.monotonic_ns()
        if piece is None:
            ends.append((writing, "end", ""))
            return
        writing.stamps.setdefault("first_token_ns", now)
        writing.tokens_ns.append(now)
        if not self.free and writing.length % self.card.page_size == 0:
            ends.append((writing, "length", "page pool full"))
            return
        writing.said.append(piece)
        index = len(writing.said) - 1
        drawn = Candidate(_id(piece), piece, piece.encode("utf-8", "replace"), 2.0, -0.25, 0.8, 1.0)
        other = Candidate(1, " other", b" other", float("-inf"), None, 0.2, 0.0, "top_k")
        sampled.append(
            Sampled(
                writing.request, writing.sample, index, writing.length - 1, drawn.id, piece, drawn.bytes, now,
                logprob=-0.25, rank=1, prob=1.0, entropy=0.5, draw=0.5,
                candidates=(drawn, other) if self.switches.inspect and writing.command.settings.candidates else (),
            )
        )  # fmt: skip
        if "buffered" not in (writing.command.delivery, self.switches.delivery):
            self.emit(TextDelta(writing.request, writing.sample, piece, index + 1, now))
        most = writing.command.settings.max_tokens
        if most is not None and len(writing.said) >= most:
            ends.append((writing, "length", f"cut at {most} tokens"))

    def _end(self, writing: Writing, reason: FinishReason, detail: str = "") -> None:
        self.writing.remove(writing)
        self.finished[writing.request] = writing
        self.free = sorted(self.free + writing.pages)
        now = time.monotonic_ns()
        if "buffered" in (writing.command.delivery, self.switches.delivery) and writing.said:
            self.emit(TextDelta(writing.request, writing.sample, "".join(writing.said), len(writing.said), now))
        self.emit(
            Finished(
                writing.request,
                writing.sample,
                reason,
                detail,
                prompt_tokens=len(writing.prompt),
                generated_tokens=len(writing.said),
                token_ids=tuple(map(_id, writing.said)),
                timeline=Timeline(**writing.stamps, finished_ns=now, tokens_ns=tuple(writing.tokens_ns)),
            )
        )

    def _totals(self) -> PoolTotals:
        return PoolTotals(self.card.pages, self.card.pages - len(self.free), 0, 0, len(self.free))


def _rendered(command: Submit, words: list[str], window: int, now: int) -> PromptRendered:
    role = command.messages[-1].role if command.messages else "raw"
    known = next((r for r in ROLES if r == role), "raw")
    ends = list(itertools.accumulate(len(word) for word in words))
    tokens = tuple(
        PromptToken(_id(word), word, known, start=end - len(word), end=end, bytes=word.encode("utf-8", "replace"))
        for word, end in zip(words, ends, strict=True)
    )
    return PromptRendered(
        command.request, "".join(words), tokens, 0, 0, now, now, window,
        samples=command.samples, settings=command.settings, label=command.label or command.request,
    )  # fmt: skip


def _script(command: Submit) -> Iterator[str]:
    said = command.messages[-1].content if command.messages else command.text or ""
    said = said.removeprefix("slowly ")
    name, rest = (*said.split(maxsplit=1), "", "")[:2]
    match name:
        case "count":
            yield from (f"{n} " for n in range(1, int(rest) + 1))
        case "forever":
            yield from (f"{n} " for n in itertools.count(1))
        case "recall":
            yield " | ".join(f"{m.role}: {m.content}" for m in command.messages)
        case "raw":
            yield from rest.encode("latin-1", "backslashreplace").decode("unicode_escape")
        case "fail" | "memory" | "die" | "noise":
            yield from ("one ", "two ")
            _go_wrong(name)
            yield "three"
        case _:
            yield from re.findall(r"\s*\S+", f"You said: {said}")


def _go_wrong(how: str) -> None:
    if how == "fail":
        raise RuntimeError("a kernel is broken")
    if how == "memory":
        raise MemoryError
    if how == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    print("noise from a library")
    os.write(1, b"noise from a C library\n")
    print("and more of it", file=sys.stderr, flush=True)


def _work(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


def _id(piece: str) -> int:
    return zlib.crc32(piece.encode("utf-8", "surrogatepass")) % 1000
