"""What an engine says, but for the iterations themselves (`step_events.py`). Read `protocol.py` first."""

from __future__ import annotations

from typing import Literal

import msgspec

from .commands import SamplingSettings
from .step_events import Sampled
from .vocabulary import Bytes, Delivery, Event, FinishReason, Policy, Role


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
    compiling: bool = False  # our own kernels are, and replace `kernel` then: a `CardChanged` tells how it went
    deterministic: bool = False  # a request has the same bits alone and among any others
    step_bytes: int = 0  # of weights, read by a decode step of one sequence; 0: not known
    end_ids: tuple[int, ...] = ()
    bos_id: int | None = None
    chat_template: bool = True
    license: str = ""
    source: str = ""
    selftest: SelfTest | None = None
    load_ns: int = 0  # duration
    capabilities: tuple[str, ...] = ()  # pages, lanes, candidates, prefill, timeline, pause, fork, switches, tokens
    missing: dict[str, str] = {}
    models: tuple[str, ...] = ()  # all that a server offers


class Ready(Event, frozen=True):
    """A model is loaded and serves."""

    card: ModelCard


class CardChanged(Event, frozen=True):
    """What is loaded is served in another way, or more is known of it: a server has shown what it does not give."""

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


class PromptToken(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One token of a prompt: its piece of the rendered text is `text[start:end]`."""

    id: int
    piece: str  # as shown; bytes that are no whole character appear as U+FFFD
    role: Role
    control: bool = False
    message: int = -1  # index of the message it belongs to, -1: the template's own
    start: int = 0
    end: int = 0
    bytes: Bytes = b""


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
    delivery: Delivery = "streamed"
    source: str = ""  # the request this one was forked from
    kept: tuple[Sampled, ...] = ()  # a fork's tokens taken over from its source, and the forced one
    settings: SamplingSettings = SamplingSettings()


class SettingsChanged(Event, frozen=True):
    """A running request draws by other settings from the next iteration on."""

    request: str
    settings: SamplingSettings


class TextDelta(Event, frozen=True, gc=False):
    """Text to append to a sample's reply. Never lost, never taken back.

    Texts that waited together come as one, with the count and the time of the newest; a first one comes alone.
    """

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
    counted: bool = True  # False: a server did not report its token counts; the numbers are of what came
    told: dict[str, str] = {}  # what a server reported of this request, in words


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
    loading: bool = False  # what failed is a load; the model loaded before, if any, goes on serving


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
    memory_bytes_per_s: int = 0  # reading as much as a decode step does; 0: not measured
    kv_blocks: int = 0  # of a server's KV cache
    kv_block_tokens: int = 0
    untold: tuple[str, ...] = ()  # fields of which a server tells nothing: their zeros mean that


class Machine(Event, frozen=True):
    """Answer to `Inspect(machine=True)`: what the engine runs on. Nothing in it names a person or a host."""

    system: str = ""  # "Linux 6.8.0 x86_64"
    processor: str = ""  # the maker's name of it
    cores: int = 0  # physical ones that the engine may use
    hardware_threads: int = 0
    instructions: str = ""  # the best set that our kernels know; empty: not told
    memory_bytes: int = 0
    available_bytes: int = 0
    device: str = ""  # that "auto" chooses: "cpu", "cuda:0"
    device_name: str = ""
    device_bytes: int = 0
    device_free_bytes: int = 0
    device_problem: str = ""  # why there is no better device, where there could be one
    precision: str = ""  # that "auto" chooses
    kernels: str = ""  # our own for the CPU, where they serve
    kernels_problem: str = ""  # why not
    compiler: str = ""
    versions: dict[str, str] = {}

    @property
    def room_bytes(self) -> int:
        """What a model may take on the device that "auto" chooses."""
        return self.device_free_bytes if self.device.startswith("cuda") else self.available_bytes
