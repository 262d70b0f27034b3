"""The reader's request without any saving, and with all of them."""

from __future__ import annotations

from .. import figures
from ..chapter import Figures
from ..stage import Stage
from .material import OPENING


async def run(stage: Stage, setting: str) -> Figures:
    saving = setting == "with"
    await stage.configure(prefix_cache=saving)
    if saving:  # somebody has said the same opening before
        await stage.ask("before", OPENING, "Which room shows water?", most=1)
        await stage.finished("before")
    await stage.configure(kv_reuse=saving, delivery="streamed" if saving else "buffered")
    await stage.ask("mine", OPENING, stage.question, most=24, min_tokens=12)
    await stage.finished("mine")
    await stage.painted("mine")
    view = stage.view
    assert view is not None
    return {
        "computed": figures.computed(view, "mine"),
        "ttft": figures.ttft(view, "mine"),
        "paint": figures.first_paint(view, "mine"),
        "complete": figures.completion(view, "mine"),
    }
