"""The same eight requests one after another and in one batch."""

from __future__ import annotations

from ...panels.units import milliseconds
from ...state.timing import percentile
from .. import figures
from ..chapter import Figures
from ..stage import Stage
from .material import COMPANY

MOST = 16  # tokens of each


async def run(stage: Stage, setting: str) -> Figures:
    asked = [("mine", stage.question), *((name, question) for name, question, _ in COMPANY)]
    names = [name for name, _ in asked]
    if setting == "together":
        async with stage.held():
            for name, question in asked:
                await _ask(stage, name, question)
        await stage.finished(*names)
    else:
        for name, question in asked:
            await _ask(stage, name, question)
            await stage.finished(name)
    view = stage.view
    assert view is not None
    times = [figures.completion(view, name) for name in names]
    return {
        "throughput": figures.throughput(view, *names),
        "iterations": figures.iterations(view),
        "latency": int(percentile(times, 50)),
        "each": f"{milliseconds(min(times))} {figures.growth(times, 8)} {milliseconds(max(times))} ms",
        "between": int(percentile([figures.inter_token(view, name) for name in names], 50)),
    }


async def _ask(stage: Stage, name: str, question: str) -> None:
    await stage.ask(name, question, most=MOST, ignore_eos=True)
