"""The contract between an engine and whatever shows it: read this file first.

Messages are msgspec structs, sent as length-prefixed msgpack (`wire.py`) over a pipe. *Commands* go to the
engine, *events* come from it; everything a screen draws is made from events alone. Three cores stand behind
it (local, remote, replay), told apart only by the capabilities in the model card.

Rules of the wire: unknown fields are ignored, fields are only ever added with a default, and another
`PROTOCOL_VERSION` is refused in one sentence. Every `*_ns` time stamp is `time.monotonic_ns()` of the engine's
host; durations end in `_ns` too and say so.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

PROTOCOL_VERSION = 1

Phase: TypeAlias = Literal["prefill", "decode", "recompute", "padding"]
Policy: TypeAlias = Literal["continuous", "static"]
Delivery: TypeAlias = Literal["streamed", "buffered"]
Role: TypeAlias = Literal["system", "user", "assistant", "tool", "control", "raw"]
FinishReason: TypeAlias = Literal["end", "stop", "length", "aborted", "failed"]
Cut: TypeAlias = Literal["", "banned", "min_p", "top_k", "top_p", "greedy"]
Bytes: TypeAlias = bytes  # fields called `bytes` hide the type where msgspec looks annotations up


class Message(msgspec.Struct, frozen=True):
    """One chat message. `role` is free text: the template decides which roles it knows."""

    role: str
    content: str


class SamplingSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """How one request draws its tokens. `settings.check()` validates it once, at the engine's border.

    Order of use: bias, allowed and minimum tokens; penalties; greedy or temperature; min-p; top-k; top-p; draw.
    """

    temperature: float = 0.7  # 0 is greedy
    top_k: int = 0  # 0 is off
    top_p: float = 1.0  # 1 is off
    min_p: float = 0.0  # 0 is off
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    max_tokens: int | None = None  # None: until the window is full
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    logit_bias: dict[int, float] = {}
    allowed_ids: tuple[int, ...] | None = None
    candidates: int = 8  # how many leading candidates each token reports; 0 reports none


# ------------------------------------------------------------------------------------------------- commands


class Command(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="command", tag=str.lower):
    """Base of everything sent to an engine."""


class Hello(Command, frozen=True):
    """First message on the wire; the answer is `Welcome`, or `Failed` and the end."""

    protocol: int = PROTOCOL_VERSION
    client: str = ""


class Load(Command, frozen=True):
    """Load a model. The loaded one, if any, serves until the new one is ready."""

    model: str = ""  # empty: the default model; else a folder, a GGUF file or a hub id
    precision: str = "auto"  # auto, float32, bfloat16, float16, int8
    device: str = "auto"  # auto, cpu, cuda
    threads: int = 0  # 0: chosen by the engine
    page_size: int = 16  # tokens a page
    pages: int = 0  # 0: chosen from the free memory
    max_lanes: int = 16
    token_budget: int = 512  # positions computed a step, at most
    window: int = 0  # 0: the model's own
    offline: bool = False
    chat_template: str = ""  # a named built-in template, where the model has none


class CancelLoad(Command, frozen=True):
    """Stop the load under way; the model loaded before stays."""


class Submit(Command, frozen=True):
    """Ask for a reply. Exactly one of `messages`, `text` and `token_ids` is given.

    `messages` go through the chat template, `text` is tokenized as it is, `token_ids` are used as they are.
    """

    request: str
    messages: tuple[Message, ...] = ()
    text: str | None = None
    token_ids: tuple[int, ...] | None = None
    settings: SamplingSettings = SamplingSettings()
    samples: int = 1
    delivery: Delivery = "streamed"
    label: str = ""  # what the lanes call it; empty: the request's own name
    fit: bool = True  # leave out whole oldest turns when the window is too small, and say so
    continue_last: bool = False  # the last message is the assistant's, unfinished: go on writing it


class Fork(Command, frozen=True):
    """Start `request` as a copy of a sample of `source`, kept up to `at` generated tokens, then `forced`.

    Full pages are shared, the partial one is copied. The source may be running or finished.
    """

    request: str
    source: str
    at: int
    sample: int = 0
    forced: int | None = None
    settings: SamplingSettings | None = None  # None: the source's
    label: str = ""


class Abort(Command, frozen=True):
    """Stop a request, whatever it is doing. What it said stays said."""

    request: str


class Configure(Command, frozen=True):
    """Change what the engine does from the next iteration on. None leaves a switch as it is."""

    policy: Policy | None = None
    prefix_cache: bool | None = None
    kv_reuse: bool | None = None
    delivery: Delivery | None = None  # for running and coming requests
    inspect: bool | None = None  # candidates, entropy and page changes in the step events
    token_budget: int | None = None
    max_lanes: int | None = None
    request: str | None = None  # whose `settings` change
    settings: SamplingSettings | None = None


class Pause(Command, frozen=True):
    """Hold the engine before its next iteration."""


class StepOnce(Command, frozen=True):
    """While paused: run this many iterations."""

    count: int = 1


class Resume(Command, frozen=True):
    """Let a paused engine run."""


class Inspect(Command, frozen=True):
    """Ask for what events do not carry by themselves; answered by `PageDetail` or `Metrics`."""

    page: int | None = None  # None: metrics


class ClearCache(Command, frozen=True):
    """Forget every unreferenced cached page, so that a cold run can be compared with a warm one."""


class Shutdown(Command, frozen=True):
    """End the engine process. Running requests are aborted first."""


AnyCommand: TypeAlias = (
    Hello
    | Load
    | CancelLoad
    | Submit
    | Fork
    | Abort
    | Configure
    | Pause
    | StepOnce
    | Resume
    | Inspect
    | ClearCache
    | Shutdown
)


# --------------------------------------------------------------------------------------------------- events


class Event(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="event", tag=str.lower):
    """Base of everything an engine says."""


class Welcome(Event, frozen=True):
    """Answer to `Hello`. `clock_ns` lets a client on another host line the clocks up."""

    protocol: int
    engine: str  # version
    pid: int
    clock_ns: int


class LoadProgress(Event, frozen=True):
    """A slow part of loading. `total` 0 means unknown. `unit` is "bytes", "tensors", "steps" or ""."""

    stage: str  # find, download, verify, unpack, convert, import, weights, selftest, calibrate
    done: int = 0
    total: int = 0
    unit: str = ""
    note: str = ""


class SelfTest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The load-time comparison of our paged forward with plain eager attention."""

    passed: bool
    max_difference: float  # worst row: RMS difference of logits in standard deviations
    tolerance: float
    reason: str = ""  # why not passed


