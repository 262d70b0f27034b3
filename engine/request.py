"""What the core knows of one request and of each of its samples."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from .protocol import Delivery, FinishReason, Sampled, SamplingSettings, Timeline
from .sequence import Sequence

if TYPE_CHECKING:
    from .reasoning import Tags
    from .sampler import History, RowRandom, SampleRow
    from .textstream import TextStream


@dataclasses.dataclass(slots=True)
class Stamps:
    """A sample's life in time stamps; `timeline()` is what leaves the engine."""

    submitted_ns: int = 0
    rendered_ns: int = 0
    queued_ns: int = 0
    scheduled_ns: int = 0
    first_token_ns: int = 0
    finished_ns: int = 0
    template_ns: int = 0
    tokenize_ns: int = 0
    prefill: list[tuple[int, int, int, int]] = dataclasses.field(default_factory=list)
    tokens_ns: list[int] = dataclasses.field(default_factory=list)

    def timeline(self) -> Timeline:
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        values["prefill"] = tuple(self.prefill)
        values["tokens_ns"] = tuple(self.tokens_ns)
        return Timeline(**values)


@dataclasses.dataclass(eq=False, slots=True)
class Sample:
    """One sequence with what only the core needs: its text, its random numbers, its story."""

    request: Request
    sequence: Sequence
    text: TextStream
    random: RowRandom
    stamps: Stamps
    history: History
    prompt_ids: tuple[int, ...] = ()
    generated: list[int] = dataclasses.field(default_factory=list)
    sampled: list[Sampled] = dataclasses.field(default_factory=list)
    held: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # buffered (channel, text)
    reason: FinishReason | None = None
    row: SampleRow | None = None  # what the sampler was told last

    @property
    def key(self) -> str:
        return self.sequence.key


@dataclasses.dataclass(frozen=True, slots=True)
class ReplyStyle:
    """What a prompt implies for the text of its replies."""

    stop: tuple[str, ...]  # stop strings of the chat template
    opens_reasoning: bool
    midway: bool  # the reply goes on a text
    tags: Tags


@dataclasses.dataclass(eq=False, slots=True)
class Request:
    """One submission: its settings, which may change while it runs, and its samples."""

    name: str
    label: str
    settings: SamplingSettings
    delivery: Delivery
    end_ids: frozenset[int]
    window_detail: str  # what it means to reach the largest length: window or pool full, or cut
    style: ReplyStyle
    samples: list[Sample] = dataclasses.field(default_factory=list)
    wanted: int = 1  # samples asked for; the others are forked when the first prompt is computed

    @property
    def done(self) -> bool:
        return len(self.samples) == self.wanted and all(s.reason is not None for s in self.samples)
