"""Three requests of uneven length on two lanes, under fixed and under continuous membership."""

from __future__ import annotations

from ...panels.units import milliseconds
from .. import figures
from ..chapter import Figures
from ..stage import Stage
from ..view import View
from .material import COMPANY


async def run(stage: Stage, setting: str) -> Figures:
    await stage.configure(policy=setting, max_lanes=2)
    async with stage.held():
        await stage.ask("mine", stage.question, most=32, ignore_eos=True)
        for name, question, most in COMPANY[:2]:
            await stage.ask(name, question, most=most, ignore_eos=True)
    await stage.finished("mine", "B", "C")
    view = stage.view
    assert view is not None
    return {
        "iterations": figures.iterations(view),
        "useful": figures.useful_share(view),
        "waited": sum(any(wait.request == view.full("C") for wait in step.waits) for step in view.steps),
        "reused": _reused(view),
        "finishes": ", ".join(milliseconds(figures.completion(view, name)) for name in ("mine", "B", "C")),
        "c": figures.completion(view, "C"),
    }


def _reused(view: View) -> int:
    """Lanes that C took over from B while A was in its own."""
    lanes = {lane.lane for lane in figures.lane_steps(view, "B")}
    return sum(
        any(lane.request == view.full("C") and lane.admitted and lane.lane in lanes for lane in step.lanes)
        and any(lane.request == view.full("mine") and lane.phase == "decode" for lane in step.lanes)
        for step in view.steps
    )
