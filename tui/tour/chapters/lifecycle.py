"""The question alone, and after a page of text."""

from __future__ import annotations

from .. import figures
from ..chapter import Figures
from ..stage import Stage
from .material import OPENING


async def run(stage: Stage, setting: str) -> Figures:
    opening = (OPENING,) if setting == "long" else ()
    await stage.ask("mine", *opening, stage.question, most=24)
    await stage.finished("mine")
    view = stage.view
    assert view is not None
    ttft, prefill = figures.ttft(view, "mine"), figures.prefill(view, "mine")
    return {
        "prompt": len(view.request("mine").prompt),
        "before": max(0, ttft - prefill),
        "prefill": prefill,
        "ttft": ttft,
    }
