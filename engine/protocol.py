"""The contract between an engine and whatever shows it: read this file first.

Messages are msgspec structs, sent as length-prefixed msgpack (`wire.py`) over a pipe. *Commands* go to the
engine, *events* come from it; everything a screen draws is made from events alone. Three cores stand behind
it (local, remote, replay), told apart only by the capabilities in the model card.

Rules of the wire: unknown fields are ignored, fields are only ever added with a default, and another
`PROTOCOL_VERSION` is refused in one sentence. Every `*_ns` time stamp is `time.monotonic_ns()` of the engine's
host; durations end in `_ns` too and say so.
"""

from __future__ import annotations

from typing import TypeAlias

from .commands import (
    Abort,
    CancelLoad,
    ClearCache,
    Configure,
    Fork,
    Hello,
    Inspect,
    Load,
    Pause,
    Resume,
    SamplingSettings,
    Shutdown,
    StepOnce,
    Submit,
)
from .events import (
    CardChanged,
    Configured,
    Failed,
    Finished,
    LoadProgress,
    Machine,
    Metrics,
    ModelCard,
    PageDetail,
    PromptRendered,
    PromptToken,
    Ready,
    Rejected,
    SelfTest,
    SettingsChanged,
    Switches,
    TextDelta,
    Timeline,
    Welcome,
)
from .step_events import (
    Candidate,
    Lane,
    PageChange,
    PoolTotals,
    Sampled,
    Step,
    Wait,
)
from .vocabulary import (
    PROTOCOL_VERSION,
    Bytes,
    Command,
    Cut,
    Delivery,
    Event,
    FinishReason,
    Message,
    Phase,
    Policy,
    Role,
)

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

AnyEvent: TypeAlias = (
    Welcome
    | LoadProgress
    | Ready
    | CardChanged
    | Configured
    | PromptRendered
    | SettingsChanged
    | Step
    | TextDelta
    | Finished
    | Rejected
    | Failed
    | PageDetail
    | Metrics
    | Machine
)

__all__ = [
    "PROTOCOL_VERSION",
    "Abort",
    "AnyCommand",
    "AnyEvent",
    "Bytes",
    "CancelLoad",
    "Candidate",
    "CardChanged",
    "ClearCache",
    "Command",
    "Configure",
    "Configured",
    "Cut",
    "Delivery",
    "Event",
    "Failed",
    "FinishReason",
    "Finished",
    "Fork",
    "Hello",
    "Inspect",
    "Lane",
    "Load",
    "LoadProgress",
    "Machine",
    "Message",
    "Metrics",
    "ModelCard",
    "PageChange",
    "PageDetail",
    "Pause",
    "Phase",
    "Policy",
    "PoolTotals",
    "PromptRendered",
    "PromptToken",
    "Ready",
    "Rejected",
    "Resume",
    "Role",
    "Sampled",
    "SamplingSettings",
    "SelfTest",
    "SettingsChanged",
    "Shutdown",
    "Step",
    "StepOnce",
    "Submit",
    "Switches",
    "TextDelta",
    "Timeline",
    "Wait",
    "Welcome",
]
