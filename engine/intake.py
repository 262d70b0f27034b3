"""From a command to sequences: settings checked, prompt rendered, room made sure of. Nothing runs here."""

from __future__ import annotations

import dataclasses
import time

from . import prompt as prompts
from . import settings as settings_border
from .errors import PromptError, SettingError
from .protocol import Delivery, PromptRendered, SamplingSettings, Submit
from .request import ReplyStyle, Request, Sample, Stamps
from .sampler import History, RowRandom
from .scheduler import Scheduler
from .sequence import Sequence
from .textstream import TextStream
from .tokenizer import Tokenizer

RESERVE = 0.25  # of the window kept for the reply when old turns are left out and max_tokens is not set
LARGEST_SAMPLES = 64


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """What a sequence may grow to."""

    window: int
    capacity: int  # tokens the page pool holds

    def end(self, prompt: int, settings: SamplingSettings) -> tuple[int, str]:
        """Largest length of a sequence, and what it means to reach it."""
        end, detail = self.window, "window full"
        if self.capacity < end:
            end, detail = self.capacity, "page pool full"
        if settings.max_tokens is not None and prompt + settings.max_tokens <= end:
            end, detail = prompt + settings.max_tokens, f"cut at {settings.max_tokens} tokens"
        return end, detail


class Intake:
    """Turns submissions into requests with their first sample."""

    def __init__(self, tokenizer: Tokenizer, limits: Limits, vocabulary: int, template: str = "") -> None:
        self.tokenizer = tokenizer
        self.limits = limits
        self.vocabulary = vocabulary
        self.template = template

    def accept(self, command: Submit, scheduler: Scheduler, delivery: Delivery) -> tuple[Request, PromptRendered]:
        """Check and render one submission.

        Raises `SettingError`, `PromptError` or `TooLongError`; then nothing of it exists.
        """
        submitted = time.monotonic_ns()
        settings = settings_border.check(command.settings, self.vocabulary)
        if not 1 <= command.samples <= LARGEST_SAMPLES:
            raise SettingError("samples", f"samples must be a whole number from 1 to {LARGEST_SAMPLES}.")
        if command.json_schema:
            raise SettingError(
                "json_schema",
                "This engine can't hold a reply to a JSON schema.",
                "A server can: name one by --server.",
            )
        given = [command.messages, command.text is not None, command.token_ids is not None]
        if sum(map(bool, given)) != 1:
            raise PromptError("A request needs exactly one of messages, text and token ids.")
        if command.token_ids is not None:
            outside = [t for t in command.token_ids if not 0 <= t < self.vocabulary]
            if outside:
                raise SettingError(
                    "token_ids", f"token_ids names {outside[0]}, but the model has ids 0 to {self.vocabulary - 1}."
                )
        prompt = prompts.render(
            self.tokenizer,
            messages=command.messages,
            text=command.text,
            token_ids=command.token_ids,
            window=self.limits.window,
            reserve=self._reserve(settings) if command.fit else 1,
            fit=command.fit,
            continue_last=command.continue_last,
            template=command.template or self.template,
        )
        if not prompt.ids:
            raise PromptError("The prompt is empty: there is no token to start from.")
        scheduler.check_admissible(len(prompt.ids))
        rendered = time.monotonic_ns()
        request = self._request(command, settings, prompt, delivery)
        stamps = Stamps(submitted, rendered, template_ns=prompt.template_ns, tokenize_ns=prompt.tokenize_ns)
        sequence = Sequence(
            command.request, 0, list(prompt.ids), len(prompt.ids), self.limits.end(len(prompt.ids), settings)[0]
        )
        request.samples.append(self.sample(request, sequence, stamps))
        event = PromptRendered(
            request=command.request,
            text=prompt.text,
            tokens=prompt.tokens,
            template_ns=prompt.template_ns,
            tokenize_ns=prompt.tokenize_ns,
            submitted_ns=submitted,
            rendered_ns=rendered,
            window=self.limits.window,
            repairs=prompt.repairs,
            left_out=prompt.left_out,
            stop=tuple(dict.fromkeys((*settings.stop, *prompt.stop))),
            notes=prompt.notes,
            label=request.label,
            samples=command.samples,
            delivery=request.delivery,
            settings=settings,
        )
        return request, event

    def _request(
        self, command: Submit, settings: SamplingSettings, prompt: prompts.Prompt, delivery: Delivery
    ) -> Request:
        _, detail = self.limits.end(len(prompt.ids), settings)
        return Request(
            name=command.request,
            label=command.label or command.request,
            settings=settings,
            delivery="buffered" if "buffered" in (command.delivery, delivery) else "streamed",
            end_ids=frozenset(() if settings.ignore_eos else (*self.tokenizer.end_ids, *prompt.end_ids)),
            window_detail=detail,
            style=ReplyStyle(prompt.stop, prompt.opens_reasoning, prompt.midway, prompt.reasoning),
            wanted=command.samples,
        )

    def _reserve(self, settings: SamplingSettings) -> int:
        quarter = int(self.limits.window * RESERVE)
        return min(settings.max_tokens or quarter, quarter)

    def sample(self, request: Request, sequence: Sequence, stamps: Stamps) -> Sample:
        """A sample with nothing said yet."""
        settings, style = request.settings, request.style
        stop = tuple(dict.fromkeys((*settings.stop, *style.stop)))
        text = TextStream(
            self.tokenizer, stop, style.opens_reasoning, settings.min_tokens, midway=style.midway, tags=style.tags
        )
        prompt = tuple(sequence.tokens[: sequence.prompt_length])
        return Sample(
            request, sequence, text, RowRandom(settings.seed, sequence.sample), stamps, History(prompt), prompt
        )
