"""A core without a model: it answers by a script that the last message names. No torch.

"count 20" counts to 20, "forever" never ends, "recall" lists the messages it was sent, "raw \\x1b[2J" says that text
with its escapes decoded, "fail", "memory" and "die" go wrong at the third token, "noise" prints in between, anything
else is repeated. "slowly" in front takes 20 ms a step. The model to load may be "slow" or "busy", which load until they
are cancelled, "missing", "crash", "huge" or "compiling", which takes another kernel with its first
step; any other name loads at once. Tokens are words, and the prompt is read `token_budget` of them a step.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import time
from collections.abc import Callable, Iterator

import msgspec
from cutaway.engine.errors import ModelError
from cutaway.engine.protocol import (
    Abort,
    AnyCommand,
    AnyEvent,
    Candidate,
    CardChanged,
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
    Ready,
    Rejected,
    Resume,
    Sampled,
    Step,
    StepOnce,
    Submit,
    Switches,
    TextDelta,
    Timeline,
    Wait,
)

try:
    from .scripted_replies import rendered, script, token_id, work
except ImportError:  # beside us, when the engine process is run by its path
    from scripted_replies import rendered, script, token_id, work

SLOWLY = 0.02  # seconds a step


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
            for done in itertools.count():
                progress(LoadProgress("weights", min(done, 99), 100, "tensors"))
                work(0.02) if load.model == "busy" else time.sleep(0.02)
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
            page_size=load.page_size or 16,
            pages=pages,
            page_bytes=1024,
            max_lanes=load.max_lanes,
            token_budget=load.token_budget,
            attention="paged",
            kernel="the slow one" if load.model == "compiling" else "",
            compiling=load.model == "compiling",
            capabilities=("tokens", "candidates", "timeline", "lanes", "pause", "switches", "pages", "fork", "samples"),
        )
        self.switches = Switches(token_budget=load.token_budget, max_lanes=load.max_lanes)
        self.free = list(range(pages))
        self.writing: list[Writing] = []
        self.finished: dict[str, Writing] = {}
        self.credit = 0
        self.iteration = 0

    def start(self, wake: Callable[[], None] = lambda: None) -> None:
        self.emit(Ready(self.card))
        self.emit(Configured(self.switches))

    @property
    def has_work(self) -> bool:
        return self.card.compiling or (bool(self.writing) and (not self.switches.paused or self.credit > 0))

    def close(self) -> None:
        """Nothing is being prepared."""

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
        self.emit(rendered(command, words, self.card.window, now))
        for sample in range(command.samples):
            self._add(Writing(command.request, sample, 0, command, words, script(command)), now)

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
        reply = itertools.islice(script(submit), len(kept), None)
        writing = Writing(command.request, 0, 0, submit, list(source.prompt), reply, said=kept)
        event = rendered(submit, source.prompt, self.card.window, now)
        self.emit(msgspec.structs.replace(event, source=command.source))
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
        if self.card.compiling:
            self.card = msgspec.structs.replace(self.card, compiling=False, kernel="the fast one")
            self.emit(CardChanged(self.card))
            return
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
        drawn = Candidate(token_id(piece), piece, piece.encode("utf-8", "replace"), 2.0, -0.25, 0.8, 1.0)
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
                token_ids=tuple(map(token_id, writing.said)),
                timeline=Timeline(**writing.stamps, finished_ns=now, tokens_ns=tuple(writing.tokens_ns)),
            )
        )

    def _totals(self) -> PoolTotals:
        return PoolTotals(self.card.pages, self.card.pages - len(self.free), 0, 0, len(self.free))
