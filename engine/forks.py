"""Copies of sequences: parallel samples of one prompt, and replies that go on from another token."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from .endings import end_now
from .errors import PromptError, SettingError
from .protocol import Fork, PromptRendered, Sampled
from .request import Request, Sample, Stamps
from .settings import check

if TYPE_CHECKING:
    from .core import EngineCore


def fork_siblings(core: EngineCore, first: Sample) -> None:
    """Once a prompt is computed, start the other samples asked for on its pages.

    Each computes the prompt's last position again: its own first token is drawn from those logits.
    """
    request = first.request
    while len(request.samples) < request.wanted and first is request.samples[0]:
        sequence = core.scheduler.fork(
            first.sequence, 0, request.name, len(request.samples), None, first.sequence.max_length
        )
        stamps = Stamps(
            first.stamps.submitted_ns,
            first.stamps.rendered_ns,
            time.monotonic_ns(),
            template_ns=first.stamps.template_ns,
            tokenize_ns=first.stamps.tokenize_ns,
        )
        request.samples.append(core.intake.sample(request, sequence, stamps))


def fork_request(core: EngineCore, command: Fork) -> None:
    """Start a new request that keeps the first tokens of another's reply.

    Raises `PromptError` for an unknown source, `SettingError` for a place that is not there.
    """
    now = time.monotonic_ns()
    core.refuse_taken(command.request)
    source = core.requests.get(command.source) or core.finished.get(command.source)
    if source is None or command.sample >= len(source.samples):
        raise PromptError(f"There is no reply {command.source!r} to fork from.", "Send the message again instead.")
    origin = source.samples[command.sample]
    if not 0 <= command.at <= len(origin.generated):
        raise SettingError("at", f"at must be from 0 to {len(origin.generated)}, not {command.at}.")
    if command.forced is not None and not 0 <= command.forced < core.card.vocabulary:
        raise SettingError("forced", f"forced must be from 0 to {core.card.vocabulary - 1}, not {command.forced}.")
    settings = check(command.settings or source.settings, core.card.vocabulary)
    prompt_length = origin.sequence.prompt_length
    end, detail = core.intake.limits.end(prompt_length, settings)
    sequence = core.scheduler.fork(origin.sequence, command.at, command.request, 0, command.forced, end)
    request = Request(
        name=command.request,
        label=command.label or command.request,
        settings=settings,
        delivery=core.switches.delivery,
        end_ids=source.end_ids,
        window_detail=detail,
        style=source.style,
    )
    sample = core.intake.sample(request, sequence, Stamps(now, now))
    request.samples.append(sample)
    kept = [_moved(s, command.request) for s in origin.sampled[: command.at]]
    if command.forced is not None:
        kept.append(_forced(core, command, prompt_length + command.at, now))
    core.emit(
        PromptRendered(
            request=command.request,
            text="",
            tokens=(),
            template_ns=0,
            tokenize_ns=0,
            submitted_ns=now,
            rendered_ns=now,
            window=core.intake.limits.window,
            label=request.label,
            delivery=request.delivery,
            source=command.source,
            kept=tuple(kept),
            settings=settings,
        )
    )
    core.requests[request.name] = request
    core.finished.pop(request.name, None)
    sample.stamps.queued_ns = now
    reason, why = None, ""
    for event in kept:
        reason, why = core.replies.append(sample, event, grow=False, now=now)
    if reason is not None:
        end_now(core, sample, reason, why)
    # A seeded reply draws its i-th token with its i-th number, whichever branch it is on.
    sample.random.seek(len(sample.generated))


def _moved(event: Sampled, request: str) -> Sampled:
    return msgspec.structs.replace(event, request=request, sample=0)


def _forced(core: EngineCore, command: Fork, position: int, now: int) -> Sampled:
    token = command.forced
    assert token is not None
    return Sampled(
        request=command.request,
        sample=0,
        index=command.at,
        position=position,
        id=token,
        piece=core.tokenizer.piece(token),
        bytes=core.tokenizer.token_bytes(token),
        time_ns=now,
        forced=True,
        end=token in core.tokenizer.end_ids,
    )
