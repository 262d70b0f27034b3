"""A request's life as seven stages with their times, for the lifecycle strip and the timeline."""

from __future__ import annotations

import msgspec

from ..state import RequestState, SampleState

NAMES = ("template", "tokenize", "queue", "prefill", "decode", "sample", "stream")


class Stage(msgspec.Struct, frozen=True):
    """One stage. `ns` None: no time is known (yet); `lit`: it runs now; `done`: it is over."""

    name: str
    ns: int | None
    lit: bool
    done: bool


def stages(request: RequestState, sample: SampleState | None, remote: bool = False) -> list[Stage]:
    """The seven stages in order; the three of a `remote` request, where a server does not tell its own.

    Template, tokenize, queue and prefill are spans of time; decode and sample are sums over the iterations the
    sample took part in (other lanes may have shared them); stream is the way of the newest text from the engine's
    time stamp to this process.
    """
    if remote:
        return server_stages(request, sample)
    rendered = request.rendered
    phase = request.phase
    over = phase in ("finished", "rejected", "failed")
    queue = prefill = decode = drawing = stream = None
    began = spoke = False
    if sample is not None:
        began, spoke = sample.scheduled_ns > 0, sample.first_token_ns > 0
        if began:
            queue = queued_ns(request, sample)
            prefill = max(0, sample.first_token_ns - sample.scheduled_ns) if spoke else sample.prefill_ns
        if spoke:
            decode, drawing = sample.decode_ns, sample.sample_ns
        if sample.first_received_ns:
            stream = sample.transport_ns
        over = over or sample.finished is not None
    running = began and not over and phase != "queued"  # a preempted one waits again
    received = sample is not None and sample.first_received_ns > 0
    return [
        Stage("template", rendered.template_ns if rendered else None, phase == "new", rendered is not None),
        Stage("tokenize", rendered.tokenize_ns if rendered else None, False, rendered is not None),
        Stage("queue", queue, not over and (phase == "queued" or (rendered is not None and not began)), began),
        Stage("prefill", prefill, running and not spoke, spoke),
        Stage("decode", decode, running and spoke, spoke and over),
        Stage("sample", drawing, running and spoke, spoke and over),
        Stage("stream", stream, running and received, received and over),
    ]


def server_stages(request: RequestState, sample: SampleState | None) -> list[Stage]:
    """What can be measured from outside: until the first token, the reply, and the way from the engine to here.

    The first is everything together: the network both ways, the server's template, queue and prefill.
    """
    over = request.phase in ("finished", "rejected", "failed") or (sample is not None and sample.finished is not None)
    first = ttft_ns(request, sample)
    spoke = first is not None
    reply = stream = None
    if sample is not None and spoke:
        reply = max(0, (sample.finished_ns or sample.last_text_ns) - sample.first_token_ns)
        stream = sample.transport_ns if sample.first_received_ns else None
    return [
        Stage("server", first, not over and not spoke, spoke),
        Stage("reply", reply, not over and spoke, spoke and over),
        Stage("stream", stream, not over and stream is not None, stream is not None and over),
    ]


def queued_ns(request: RequestState, sample: SampleState | None) -> int | None:
    """From the queue to the first iteration; None: it has not begun."""
    if sample is None or not sample.scheduled_ns:
        return None
    since = sample.queued_ns or (request.rendered.rendered_ns if request.rendered else 0) or sample.scheduled_ns
    return max(0, sample.scheduled_ns - since)


def ttft_ns(request: RequestState, sample: SampleState | None) -> int | None:
    """Submission to first token, in the engine; None: not there yet."""
    if sample is None or not sample.first_token_ns or not request.submitted_ns:
        return None
    return max(0, sample.first_token_ns - request.submitted_ns)