class ModelCard(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is loaded and what it can show. A capability that is missing has its reason in `missing`."""

    name: str
    identity: str  # hash that keys pages, prefixes and caches
    architecture: str
    parameters: int
    weight_bytes: int
    precision: str
    device: str
    threads: int
    window: int  # tokens
    vocabulary: int
    layers: int
    page_size: int
    pages: int
    page_bytes: int  # keys and values of one page over all layers
    max_lanes: int
    token_budget: int
    attention: Literal["paged", "fallback", "remote"]
    attention_note: str = ""
    kernel: str = ""  # which matrix product serves decode
    end_ids: tuple[int, ...] = ()
    bos_id: int | None = None
    chat_template: bool = True
    license: str = ""
    source: str = ""
    selftest: SelfTest | None = None
    load_ns: int = 0  # duration
    capabilities: tuple[str, ...] = ()  # pages, lanes, candidates, prefill, timeline, pause, fork, switches, tokens
    missing: dict[str, str] = {}


class Ready(Event, frozen=True):
    """A model is loaded and serves."""

    card: ModelCard


class Switches(msgspec.Struct, frozen=True):
    """The state of everything `Configure` and `Pause` can change."""

    policy: Policy = "continuous"
    prefix_cache: bool = True
    kv_reuse: bool = True
    delivery: Delivery = "streamed"
    inspect: bool = True
    paused: bool = False
    token_budget: int = 512
    max_lanes: int = 16


class Configured(Event, frozen=True):
    """Sent after every change of a switch, and once after `Ready`."""

    switches: Switches


class PromptToken(msgspec.Struct, frozen=True, omit_defaults=True):
    """One token of a prompt: its piece of the rendered text is `text[start:end]`."""

    id: int
    piece: str  # as shown; bytes that are no whole character appear as U+FFFD
    role: Role
    control: bool = False
    message: int = -1  # index of the message it belongs to, -1: the template's own
    start: int = 0
    end: int = 0
    bytes: Bytes = b""


class Candidate(msgspec.Struct, frozen=True, omit_defaults=True):
    """A token that could have been drawn. Log-probabilities are natural; None stands for minus infinity."""

    id: int
    piece: str
    bytes: Bytes
    logit: float  # raw, as the model gave it
    logprob: float | None  # raw, at temperature 1, before everything
    tempered: float  # probability after bias, penalties and temperature
    prob: float  # probability it was drawn with; 0 where cut
    cut: Cut = ""


class Sampled(msgspec.Struct, frozen=True, omit_defaults=True):
    """One generated token: what it is, how it was drawn, where its key and value will live."""

    request: str
    sample: int
    index: int  # among the generated tokens, from 0
    position: int  # in the sequence, from 0
    id: int
    piece: str
    bytes: Bytes
    time_ns: int
    logprob: float | None = None  # raw, at temperature 1
    rank: int = 0  # by raw logit, from 1; 0: not known
    prob: float = 0.0  # it was drawn with
    entropy: float = 0.0  # nats, of the raw distribution
    entropy_after: float = 0.0  # nats, of the distribution it was drawn from
    draw: float | None = None  # the uniform number in [0, 1); None: greedy or forced
    forced: bool = False
    end: bool = False  # an end token: shown in the row, not in the text
    candidates: tuple[Candidate, ...] = ()


class PromptRendered(Event, frozen=True):
    """A request's prompt: the template's text and the row of tokens made from it."""

    request: str
    text: str
    tokens: tuple[PromptToken, ...]
    template_ns: int  # duration
    tokenize_ns: int  # duration
    submitted_ns: int  # when the command was read
    rendered_ns: int
    window: int
    repairs: tuple[str, ...] = ()  # what was changed so that the template accepts the roles
    left_out: tuple[int, ...] = ()  # indices of messages outside the window
    stop: tuple[str, ...] = ()  # stop strings in force, the template's own turn prefix included
    notes: tuple[str, ...] = ()
    label: str = ""
    samples: int = 1
    source: str = ""  # the request this one was forked from
    kept: tuple[Sampled, ...] = ()  # a fork's tokens taken over from its source, and the forced one
    settings: SamplingSettings = SamplingSettings()


class Lane(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one batch lane did in one iteration: positions [start, start + count) of its sequence."""

    lane: int
    request: str
    sample: int
    phase: Phase
    start: int
    count: int
    length: int  # tokens the sequence has now
    prompt: int  # of which prompt
    cached: int = 0  # positions spared by the prefix cache when it was admitted
    reuse_needs: int = 0  # positions this would compute with KV reuse
    admitted: bool = False  # entered this lane in this iteration
    block_table: tuple[int, ...] = ()  # sent when it changed; empty: as last told


class Wait(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a sequence does not run, in words and numbers."""

    request: str
    sample: int
    reason: str
    pages_needed: int = 0
    pages_free: int = 0
    overtaken: int = 0


class PageChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a page after an iteration in which it changed.

    `used` has references, `cached` has none but can be matched or revived, `free` holds nothing of value.
    """

    page: int
    state: Literal["used", "cached", "free"]
    owners: tuple[str, ...] = ()  # "request/sample"
    fill: int = 0  # tokens written
    refs: int = 0
    hash: str = ""  # first 16 hex digits; empty: not matchable
    evicted: bool = False  # its cached content was given up
    copied_from: int = -1


class PoolTotals(msgspec.Struct, frozen=True):
    """Pages by state; used + cached + free = total."""

    total: int = 0
    used: int = 0
    shared: int = 0  # of the used: with more than one reference
    cached: int = 0
    free: int = 0


class Step(Event, frozen=True):
    """One iteration, derived from its plan. When the reader lags, several are merged into one."""

    iteration: int
    started_ns: int
    schedule_ns: int = 0  # duration, as the next three
    run_ns: int = 0
    sample_ns: int = 0
    finish_ns: int = 0
    lanes: tuple[Lane, ...] = ()
    waits: tuple[Wait, ...] = ()
    pages: tuple[PageChange, ...] = ()
    sampled: tuple[Sampled, ...] = ()
    preempted: tuple[str, ...] = ()  # "request/sample"
    computed: int = 0  # positions computed
    padding: int = 0  # of which for lanes that had finished
    reuse_needs: int = 0  # positions KV reuse needs for the same tokens
    recompute_needs: int = 0  # positions recomputing every prefix would have cost
    spared: int = 0  # positions the prefix cache spared sequences admitted in this iteration
    pool: PoolTotals = PoolTotals()
    policy: Policy = "continuous"
    merged: int = 0  # iterations before this one folded into it; their lanes are dropped, the rest is summed


class TextDelta(Event, frozen=True):
    """Text to append to a sample's reply. Never lost, never taken back."""

    request: str
    sample: int
    text: str
    tokens: int  # generated so far
    time_ns: int
    channel: Literal["answer", "reasoning"] = "answer"


class Timeline(msgspec.Struct, frozen=True):
    """One sample's life. Zero: it did not get there."""

    submitted_ns: int = 0
    rendered_ns: int = 0
    queued_ns: int = 0
    scheduled_ns: int = 0  # first iteration it took part in
    first_token_ns: int = 0
    finished_ns: int = 0
    template_ns: int = 0  # duration
    tokenize_ns: int = 0  # duration
    prefill: tuple[tuple[int, int, int, int], ...] = ()  # start, count, began_ns, ended_ns of each chunk
    tokens_ns: tuple[int, ...] = ()


class Finished(Event, frozen=True):
    """A sample ended. `reason` and `detail` tell why; the text has been sent as deltas."""

    request: str
    sample: int
    reason: FinishReason
    detail: str = ""  # "cut at 5 tokens", "window full", the stop string, the error
    prompt_tokens: int = 0
    cached_tokens: int = 0  # of which the prefix cache spared
    generated_tokens: int = 0
    preemptions: int = 0
    token_ids: tuple[int, ...] = ()
    timeline: Timeline = Timeline()


class Rejected(Event, frozen=True):
    """A request that was not accepted; nothing of it runs."""

    request: str
    message: str
    action: str = ""
    field: str = ""  # the setting that is wrong


class Failed(Event, frozen=True):
    """Something went wrong. `fatal` ends the engine; else it goes on."""

    message: str
    action: str = ""  # what the user can do
    kind: str = ""
    fatal: bool = False
    request: str = ""
    detail: str = ""  # for the log and --debug


class PageDetail(Event, frozen=True):
    """Answer to `Inspect(page=…)`."""

    page: int
    state: Literal["used", "cached", "free"]
    token_ids: tuple[int, ...] = ()
    pieces: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    refs: int = 0
    fill: int = 0
    hash: str = ""
    positions: int = -1  # position of the first token; -1: not known


class Metrics(Event, frozen=True):
    """Engine totals since the load, named as vLLM names them where it reports the same."""

    num_requests_running: int = 0
    num_requests_waiting: int = 0
    kv_cache_usage_perc: float = 0.0  # 0 to 1
    prefix_cache_queries: int = 0  # tokens
    prefix_cache_hits: int = 0  # tokens
    prompt_tokens: int = 0
    generation_tokens: int = 0
    num_preemptions: int = 0
    requests_finished: int = 0
    iterations: int = 0
    positions_computed: int = 0
    positions_padding: int = 0
    busy_ns: int = 0  # duration
    time_to_first_token_ns: tuple[int, int] = (0, 0)  # p50, p95
    inter_token_latency_ns: tuple[int, int] = (0, 0)  # p50, p95
    events_merged: int = 0
    resident_bytes: int = 0


AnyEvent: TypeAlias = (
    Welcome
    | LoadProgress
    | Ready
    | Configured
    | PromptRendered
    | Step
    | TextDelta
    | Finished
    | Rejected
    | Failed
    | PageDetail
    | Metrics
)
