"""Figures of a run, all derived from its events. Durations in nanoseconds."""

from __future__ import annotations

import itertools
from collections import Counter

from ...engine.protocol import Lane
from ..panels.glyphs import sparkline
from ..panels.stages import ttft_ns
from ..printable import printable
from ..state.timing import percentile
from .view import View


def ttft(view: View, name: str) -> int:
    """Submission to first token, in the engine."""
    return ttft_ns(view.request(name), view.sample(name)) or 0


def prefill(view: View, name: str) -> int:
    """First iteration to first token."""
    sample = view.sample(name)
    return max(0, sample.first_token_ns - sample.scheduled_ns)


def completion(view: View, name: str) -> int:
    """Submission to end, in the engine."""
    return max(0, view.sample(name).finished_ns - view.request(name).submitted_ns)


def first_paint(view: View, name: str) -> int:
    """Submission to the first text on the screen."""
    sample = view.sample(name)
    return max(0, sample.first_painted_ns - view.state.clock.here(view.request(name).submitted_ns))


def intervals(view: View, name: str) -> list[int]:
    """Times between neighbouring tokens."""
    return view.sample(name).intervals_ns(1_000_000)


def inter_token(view: View, name: str) -> int:
    """Time between neighbouring tokens, the median."""
    return int(percentile(intervals(view, name), 50))


def longest_gap(view: View, name: str, since_ns: int = 0, until_ns: int = 0) -> int:
    """The longest time between neighbouring tokens, of those that reach into the span of time, if one is given."""
    times = [token.time_ns for token in view.sample(name).tokens if token is not None]
    gaps = [
        after - before
        for before, after in itertools.pairwise(times)
        if after > since_ns and (not until_ns or before < until_ns)
    ]
    return max(gaps, default=0)


def iterations(view: View) -> int:
    """Passes through the model."""
    return sum(1 + step.merged for step in view.steps)


def lane_steps(view: View, name: str, number: int = 0) -> list[Lane]:
    """What a request's lane did, iteration by iteration, padding included."""
    full = view.full(name)
    return [lane for step in view.steps for lane in step.lanes if (lane.request, lane.sample) == (full, number)]


def computed(view: View, *names: str) -> int:
    """Positions computed for these requests, padding left out."""
    return sum(view.request(name).computed for name in names)


def computed_by_token(view: View, name: str) -> list[int]:
    """Positions computed for each token of the reply."""
    needed: list[int] = []
    full, gathered = view.full(name), 0
    for step in view.steps:
        gathered += sum(lane.count for lane in step.lanes if lane.request == full and lane.phase != "padding")
        for token in step.sampled:
            if token.request == full:
                needed.append(gathered)
                gathered = 0
    return needed


def useful_share(view: View) -> float:
    """Lane-steps that brought a request further, of all that worked or stood idle while somebody waited; 0 to 1."""
    return view.state.lanes.useful_share() or 0.0


def shared_pages(view: View) -> int:
    """The most pages that two requests held together."""
    return max((step.pool.shared for step in view.steps), default=0)


def throughput(view: View, *names: str) -> float:
    """Tokens a second of these requests together, from the first submission to the last end."""
    began = min(view.request(name).submitted_ns for name in names)
    ended = max(view.sample(name).finished_ns for name in names)
    tokens = sum(view.sample(name).generated for name in names)
    return tokens * 1e9 / (ended - began) if ended > began else 0.0


def tally(texts: list[str], most: int = 3) -> str:
    """How often each text came: "sky" ×7, "The" ×3."""
    counted = Counter(texts).most_common()
    shown = [f"“{printable(text).strip()}”×{times}" for text, times in counted[:most]]
    return " ".join([*shown, *(["…"] if len(counted) > most else [])])


def growth(values: list[int], width: int = 12) -> str:
    """How values grew: the first, a curve, the last."""
    if not values:
        return ""
    picked = [values[round(at * (len(values) - 1) / max(1, width - 1))] for at in range(min(width, len(values)))]
    return sparkline(picked, width)


def beginning(text: str, most: int = 40) -> str:
    """The first words of a reply, on one line."""
    line = " ".join(printable(text).split())
    return line if len(line) <= most else line[: most - 1].rsplit(" ", 1)[0] + " …"
