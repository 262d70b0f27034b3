"""One request: its prompt, its settings, and its samples."""

from __future__ import annotations

from hashlib import blake2b
from typing import Literal, TypeAlias

import msgspec

from ...engine.protocol import Delivery, PromptRendered, PromptToken, Rejected, Sampled, SamplingSettings
from . import labels
from .limits import Limits
from .sample import SampleState

RequestPhase: TypeAlias = Literal[
    "new", "rendered", "queued", "prefill", "decode", "recompute", "finished", "rejected", "failed"
]


class RequestState(msgspec.Struct):
    """A request as its events have told it. `version` grows with each of them.

    `number` is the stable order of first sight; `letter` is its one-cell mark and `name` the mark in full.
    """

    request: str
    number: int
    limits: Limits = msgspec.field(default_factory=Limits)
    version: int = 0

    rendered: PromptRendered | None = None
    prompt_length: int = 0  # tokens; more than len(prompt) where the tokens themselves are not known
    samples: dict[int, SampleState] = msgspec.field(default_factory=dict)
    settings: SamplingSettings = msgspec.field(default_factory=SamplingSettings)
    delivery: Delivery = "streamed"
    source: str = ""  # the request it was forked from
    rejected: Rejected | None = None
    failure: str = ""

    @property
    def letter(self) -> str:
        return labels.letter(self.number)

    @property
    def name(self) -> str:
        return labels.name(self.number)

    @property
    def label(self) -> str:
        """What the user calls it: the label it was submitted with, else its mark."""
        return (self.rendered.label if self.rendered else "") or self.name

    @property
    def prompt(self) -> tuple[PromptToken, ...]:
        return self.rendered.tokens if self.rendered else ()

    @property
    def work(self) -> str:
        """The same for requests with the same label and prompt tokens: what two policies can be compared on."""
        digest = blake2b(",".join(str(token.id) for token in self.prompt).encode(), digest_size=8)
        return f"{self.rendered.label if self.rendered else ''}/{digest.hexdigest()}"

    @property
    def submitted_ns(self) -> int:
        """When the engine read the command, on the engine's clock; 0: not known."""
        return self.rendered.submitted_ns if self.rendered else 0

    @property
    def window(self) -> int:
        return self.rendered.window if self.rendered else 0

    @property
    def cached(self) -> int:
        """Prompt positions [0, cached) that the prefix cache spared, by the first sample that was admitted."""
        return next((sample.cached for sample in self.samples.values() if sample.admitted), 0)

    @property
    def computed(self) -> int:
        return sum(sample.computed for sample in self.samples.values())

    @property
    def recomputed(self) -> int:
        return sum(sample.recomputed for sample in self.samples.values())

    @property
    def spared(self) -> int:
        return sum(sample.cached for sample in self.samples.values() if sample.admitted)

    @property
    def tokens_kept(self) -> int:
        return len(self.prompt) + sum(len(sample.tokens) for sample in self.samples.values())

    @property
    def done(self) -> bool:
        """Nothing more will come."""
        if self.rejected is not None or self.failure:
            return True
        wanted = self.rendered.samples if self.rendered else 1
        return len(self.samples) >= wanted and all(sample.finished is not None for sample in self.samples.values())

    @property
    def phase(self) -> RequestPhase:
        """What it does now: of its samples, the one that is furthest from the end speaks."""
        if self.rejected is not None:
            return "rejected"
        if self.failure:
            return "failed"
        if self.done:
            return "finished"
        phases = {sample.phase for sample in self.samples.values()}
        for phase in ("decode", "prefill", "recompute", "queued"):
            if phase in phases:
                return phase
        return "rendered" if self.rendered is not None else "new"

    def sample(self, number: int = 0) -> SampleState | None:
        """The sample, made now if the limits allow it, else None."""
        found = self.samples.get(number)
        if found is None and len(self.samples) < self.limits.samples:
            found = self.samples[number] = SampleState(self.request, number, self.limits)
        return found

    def length(self, sample: int = 0) -> int:
        """Tokens of prompt and reply, as far as events have told them."""
        state = self.samples.get(sample)
        return self.prompt_length + (state.generated if state else 0)

    def token_at(self, sample: int, position: int) -> PromptToken | Sampled | None:
        """The token at a position of the sequence, None where it is not known."""
        if 0 <= position < len(self.prompt):
            return self.prompt[position]
        state = self.samples.get(sample)
        index = position - self.prompt_length
        if state is None or not 0 <= index < len(state.tokens):
            return None
        return state.tokens[index]
