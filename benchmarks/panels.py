"""What painting each panel costs: lay-out and all visible rows, with 16 lanes, 1,000 pages and 2,000 tokens.

    python benchmarks/panels.py [repeats]

Times are processor time of the UI thread alone, for `repaint()` and the panel's strips, without the terminal.
The aim is under 5 ms a panel.
"""

from __future__ import annotations

import asyncio
import math
import sys
import time

from cutaway.engine.protocol import (
    Candidate,
    Configured,
    Lane,
    ModelCard,
    PageChange,
    Phase,
    PoolTotals,
    PromptRendered,
    PromptToken,
    Ready,
    Sampled,
    Step,
    Switches,
    TextDelta,
    Wait,
)
from cutaway.tui.panels import (
    CandidatesPanel,
    LanesPanel,
    LifecycleStrip,
    PagesPanel,
    Panel,
    TimelinePanel,
    TokenRow,
    TrianglePanel,
)
from cutaway.tui.state import EngineState, Selection, percentile
from textual.app import App, ComposeResult

LANES, PAGES, TOKENS, PROMPT = 16, 1_000, 2_000, 1_500
KINDS = (LifecycleStrip, TokenRow, LanesPanel, TrianglePanel, PagesPanel, CandidatesPanel, TimelinePanel)
LIMIT_MS = 5.0


def card() -> ModelCard:
    return ModelCard(
        "bench", "0" * 16, "none", 1, 1, "float32", "cpu", 1, 8192, 49_152, 30, 16, PAGES, 1 << 16, LANES, 512,
        "paged", capabilities=("pages", "lanes", "candidates", "prefill", "timeline", "tokens", "fork"),
    )  # fmt: skip


def candidates(index: int) -> tuple[Candidate, ...]:
    logits = [8.0 - at - (index % 7) * 0.1 for at in range(8)]
    total = sum(map(math.exp, logits))
    probs = [math.exp(logit) / total for logit in logits]
    return tuple(
        Candidate(at, f" word{at}", b"", logits[at], math.log(prob), prob, prob) for at, prob in enumerate(probs)
    )


def step(iteration: int) -> Step:
    """An iteration of all lanes: the first requests prefill in chunks of 128, then all decode."""
    lanes, sampled, changes = [], [], []
    for lane in range(LANES):
        request = f"r{lane}"
        start = iteration * 128
        phase: Phase = "prefill" if start < PROMPT else "decode"
        drawn = max(0, iteration - PROMPT // 128)
        count = min(128, PROMPT - start) if phase == "prefill" else 1
        at = start if phase == "prefill" else PROMPT + drawn - 1
        table = tuple(range(lane * 60, lane * 60 + 60))
        lanes.append(Lane(lane, request, 0, phase, at, count, PROMPT + drawn, PROMPT, 0, count, iteration == 0, table))
        changes.append(PageChange(lane * 60 + iteration % 60, "used", (f"{request}/0",), 1 + iteration % 16, 1))
        if phase == "decode" or start + count == PROMPT:
            now = iteration * 10**7
            sampled.append(
                Sampled(request, 0, drawn, PROMPT + drawn, 7, " word", b" word", now, -0.5, 1, 0.6, 1.0, 0.9, 0.3,
                        candidates=candidates(drawn))
            )  # fmt: skip
    return Step(
        iteration, iteration * 10**7, 10**5, 8 * 10**6, 10**6, 10**5, tuple(lanes),
        tuple(Wait(f"w{at}", 0, "4 pages needed, 2 free") for at in range(4)), tuple(changes), tuple(sampled),
        computed=sum(lane.count for lane in lanes), pool=PoolTotals(PAGES, 960, 0, 20, 20),
    )  # fmt: skip


def filled() -> EngineState:
    state = EngineState()
    state.apply(Ready(card()))
    state.apply(Configured(Switches()))
    prompt = tuple(PromptToken(at, " token", "user", at % 50 == 0) for at in range(PROMPT))
    for lane in range(LANES):
        state.apply(PromptRendered(f"r{lane}", "", prompt, 1, 1, 1, 2, 8192))
    for iteration in range(TOKENS - PROMPT + PROMPT // 128):
        state.apply(step(iteration))
    for lane in range(LANES):
        state.apply(TextDelta(f"r{lane}", 0, " word", 1, 10**9))
    return state


class Bench(App[None]):
    def __init__(self, panel: Panel) -> None:
        super().__init__()
        self.panel = panel

    def compose(self) -> ComposeResult:
        yield self.panel


async def measure(kind: type[Panel], size: tuple[int, int], repeats: int) -> list[float]:
    """Milliseconds of each repaint after one more step of all lanes."""
    state, selection = filled(), Selection()
    selection.select_request("r3")
    app = Bench(kind(state, selection))
    times = []
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        iteration = len(state.lanes.records)
        for at in range(repeats):
            state.apply(step(iteration + at))
            began = time.thread_time_ns()
            app.panel.repaint()
            app.panel.render_lines(app.panel.size.region)
            times.append((time.thread_time_ns() - began) / 1e6)
            await pilot.pause()
    return times


async def main(repeats: int) -> int:
    worst = 0.0
    print(f"{'panel':<16} {'size':>8} {'p50 ms':>8} {'p95 ms':>8}   of {LIMIT_MS:g} ms")
    for size in ((80, 24), (160, 48)):
        for kind in KINDS:
            times = await measure(kind, size, repeats)
            p50, p95 = percentile(times, 50), percentile(times, 95)
            worst = max(worst, p50)
            print(f"{kind.__name__:<16} {size[0]}x{size[1]:<5} {p50:>8.2f} {p95:>8.2f}   {p50 / LIMIT_MS:.0%}")
    state = filled()
    began = time.thread_time_ns()
    first = len(state.lanes.records)
    for at in range(repeats):
        state.apply(step(first + at))
    print(f"{'state.apply':<25} {(time.thread_time_ns() - began) / 1e6 / repeats:>8.2f} ms a step of {LANES} lanes")
    return int(worst > LIMIT_MS)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)))
