"""What is sent to an engine. Read `protocol.py` first."""

from __future__ import annotations

import msgspec

from .vocabulary import PROTOCOL_VERSION, Command, Delivery, Message, Policy


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
    page_size: int = 0  # tokens a page; 0: chosen by the engine for the device
    pages: int = 0  # 0: chosen from the free memory
    max_lanes: int = 16
    token_budget: int = 512  # positions computed a step, at most
    window: int = 0  # 0: the model's own
    offline: bool = False
    deterministic: bool = False  # a seeded request has the same bits alone and among any others
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
    json_schema: str = ""  # JSON text that the reply must fit; only servers can hold a reply to it
    template: str = ""  # another chat template than the model's: one of its own others, or a built-in one, by name


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
    """Ask for what events do not carry by themselves; answered by `PageDetail`, `Machine` or `Metrics`."""

    page: int | None = None  # None: metrics
    memory: bool = False  # measure how fast memory is read, for the metrics: a part of a second, best while idle
    machine: bool = False  # what the engine runs on; needs no model


class ClearCache(Command, frozen=True):
    """Forget every unreferenced cached page, so that a cold run can be compared with a warm one."""


class Shutdown(Command, frozen=True):
    """End the engine process. Running requests are aborted first."""
