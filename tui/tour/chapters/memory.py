"""A reply with its keys and values kept, and with all of them computed again for every token."""

from __future__ import annotations

from ...panels.units import milliseconds
from .. import figures
from ..chapter import Figures
from ..stage import Stage


async def run(stage: Stage, setting: str) -> Figures:
    await stage.configure(kv_reuse=setting == "reuse")
    await stage.ask("mine", stage.question, most=32, ignore_eos=True)
    await stage.tokens("mine", 6)
    await stage.ask("B", "Name three colours and a thing that has each of them.", most=6, ignore_eos=True)
    await stage.finished("mine", "B")
    view = stage.view
    assert view is not None
    positions = figures.computed_by_token(view, "mine")[1:]  # the first is the prompt's
    times = figures.intervals(view, "mine")
    return {
        "computed": figures.computed(view, "mine"),
        "token": figures.inter_token(view, "mine"),
        "last": positions[-1],
        "growth": f"{positions[0]} {figures.growth(positions)} {positions[-1]}",
        "times": f"{milliseconds(times[0])} {figures.growth(times)} {milliseconds(times[-1])} ms",
    }
