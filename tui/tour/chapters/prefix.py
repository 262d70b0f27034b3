"""The same opening twice: computed again, and taken from the prefix cache."""

from __future__ import annotations

from .. import figures
from ..chapter import Figures
from ..stage import Stage
from .material import OPENING


async def run(stage: Stage, setting: str) -> Figures:
    await stage.configure(prefix_cache=setting == "reused")
    await stage.ask("B", OPENING, "Which room shows air?", most=192, ignore_eos=True)
    await stage.tokens("B", 1)
    await stage.ask("mine", OPENING, stage.question, most=16)
    await stage.finished("mine")
    await stage.stop("B")
    view = stage.view
    assert view is not None
    ends = view.sample("mine").finished
    return {
        "shared": figures.shared_pages(view),
        "computed": figures.computed(view, "mine"),
        "spared": ends.cached_tokens if ends is not None else 0,
        "ttft": figures.ttft(view, "mine"),
    }
