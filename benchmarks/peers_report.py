"""From the figures of `peers.py` to the table in `RESULTS.md`: medians, and ratios against what is to be reached."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable

import results_file

PEERS = ("ours", "llama.cpp", "llama.cpp Q4_0", "vLLM bf16", "transformers float32", "transformers bfloat16")
COLUMNS = {  # target and figure -> title
    ("single", "decode"): "decode, 1 stream",
    ("single1", "decode"): "1 stream, 1 thread",
    ("streams", "decode"): "16 streams",
    ("prefill", "prefill"): "prefill 512",
    ("busy", "decode"): "1 stream, a core busy",
    ("context", "short"): "after 64 tokens",
    ("context", "long"): "after 8,000 tokens",
    ("followup", "cold"): "TTFT cold, ms",
    ("followup", "warm"): "TTFT follow-up, ms",
}


@dataclasses.dataclass(frozen=True)
class Measured:
    """One figure of one round. `batch` names the run of rounds that it belongs to."""

    batch: str
    target: str
    peer: str
    figure: str
    value: float


class Medians:
    """The newest batch of every target and peer, summed up."""

    def __init__(self, measured: list[Measured]) -> None:
        newest: dict[tuple[str, str], str] = {}
        for entry in measured:
            key = (entry.target, entry.peer)
            newest[key] = max(newest.get(key, ""), entry.batch)
        self.values: dict[tuple[str, str, str], list[float]] = {}
        for entry in measured:
            if newest[entry.target, entry.peer] == entry.batch:
                self.values.setdefault((entry.target, entry.figure, entry.peer), []).append(entry.value)

    def of(self, target: str, figure: str, peer: str) -> float | None:
        """The median; None where nothing was measured."""
        values = self.values.get((target, figure, peer))
        return statistics.median(values) if values else None

    def ratio(self, target: str, figure: str, peer: str) -> float | None:
        """Ours over a peer's."""
        ours, theirs = self.of(target, figure, "ours"), self.of(target, figure, peer)
        return ours / theirs if ours and theirs else None

    def fall(self, peer: str) -> float | None:
        """Decode after a long context over decode after a short one."""
        short, long = self.of("context", "short", peer), self.of("context", "long", peer)
        return long / short if short and long else None


def _over(first: float | None, second: float | None) -> float | None:
    return first / second if first and second else None


GOALS: tuple[tuple[str, str, Callable[[Medians], float | None]], ...] = (
    ("1 stream / llama.cpp, same file", "≥ 1.3", lambda m: m.ratio("single", "decode", "llama.cpp")),
    ("1 stream / llama.cpp, its best quantisation", "≥ 1.1", lambda m: m.ratio("single", "decode", "llama.cpp Q4_0")),
    ("1 stream, 1 thread / llama.cpp", "≥ 1.1", lambda m: m.ratio("single1", "decode", "llama.cpp")),
    ("16 streams / vLLM", "≥ 1.3", lambda m: m.ratio("streams", "decode", "vLLM bf16")),
    ("16 streams / llama.cpp", "≥ 2.5", lambda m: m.ratio("streams", "decode", "llama.cpp")),
    ("prefill 512 / llama.cpp", "≥ 5", lambda m: m.ratio("prefill", "prefill", "llama.cpp")),
    ("prefill 512 / vLLM", "≥ 1", lambda m: m.ratio("prefill", "prefill", "vLLM bf16")),
    (
        "TTFT of a follow-up / cold, 2,000 tokens",
        "< 0.1",
        lambda m: _over(m.of("followup", "warm", "ours"), m.of("followup", "cold", "ours")),
    ),
    (
        "a core busy / quiet",
        "≥ 0.5",
        lambda m: _over(m.of("busy", "decode", "ours"), m.of("single", "decode", "ours")),
    ),
    (
        "fall from 64 to 8,000 tokens / llama.cpp's",
        "≥ 1",
        lambda m: _over(m.fall("ours"), m.fall("llama.cpp")),
    ),
)  # fmt: skip


def text(measured: list[Measured], machine: str) -> str:
    """The section as Markdown."""
    medians = Medians(measured)
    used = [column for column in COLUMNS if any(medians.of(*column, peer) for peer in PEERS)]
    lines = [
        "## On a CPU, against the peers",
        "",
        f"{time.strftime('%Y-%m-%d')}, {machine}.",
        "The default model, the same weights for all, two threads unless it says one; medians of alternating rounds",
        "(`benchmarks/peers.py`). Rates in tokens a second.",
        "",
        "| | " + " | ".join(COLUMNS[column] for column in used) + " |",
        "|---|" + "---|" * len(used),
    ]
    for peer in PEERS:
        cells = [medians.of(*column, peer) for column in used]
        if any(cells):
            lines.append(f"| {peer} | " + " | ".join(_cell(value) for value in cells) + " |")
    lines += ["", "| ratio | target | measured |", "|---|---|---|"]
    lines += [f"| {name} | {goal} | {_ratio(find(medians))} |" for name, goal, find in GOALS]
    return "\n".join(lines)


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _ratio(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def write(measured: list[Measured]) -> None:
    """Put the section into `RESULTS.md`."""
    results_file.replace_section("peers", text(measured, results_file.machine()))
