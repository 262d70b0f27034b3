"""Events made by hand: a small, exact story of an engine for tests of state and panels. No engine, no torch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from cutaway.engine.protocol import (
    Candidate,
    Configured,
    Cut,
    Delivery,
    Event,
    Finished,
    Lane,
    ModelCard,
    PageChange,
    Phase,
    Policy,
    PoolTotals,
    PromptRendered,
    PromptToken,
    Ready,
    Role,
    Sampled,
    SamplingSettings,
    Step,
    Switches,
    TextDelta,
    Timeline,
    Wait,
    Welcome,
)

MS = 1_000_000
EVERYTHING = ("pages", "lanes", "candidates", "prefill", "timeline", "pause", "fork", "switches", "tokens")


def card(
    pages: int = 64, page_size: int = 4, capabilities: tuple[str, ...] = EVERYTHING, **changes: object
) -> ModelCard:
    values: dict[str, object] = {
        "name": "hand-made",
        "identity": "0" * 16,
        "architecture": "none",
        "parameters": 1,
        "weight_bytes": 2,
        "precision": "float32",
        "device": "cpu",
        "threads": 1,
        "window": 128,
        "vocabulary": 100,
        "layers": 1,
        "page_size": page_size,
        "pages": pages,
        "page_bytes": 1024,
        "max_lanes": 4,
        "token_budget": 16,
        "attention": "paged",
        "capabilities": capabilities,
    }
    return ModelCard(**{**values, **changes})  # type: ignore[arg-type]


def softmax(logits: Sequence[float], temperature: float = 1.0) -> list[float]:
    """Straight from the definition."""
    weights = [math.exp(logit / temperature) for logit in logits]
    return [weight / sum(weights) for weight in weights]


def candidates_of(
    logits: Sequence[float], temperature: float = 1.0, top_p: float = 1.0, pieces: Sequence[str] | None = None
) -> tuple[Candidate, ...]:
    """Candidates of a vocabulary that has these logits and no others, in descending order."""
    plain, tempered = softmax(logits), softmax(logits, temperature)
    order = sorted(range(len(logits)), key=lambda i: -logits[i])
    kept: list[int] = []
    mass = 0.0
    for i in order:
        if mass >= top_p:
            break
        kept.append(i)
        mass += tempered[i]
    found = []
    for i in order:
        cut: Cut = "" if i in kept else "top_p"
        piece = pieces[i] if pieces else f" w{i}"
        prob = tempered[i] / mass if i in kept else 0.0
        found.append(Candidate(i, piece, piece.encode(), logits[i], math.log(plain[i]), tempered[i], prob, cut))
    return tuple(found)


def prompt_tokens(pieces: Sequence[str], role: Role = "user") -> tuple[PromptToken, ...]:
    """One token a piece; pieces in angle brackets are control tokens."""
    tokens, at = [], 0
    for number, piece in enumerate(pieces):
        control = piece.startswith("<|")
        tokens.append(
            PromptToken(number + 10, piece, role, control, 0, at, at + len(piece), piece.encode("utf-8", "replace"))
        )
        at += len(piece)
    return tuple(tokens)


@dataclasses.dataclass
class Story:
    """Builds events with a running clock. Times in ns; every step takes 10 ms, 8 of them in the model."""

    events: list[Event] = dataclasses.field(default_factory=list)
    now: int = 1_000 * MS
    iteration: int = 0
    tables: dict[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    prompts: dict[str, int] = dataclasses.field(default_factory=dict)
    drawn: dict[str, int] = dataclasses.field(default_factory=dict)
    cached: dict[str, int] = dataclasses.field(default_factory=dict)

    def begin(self, the_card: ModelCard | None = None, switches: Switches | None = None) -> Story:
        self.events += [
            Welcome(1, "0", 1, self.now),
            Ready(the_card or card()),
            Configured(switches or Switches(max_lanes=4, token_budget=16)),
        ]
        return self

    def ask(
        self,
        request: str,
        pieces: Sequence[str],
        settings: SamplingSettings | None = None,
        label: str = "",
        samples: int = 1,
        delivery: Delivery = "streamed",
    ) -> Story:
        self.prompts[request] = len(pieces)
        self.events.append(
            PromptRendered(
                request=request,
                text="".join(pieces),
                tokens=prompt_tokens(pieces),
                template_ns=400_000,
                tokenize_ns=300_000,
                submitted_ns=self.now,
                rendered_ns=self.now + MS,
                window=128,
                label=label,
                samples=samples,
                delivery=delivery,
                settings=settings or SamplingSettings(),
            )
        )
        self.now += MS
        return self

    def lane(
        self,
        lane: int,
        request: str,
        phase: Phase,
        start: int,
        count: int,
        table: tuple[int, ...] = (),
        cached: int = 0,
        admitted: bool = False,
        sample: int = 0,
    ) -> Lane:
        self.tables[request] = table or self.tables.get(request, ())
        self.cached.setdefault(request, cached)
        return Lane(
            lane=lane,
            request=request,
            sample=sample,
            phase=phase,
            start=start,
            count=count,
            length=self.prompts.get(request, 0) + self.drawn.get(request, 0),
            prompt=self.prompts.get(request, 0),
            cached=self.cached[request],
            reuse_needs=0 if phase == "padding" else 1 if phase == "recompute" else count,
            admitted=admitted,
            block_table=table,
        )

    def token(
        self, request: str, piece: str, candidates: tuple[Candidate, ...] = (), raw: bytes | None = None, **more: object
    ) -> Sampled:
        index = self.drawn.get(request, 0)
        self.drawn[request] = index + 1
        chosen = next((candidate for candidate in candidates if candidate.piece == piece), None)
        values: dict[str, object] = {
            "request": request,
            "sample": 0,
            "index": index,
            "position": self.prompts.get(request, 0) + index,
            "id": chosen.id if chosen else 50 + index,
            "piece": piece,
            "bytes": piece.encode() if raw is None else raw,
            "time_ns": self.now + 10 * MS,
            "logprob": chosen.logprob if chosen else -1.0,
            "rank": 1,
            "prob": chosen.prob if chosen else 0.5,
            "entropy": 1.25,
            "entropy_after": 0.75,
            "draw": 0.25,
            "candidates": candidates,
        }
        return Sampled(**{**values, **more})  # type: ignore[arg-type]

    def step(
        self,
        lanes: Sequence[Lane],
        sampled: Sequence[Sampled] = (),
        pages: Sequence[PageChange] = (),
        waits: Sequence[Wait] = (),
        pool: PoolTotals | None = None,
        policy: Policy = "continuous",
        said: bool = True,
    ) -> Story:
        computed = sum(lane.count for lane in lanes)
        padding = sum(lane.count for lane in lanes if lane.phase == "padding")
        self.events.append(
            Step(
                iteration=self.iteration,
                started_ns=self.now,
                schedule_ns=MS // 2,
                run_ns=8 * MS,
                sample_ns=MS,
                finish_ns=MS // 2,
                lanes=tuple(lanes),
                waits=tuple(waits),
                pages=tuple(pages),
                sampled=tuple(sampled),
                computed=computed,
                padding=padding,
                reuse_needs=sum(lane.reuse_needs for lane in lanes),
                recompute_needs=sum(lane.start + lane.count for lane in lanes if lane.phase != "padding"),
                pool=pool or PoolTotals(),
                policy=policy,
            )
        )
        self.iteration += 1
        self.now += 10 * MS
        if said:
            self.events += [
                TextDelta(token.request, token.sample, token.piece, token.index + 1, self.now)
                for token in sampled
                if not token.end
            ]
        return self

    def finish(self, request: str, reason: str = "end", submitted: int = 0) -> Story:
        self.events.append(
            Finished(
                request=request,
                sample=0,
                reason=reason,  # type: ignore[arg-type]
                prompt_tokens=self.prompts.get(request, 0),
                cached_tokens=self.cached.get(request, 0),
                generated_tokens=self.drawn.get(request, 0),
                timeline=Timeline(submitted_ns=submitted, finished_ns=self.now),
            )
        )
        return self


PIECES = ("<|im_start|>", "user", "\n", "Why", " is", " the", " sky", " blue", "?", "<|im_end|>")
LOGITS = (3.0, 2.0, 1.0, 0.5, -1.0)
WORDS = (" The", " A", " It", " Sky", " Blue")


def used(page: int, owners: tuple[str, ...], fill: int = 4, **more: object) -> PageChange:
    return PageChange(page, "used", owners, fill, len(owners), **more)  # type: ignore[arg-type]


def conversation() -> Story:
    """A asks with 10 tokens (4 from the cache) in two chunks and draws three; B waits, is admitted, and both run."""
    story = Story().begin()
    story.ask("r1", PIECES, SamplingSettings(temperature=0.7, top_p=0.9))
    candidates = candidates_of(LOGITS, 0.7, 0.9, WORDS)
    story.step(
        [story.lane(0, "r1", "prefill", 4, 4, (3, 4), cached=4, admitted=True)],
        pages=[used(3, ("r1/0",)), used(4, ("r1/0",))],
        pool=PoolTotals(64, 2, 0, 0, 62),
    )
    story.ask("r2", PIECES[:6])
    story.step(
        [story.lane(0, "r1", "prefill", 8, 2, (3, 4, 5))],
        [story.token("r1", " The", candidates)],
        pages=[used(5, ("r1/0",), 2)],
        waits=[Wait("r2", 0, "4 pages needed, 2 free", 4, 2)],
        pool=PoolTotals(64, 3, 0, 0, 61),
    )
    story.step(
        [
            story.lane(0, "r1", "decode", 10, 1),
            story.lane(1, "r2", "prefill", 0, 6, (3, 6), admitted=True),
        ],
        [story.token("r1", " sky", candidates), story.token("r2", " A", candidates)],
        pages=[
            used(5, ("r1/0",), 3),
            used(3, ("r1/0", "r2/0"), hash="ab12"),
            used(6, ("r2/0",), 2, evicted=True),
            PageChange(7, "cached", (), 4, 0, "cd34"),
        ],
        pool=PoolTotals(64, 4, 1, 1, 59),
    )
    story.step(
        [story.lane(0, "r1", "decode", 11, 1), story.lane(1, "r2", "decode", 6, 1)],
        [story.token("r1", " is", candidates), story.token("r2", " B", candidates)],
        pages=[used(5, ("r1/0",), 4), used(6, ("r2/0",), 3)],
        pool=PoolTotals(64, 4, 1, 1, 59),
    )
    return story
