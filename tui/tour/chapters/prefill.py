"""A long prompt read whole and in chunks, beside a request that is decoding."""

from __future__ import annotations

from .. import figures
from ..chapter import Figures
from ..stage import Stage
from .material import OPENING

CHUNK = 16  # positions an iteration
DECODING = 4  # tokens that the neighbour has drawn when the prompt comes
MOST = 400  # tokens of the neighbour, which is stopped before: many, so that it writes on however late the prompt comes


async def run(stage: Stage, setting: str) -> Figures:
    if setting == "chunked":
        await stage.configure(token_budget=CHUNK)
    await stage.ask("B", "Tell a story about a fox.", most=MOST, ignore_eos=True)
    await stage.tokens("B", DECODING)
    await stage.ask("mine", OPENING, stage.question, most=12)
    await stage.finished("mine")
    await stage.stop("B")
    view = stage.view
    assert view is not None
    mine = view.sample("mine")
    times = [token.time_ns for token in view.sample("B").tokens if token is not None]
    return {
        "chunks": sum(chunk.phase == "prefill" for chunk in mine.chunks),
        "ttft": figures.ttft(view, "mine"),
        "gap": figures.longest_gap(view, "B", mine.scheduled_ns, mine.first_token_ns),
        "neighbour": sum(mine.scheduled_ns < time < mine.first_token_ns for time in times),
    }
