"""What the screen knows, as plain objects updated from events. Imports neither textual nor torch.

One `EngineState` an engine, one `Selection` a screen:

    state = EngineState()
    selection = Selection()
    state.apply(event)                       # every event, in the order it came
    state.mark_painted(request, now_ns)      # when the first text of a reply has reached the screen
    selection.select_token(request, sample, position)
    resolved = resolve(selection, state)     # token, page, slot, candidates, step and lane

Everything is bounded by `Limits`. Every part has a `version` that only grows, so a panel repaints only if the
versions it depends on have moved.
"""

from .engine import EngineState
from .labels import Letters, letter
from .lanes import FinishRecord, IterationRecord, LaneCell, LaneHistory, PolicySummary
from .limits import Limits
from .pool import Flash, PoolState
from .request import RequestPhase, RequestState
from .sample import Chunk, SampleState
from .selection import Resolved, Selection, TokenAt, page_tokens, resolve, selected_request
from .server_load import ServerLoad
from .timing import Clock, Shown, Timings, percentile

__all__ = [
    "Chunk",
    "Clock",
    "EngineState",
    "FinishRecord",
    "Flash",
    "IterationRecord",
    "LaneCell",
    "LaneHistory",
    "Letters",
    "Limits",
    "PolicySummary",
    "PoolState",
    "RequestPhase",
    "RequestState",
    "Resolved",
    "SampleState",
    "Selection",
    "ServerLoad",
    "Shown",
    "Timings",
    "TokenAt",
    "letter",
    "page_tokens",
    "percentile",
    "resolve",
    "selected_request",
]
