"""One stream of a server becoming our events: texts, tokens with what they were drawn from, and the ends."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import msgspec

from ..protocol import AnyEvent, Finished, FinishReason, Sampled, Step, Submit, TextDelta, Timeline
from ..reasoning import Channel, Splitter
from .answers import Choice, Chunk, Delta, Timings, TokenLogprob, Usage, error_text, text_of
from .drawn import UNTOLD, sampled
from .troubles import ServerTrouble


@dataclasses.dataclass(slots=True)
class Writing:
    """One sample as far as it came."""

    sample: int
    splitter: Splitter
    tokens: int = 0  # counted where the server tells them, else pieces of text
    pieces: int = 0  # of which were pieces of text
    ids: list[int] = dataclasses.field(default_factory=list)
    tokens_ns: list[int] = dataclasses.field(default_factory=list)
    held: list[tuple[Channel, str]] = dataclasses.field(default_factory=list)  # of a buffered delivery
    said: bool = False
    reasons: bool = False  # the server itself tells reasoning from the answer
    finish: str = ""
    stop: str | int | None = None
    tools: str = ""  # a tool that the model wants to be called
    ended: bool = False


class Reply:
    """Takes the chunks of one stream, which writes `count` samples from `first` on.

    `buffered` says whether text is to be held until the end; `prompt_tokens` is what is known of the prompt's length.
    """

    def __init__(
        self,
        command: Submit,
        emit: Callable[[AnyEvent], None],
        buffered: Callable[[], bool],
        submitted_ns: int,
        first: int = 0,
        count: int = 1,
        window: int = 0,
    ) -> None:
        self.command = command
        self.first = first
        self._window = window  # tokens; 0: not told
        self.prompt_tokens = 0
        self.logprobs_told: bool | None = None  # None: no text came yet
        self.usage: Usage | None = None
        self._timings: Timings | None = None
        self._emit = emit
        self._buffered = buffered
        self._submitted_ns = submitted_ns
        self._samples = {
            index: Writing(first + index, Splitter(midway=command.continue_last)) for index in range(count)
        }

    @property
    def open(self) -> list[int]:
        """Samples that have not ended."""
        return [writing.sample for writing in self._samples.values() if not writing.ended]

    @property
    def said(self) -> bool:
        """Whether anything came."""
        return any(writing.tokens for writing in self._samples.values())

    @property
    def finished(self) -> bool:
        """Whether the server has said of every sample why it ended."""
        return all(writing.finish for writing in self._samples.values())

    def take(self, chunk: Chunk, now_ns: int) -> None:
        """Take one chunk. Raises `ServerTrouble` for an error in it."""
        if chunk.error:
            raise ServerTrouble(error_text(chunk.error) or "the server reports an error without words")
        if chunk.usage is not None:
            self.usage = chunk.usage
        self._timings = chunk.timings or self._timings
        self.prompt_tokens = max(self.prompt_tokens, len(chunk.prompt_token_ids or ()))
        for choice in chunk.choices or ():
            writing = self._samples.get(choice.index or 0)
            if writing is not None and not writing.ended:
                self._take_choice(writing, choice, now_ns)

    def _take_choice(self, writing: Writing, choice: Choice, now_ns: int) -> None:
        delta = choice.delta or choice.message or Delta()
        text = text_of(delta.content) + text_of(delta.refusal) + text_of(choice.text)
        thought = text_of(delta.reasoning_content) or text_of(delta.reasoning)
        entries = (choice.logprobs.content or []) if choice.logprobs is not None else []
        if choice.finish_reason:
            writing.finish, writing.stop = choice.finish_reason, choice.stop_reason
        if delta.tool_calls:
            writing.tools = writing.tools or _tool(delta.tool_calls)
        ids = choice.token_ids or []
        if entries:
            self._draw(writing, entries, ids, bool(text or thought), now_ns)
        elif ids or text or thought:
            writing.tokens += len(ids) or 1
            writing.pieces += 0 if ids else 1
            writing.ids += ids
            writing.tokens_ns += [now_ns] * (len(ids) or 1)
        if text or thought:
            self.logprobs_told = bool(self.logprobs_told or entries)
        if thought:
            writing.reasons = True
            self._say(writing, [("reasoning", thought)], now_ns)
        if text:
            self._say(writing, [("answer", text)] if writing.reasons else writing.splitter.push(text), now_ns)

    def _draw(
        self, writing: Writing, entries: list[TokenLogprob], ids: list[int], with_text: bool, now_ns: int
    ) -> None:
        paired = ids if len(ids) == len(entries) else [UNTOLD] * len(entries)
        ending = writing.finish == "stop" and not isinstance(writing.stop, str) and not with_text
        drawn: list[Sampled] = []
        for entry, told in zip(entries, paired, strict=True):
            token = sampled(
                self.command.request, writing.sample, writing.tokens, entry, told, self.prompt_tokens, now_ns
            )
            drawn.append(token)
            writing.tokens += 1
            writing.ids.append(token.id)
            writing.tokens_ns.append(now_ns)
        if ending:
            drawn[-1] = msgspec.structs.replace(drawn[-1], end=True)
        self._emit(Step(UNTOLD, now_ns, sampled=tuple(drawn)))

    def _say(self, writing: Writing, pieces: list[tuple[Channel, str]], now_ns: int) -> None:
        if self._buffered():
            writing.held += pieces
            return
        for channel, text in [*writing.held, *pieces]:
            if text:
                writing.said = True
                self._emit(TextDelta(self.command.request, writing.sample, text, writing.tokens, now_ns, channel))
        writing.held.clear()

    # ------------------------------------------------------------------------------------------------- ends

    def complete(self, now_ns: int) -> None:
        """The stream is over, and said so: end every sample as the server told; one it told nothing of has failed."""
        for writing in self._samples.values():
            reason, detail = self._reason(writing)
            self._end(writing, reason, detail, now_ns)

    def broken(self, reason: FinishReason, detail: str, now_ns: int) -> None:
        """The stream broke: what was said stays. A sample whose end had come is complete all the same."""
        for writing in self._samples.values():
            if writing.finish:
                self._end(writing, *self._reason(writing), now_ns)
            else:
                self._end(writing, reason, detail, now_ns)

    def give_up(self) -> None:
        """End every sample without a word: the whole request was rejected."""
        for writing in self._samples.values():
            writing.ended = True

    def _reason(self, writing: Writing) -> tuple[FinishReason, str]:
        most = self.command.settings.max_tokens
        match writing.finish:
            case "stop" if isinstance(writing.stop, str):
                return "stop", writing.stop
            case "stop" if isinstance(writing.stop, int):
                return "stop", f"token {writing.stop}"
            case "length":
                return "length", self._limit(writing, most)
            case "tool_calls" | "function_call":
                return "end", f"it asks for the tool {writing.tools or '?'}, which can't be called from here"
            case "content_filter":
                return "failed", "the server's content filter ended it"
            case "abort" | "error" | "cancelled":
                return "failed", f"the server ended it: {writing.finish}"
            case "" if not writing.tokens:
                return "failed", "the server sent no reply"
            case _:
                return "end", ""

    def _limit(self, writing: Writing, most: int | None) -> str:
        if most and writing.tokens >= most:
            return f"cut at {most} tokens"
        prompt = (self.usage.prompt_tokens if self.usage is not None else None) or self.prompt_tokens
        if self._window and prompt and prompt + writing.tokens < self._window:
            return "cut at a limit of the server's own"
        return "window full"

    def _end(self, writing: Writing, reason: FinishReason, detail: str, now_ns: int) -> None:
        if writing.ended:
            return
        held, writing.held = [*writing.held, *writing.splitter.flush()], []
        for channel, text in held:
            if text:
                self._emit(TextDelta(self.command.request, writing.sample, text, writing.tokens, now_ns, channel))
        writing.ended = True
        usage, alone = self.usage, len(self._samples) == 1
        generated = usage.completion_tokens if usage is not None and alone else None
        prompt = (usage.prompt_tokens if usage is not None else None) or self.prompt_tokens
        self._emit(
            Finished(
                self.command.request,
                writing.sample,
                reason,
                detail,
                prompt_tokens=prompt,
                cached_tokens=usage.cached if usage is not None else 0,
                generated_tokens=writing.tokens if generated is None else generated,
                token_ids=tuple(writing.ids) if writing.ids and UNTOLD not in writing.ids else (),
                timeline=Timeline(
                    submitted_ns=self._submitted_ns,
                    first_token_ns=writing.tokens_ns[0] if writing.tokens_ns else 0,
                    finished_ns=now_ns,
                    tokens_ns=tuple(writing.tokens_ns),
                ),
                counted=bool(prompt) and (generated is not None or not writing.pieces),
                told=_told(self._timings, usage),
            )
        )


def _tool(calls: object) -> str:
    first = calls[0] if isinstance(calls, list) and calls else None
    function = first.get("function") if isinstance(first, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return name[:80] if isinstance(name, str) else ""


def _told(timings: Timings | None, usage: Usage | None) -> dict[str, str]:
    told: dict[str, str] = {}
    if timings is not None and timings.prompt_ms is not None:
        cached = f", {timings.cache_n:,} more from its cache" if timings.cache_n else ""
        told["prompt"] = f"{timings.prompt_n or 0:,} tokens read in {timings.prompt_ms:,.1f} ms{cached}"
    if timings is not None and timings.predicted_ms is not None:
        told["reply"] = f"{timings.predicted_n or 0:,} tokens written in {timings.predicted_ms:,.1f} ms"
    if usage is not None and usage.cached and "prompt" not in told:
        told["prompt"] = f"{usage.cached:,} of {usage.prompt_tokens or 0:,} tokens from its prefix cache"
    return told
