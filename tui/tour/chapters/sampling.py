"""The reply's first token drawn ten times, at a low and at a high temperature."""

from __future__ import annotations

from .. import figures
from ..chapter import Figures
from ..stage import Stage

DRAWS = 10
SETTINGS = {"low": (0.3, 0.9), "high": (1.5, 1.0)}


async def run(stage: Stage, setting: str) -> Figures:
    temperature, top_p = SETTINGS[setting]
    await stage.ask("mine", stage.question, most=1, samples=DRAWS, temperature=temperature, top_p=top_p)
    await stage.finished("mine")
    view = stage.view
    assert view is not None
    drawn = [sample.tokens[0] for sample in view.request("mine").samples.values() if sample.tokens]
    first = next(token for token in drawn if token is not None)
    pieces = [token.piece for token in drawn if token is not None]
    return {
        "leader": max((candidate.prob for candidate in first.candidates), default=first.prob),
        "entropy": first.entropy_after,
        "distinct": len(set(pieces)),
        "drawn": figures.tally(pieces),
    }
