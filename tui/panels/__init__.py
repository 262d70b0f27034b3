"""The seven panels: one Line-API widget each, drawn from `tui/state/` alone.

Every panel is made with `Panel(state, selection)`; the app polls `refresh_if_changed()` of all from one timer and
handles `SelectionChanged`, `ForkRequested` and `InspectRequested`.
"""

from .candidates import CandidatesPanel
from .lanes import LanesPanel
from .lifecycle import LifecycleStrip
from .messages import ForkRequested, InspectRequested, SelectionChanged
from .pages import PagesPanel
from .panel import Panel
from .timeline import TimelinePanel
from .token_row import TokenRow
from .triangle import TrianglePanel

__all__ = [
    "CandidatesPanel",
    "ForkRequested",
    "InspectRequested",
    "LanesPanel",
    "LifecycleStrip",
    "PagesPanel",
    "Panel",
    "SelectionChanged",
    "TimelinePanel",
    "TokenRow",
    "TrianglePanel",
]
