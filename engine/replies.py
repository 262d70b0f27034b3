"""From drawn tokens to replies: append, detokenise, decide whether it ends, say so."""

from __future__ import annotations

from collections.abc import Callable

from .protocol import AnyEvent, Finished, FinishReason, Sampled, TextDelta
from .request import Request, Sample
from .sampler import Draw
from .tokenizer import Tokenizer

Emit = Callable[[AnyEvent], None]


class Replies:
    """Turns draws into text and finish events. `emit` receives them."""

    def __init__(self, tokenizer: Tokenizer, emit: Emit) -> None:
        self.tokenizer = tokenizer
        self.emit = emit

    def take(self, sample: Sample, draw: Draw, now: int) -> tuple[Sampled, FinishReason | None, str]:
        """Append a drawn token to its sample, send its text, and tell whether and why the sample ends."""
        token, request = draw.id, sample.request
        index = len(sample.generated)
        event = Sampled(
            request=request.name,
            sample=sample.sequence.sample,
            index=index,
            position=len(sample.sequence),
            id=token,
            piece=self.tokenizer.piece(token),
            bytes=self.tokenizer.token_bytes(token),
            time_ns=now,
            logprob=draw.logprob,
            rank=draw.rank,
            prob=draw.prob,
            entropy=draw.entropy,
            entropy_after=draw.entropy_after,
            draw=draw.draw,
            end=token in request.end_ids,
            candidates=draw.candidates,
        )
        if not sample.stamps.first_token_ns:
            sample.stamps.first_token_ns = now
        sample.stamps.tokens_ns.append(now)
        return event, *self.append(sample, event)

    def append(
        self, sample: Sample, event: Sampled, grow: bool = True, now: int | None = None
    ) -> tuple[FinishReason | None, str]:
        """Add a token that is known to be next; its text is sent as of `now`, if that is not when it was drawn.

        With `grow` False the sequence holds it already (a fork's).
        """
        request, token = sample.request, event.id
        if grow:
            sample.sequence.tokens.append(token)
        sample.generated.append(token)
        sample.sampled.append(event)
        if event.end:
            return "end", ""
        if token in request.settings.stop_ids:
            return "stop", f"stop id {token}"
        pieces, matched = sample.text.push(token)
        for channel, text in pieces:
            self._say(sample, channel, text, event.time_ns if now is None else now)
        if matched is not None:
            return "stop", matched
        if sample.sequence.prompt_length + len(sample.generated) >= sample.sequence.max_length:
            return "length", request.window_detail
        return None, ""

    def finish(self, sample: Sample, reason: FinishReason, detail: str, now: int) -> Finished:
        """End a sample: release held text and return the event, which the caller sends after the step's."""
        sample.reason = reason
        sample.stamps.finished_ns = now
        # A matched stop string takes the text held back for it with it; every other ending shows it.
        if reason != "stop" or detail.startswith("stop id "):
            for channel, text in sample.text.finish():
                self._say(sample, channel, text, now)
        self.flush(sample, now)
        sequence = sample.sequence
        return Finished(
            request=sample.request.name,
            sample=sequence.sample,
            reason=reason,
            detail=detail,
            prompt_tokens=sequence.prompt_length,
            cached_tokens=sequence.cached,
            generated_tokens=len(sample.generated),
            preemptions=sequence.preemptions,
            token_ids=tuple(sample.generated),
            timeline=sample.stamps.timeline(),
        )

    def deliver(self, request: Request, now: int) -> None:
        """A request was switched to streamed: send what was held back for the end."""
        for sample in request.samples:
            self.flush(sample, now)

    def flush(self, sample: Sample, now: int) -> None:
        """Send held text, one delta a run of the same channel."""
        held, sample.held = sample.held, []
        runs: list[tuple[str, list[str]]] = []
        for channel, text in held:
            if not runs or runs[-1][0] != channel:
                runs.append((channel, []))
            runs[-1][1].append(text)
        for channel, texts in runs:
            self._send(sample, channel, "".join(texts), now)

    def _say(self, sample: Sample, channel: str, text: str, now: int) -> None:
        if not text:
            return
        if sample.request.delivery == "buffered":
            sample.held.append((channel, text))
        else:
            self._send(sample, channel, text, now)

    def _send(self, sample: Sample, channel: str, text: str, now: int) -> None:
        self.emit(
            TextDelta(
                request=sample.request.name,
                sample=sample.sequence.sample,
                text=text,
                tokens=len(sample.generated),
                time_ns=now,
                channel="reasoning" if channel == "reasoning" else "answer",
            )
        )
