"""The same reply streamed and buffered."""

from __future__ import annotations

from .. import figures
from ..chapter import Figures
from ..stage import Stage


async def run(stage: Stage, setting: str) -> Figures:
    await stage.configure(delivery=setting)
    await stage.ask("mine", stage.question, most=32, min_tokens=12)
    await stage.finished("mine")
    await stage.painted("mine")
    view = stage.view
    assert view is not None
    texts = [event for event in view.texts if event.request == view.full("mine")]
    return {
        "early": texts[0].tokens if texts else 0,
        "paint": figures.first_paint(view, "mine"),
        "complete": figures.completion(view, "mine"),
        "between": figures.inter_token(view, "mine"),
    }
