"""How samples end, whatever ended them: pages back, text flushed, totals counted, and the request kept for forks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .protocol import Finished, FinishReason
from .request import Sample

if TYPE_CHECKING:
    from .core import EngineCore

REMEMBERED = 64  # finished requests that can still be forked


def end(core: EngineCore, sample: Sample, reason: FinishReason, detail: str, now: int) -> list[Finished]:
    """End one sample, and with it those that were asked for and can't be forked any more. The caller emits it all."""
    broke_off = reason in ("aborted", "failed")
    if broke_off:
        core.scheduler.abort(sample.sequence)
    else:
        core.scheduler.finish(sample.sequence)
    core.runner.release(sample.key)
    ending = core.replies.finish(sample, reason, detail, now)
    core.totals.finished(ending.timeline)
    request = sample.request
    never_started = range(len(request.samples), request.wanted) if broke_off else range(0)
    request.wanted -= len(never_started)
    if request.done:
        core.requests.pop(request.name, None)
        core.finished[request.name] = request
        while len(core.finished) > REMEMBERED:
            core.finished.popitem(last=False)
    return [ending, *[Finished(request.name, number, reason, detail) for number in never_started]]


def end_now(core: EngineCore, sample: Sample, reason: FinishReason, detail: str) -> None:
    """End a sample outside an iteration and say so."""
    for ending in end(core, sample, reason, detail, time.monotonic_ns()):
        core.emit(ending)


def abort(core: EngineCore, name: str) -> None:
    """Stop a request wherever it is. An unknown or finished one is left alone: the abort came too late."""
    request = core.requests.get(name)
    if request is None:
        return
    now = time.monotonic_ns()
    running = [sample for sample in request.samples if sample.reason is None]
    for ending in [ending for sample in running for ending in end(core, sample, "aborted", "", now)]:
        core.emit(ending)
