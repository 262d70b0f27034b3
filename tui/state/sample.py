"""One sample of a request: its tokens, its text, its pages, and what computing it took."""

from __future__ import annotations

import itertools
from typing import Literal, TypeAlias

import msgspec

from ...engine.protocol import Finished, Lane, Phase, Sampled, Step, TextDelta, Wait
from .limits import Limits

Channel: TypeAlias = Literal["answer", "reasoning"]


class Chunk(msgspec.Struct, frozen=True):
    """Positions [start, start + count) computed in one iteration, on the way through the prompt.

    `iteration` and `lane` are -1 where merged events did not tell them.
    """

    start: int
    count: int
    phase: Phase
    iteration: int
    lane: int
    began_ns: int
    took_ns: int  # duration of the iteration's forward pass, which other lanes may have shared

    @property
    def end(self) -> int:
        return self.start + self.count


class SampleState(msgspec.Struct):
    """A sample as its events have told it. Time stamps are the engine's clock unless they say "received".

    `tokens[i]` is the generated token with index i, None where no event told it. `made[i]` is the (iteration, lane)
    that drew it, (-1, -1) where not known.
    """

    request: str
    sample: int
    limits: Limits = msgspec.field(default_factory=Limits)

    tokens: list[Sampled | None] = msgspec.field(default_factory=list)
    made: list[tuple[int, int]] = msgspec.field(default_factory=list)
    latest: Sampled | None = None
    kept: int = 0  # a fork's leading tokens, taken over from its source and not drawn here
    revised: int = 0  # tokens that came after later ones, or again
    not_kept: int = 0  # generated tokens beyond the limits
    text_cut: bool = False  # the text grew beyond the limits: its end is missing here

    phase: Phase | Literal["", "queued", "finished"] = ""
    wait: Wait | None = None
    lane: int = -1
    length: int = 0  # tokens of the sequence
    written: int = 0  # positions [0, written) have keys and values
    cached: int = 0  # positions the prefix cache spared at admission
    admitted: bool = False  # has been seen in a lane or finished: `cached` is known
    block_table: tuple[int, ...] = ()

    chunks: list[Chunk] = msgspec.field(default_factory=list)
    computed: int = 0  # positions, padding left out
    recomputed: int = 0  # of which had been computed before
    padding: int = 0  # positions computed after its end, for a static batch
    preemptions: int = 0

    finished: Finished | None = None
    queued_ns: int = 0
    scheduled_ns: int = 0
    first_token_ns: int = 0
    finished_ns: int = 0
    first_text_ns: int = 0  # of the first text
    last_text_ns: int = 0
    counted: int = 0  # tokens generated, by the newest text
    first_received_ns: int = 0  # the UI's clock: first text
    last_received_ns: int = 0  # the UI's clock
    first_painted_ns: int = 0  # the UI's clock
    last_painted_ns: int = 0  # the UI's clock
    finished_received_ns: int = 0  # the UI's clock

    schedule_ns: int = 0  # durations: sums over the iterations it took part in
    prefill_ns: int = 0
    decode_ns: int = 0
    sample_ns: int = 0
    transport_ns: int = 0  # duration: from the engine's time stamp to here, of the last text

    _parts: dict[Channel, list[str]] = msgspec.field(default_factory=dict)
    _characters: int = 0

    @property
    def key(self) -> str:
        """ "request/sample", as owners are called in page events."""
        return f"{self.request}/{self.sample}"

    @property
    def generated(self) -> int:
        """Tokens generated so far, kept or not."""
        return len(self.tokens) + self.not_kept

    def text(self, channel: Channel = "answer") -> str:
        """The reply so far, exactly as the engine sent it (pass it through `printable` before showing it)."""
        parts = self._parts.get(channel, [])
        if len(parts) > 1:
            parts[:] = ["".join(parts)]
        return parts[0] if parts else ""

    def tokens_per_second(self) -> float:
        """Decode rate between the first and the newest token; 0 before there are two."""
        newest = self.latest
        drawn = self.generated - self.kept
        if newest is None or drawn < 2 or newest.time_ns <= self.first_token_ns:
            return 0.0
        return (drawn - 1) * 1e9 / (newest.time_ns - self.first_token_ns)

    def intervals_ns(self, last: int = 256) -> list[int]:
        """Time between neighbouring tokens, newest `last` of them."""
        first = max(self.kept, len(self.tokens) - last - 1)
        times = [token.time_ns for token in self.tokens[first:] if token is not None]
        return [max(0, after - before) for before, after in itertools.pairwise(times)]

    def first_decode_ns(self) -> int | None:
        """Time from the first token drawn to the second; None: there is no second."""
        times = [token.time_ns for token in self.tokens[self.kept : self.kept + 2] if token is not None]
        return max(0, times[1] - times[0]) if len(times) == 2 else None

    # ------------------------------------------------------------------------------------------ from events

    def ran(self, lane: Lane, step: Step) -> None:
        """Take what one lane of one iteration says about this sample."""
        self.block_table = lane.block_table or self.block_table
        self.lane = lane.lane
        self.length = max(self.length, lane.length)
        if not self.admitted:
            self.admitted, self.cached = True, lane.cached
        if lane.phase == "padding":
            self.padding += lane.count
            return
        self.wait = None
        self.scheduled_ns = self.scheduled_ns or step.started_ns
        self.written = lane.start + lane.count
        self.computed += lane.count
        if lane.phase == "recompute":
            self.recomputed += max(0, lane.count - lane.reuse_needs)
        if self.finished is None:
            self.phase = lane.phase
        self.schedule_ns += step.schedule_ns
        self.sample_ns += step.sample_ns
        if self.latest is not None:
            self.decode_ns += step.run_ns
            return
        self.prefill_ns += step.run_ns
        unseen = self.chunks[-1].end if self.chunks else self.cached
        if step.merged and lane.start > unseen and len(self.chunks) < self.limits.chunks:
            # The iterations folded into this one computed what lies between; nobody told which did what.
            self.chunks.append(Chunk(unseen, lane.start - unseen, lane.phase, -1, -1, step.started_ns, 0))
        if len(self.chunks) < self.limits.chunks:
            began = step.started_ns + step.schedule_ns
            self.chunks.append(Chunk(lane.start, lane.count, lane.phase, step.iteration, lane.lane, began, step.run_ns))

    def waits(self, wait: Wait, step: Step) -> None:
        """Take the reason why it does not run in this iteration."""
        self.wait = wait
        self.queued_ns = self.queued_ns or step.started_ns
        if self.finished is None:
            self.phase = "queued"

    def drew(self, token: Sampled, iteration: int, room: int) -> int:
        """Take a generated token; returns by how many the kept tokens grew, at most `room`."""
        self.first_token_ns = self.first_token_ns or token.time_ns
        if self.latest is None or token.index >= self.latest.index:
            self.latest = token
        made = (iteration, self.lane) if iteration >= 0 else (-1, -1)
        have = len(self.tokens)
        if 0 <= token.index < have:
            self.tokens[token.index] = token
            self.revised += 1
            self.made[token.index] = made
            return 0
        grown = token.index + 1 - have
        if token.index < 0 or grown > room:
            self.not_kept = max(self.not_kept, grown) if token.index >= 0 else self.not_kept
            return 0
        self.tokens.extend([None] * (grown - 1))
        self.made.extend([(-1, -1)] * (grown - 1))
        self.tokens.append(token)
        self.made.append(made)
        return grown

    def took_over(self, tokens: tuple[Sampled, ...]) -> int:
        """Take a fork's tokens from its source; returns by how many the kept tokens grew."""
        if self.tokens:
            return 0
        self.tokens.extend(tokens)
        self.made.extend([(-1, -1)] * len(tokens))
        self.kept = len(tokens)
        return len(tokens)

    def said(self, delta: TextDelta, received_ns: int) -> None:
        """Take text of the reply."""
        self.first_text_ns = self.first_text_ns or delta.time_ns
        self.last_text_ns, self.counted = delta.time_ns, delta.tokens
        self.first_received_ns = self.first_received_ns or received_ns
        self.last_received_ns = received_ns
        if self._characters + len(delta.text) > self.limits.characters:
            self.text_cut = True
            return
        self._characters += len(delta.text)
        self._parts.setdefault(delta.channel, []).append(delta.text)

    def ended(self, finished: Finished, received_ns: int) -> None:
        """Take the end; the engine's own timeline replaces what was gathered here where it tells more."""
        self.finished = finished
        self.phase = "finished"
        self.wait = None
        self.finished_received_ns = received_ns
        self.preemptions = finished.preemptions
        if not self.admitted:
            self.admitted, self.cached = True, finished.cached_tokens
        line = finished.timeline
        self.queued_ns = line.queued_ns or self.queued_ns
        self.scheduled_ns = line.scheduled_ns or self.scheduled_ns
        self.first_token_ns = line.first_token_ns or self.first_token_ns
        if any(chunk.iteration < 0 for chunk in self.chunks):
            known = {(chunk.start, chunk.count): chunk for chunk in self.chunks if chunk.iteration >= 0}
            self.chunks = [
                known.get((start, count)) or Chunk(start, count, "prefill", -1, -1, began, max(0, over - began))
                for start, count, began, over in line.prefill[: self.limits.chunks]
            ] or self.chunks
        self.finished_ns = line.finished_ns or (self.latest.time_ns if self.latest else 0)
