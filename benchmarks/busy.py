"""Our decode speed while another program keeps one core busy, against a quiet machine: one stream, default model.

    python benchmarks/busy.py [--rounds 6] [--tokens 192] [--threads 0] [--streams 1] [--write]

The conditions take turns within each round, in one process with one loaded engine, so that a change of the machine's
mood hits all of them. The other program is a loop without end in a session of its own, as from another terminal:
first wherever the system puts it, then held on each core in turn. Prints medians, all rounds, and ratios; `--write`
puts them into `benchmarks/RESULTS.md`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

import own_core
import results_file

PROMPT = 64
SETTLE = 0.3  # seconds between the other program's start and ours
LOOP = "while True: pass"


class Engine:
    """Our engine's core in this process."""

    def __init__(self, threads: int) -> None:
        self.core, self.events = own_core.loaded(threads=threads, wanted=threads)
        from cutaway.engine.protocol import Configure

        self.core.handle(Configure(inspect=False, prefix_cache=False))

    def decode(self, tokens: int, streams: int) -> float:
        """Tokens a second of all streams together, after their first."""
        from cutaway.engine.protocol import Finished, SamplingSettings, Submit

        self.events.clear()
        settings = SamplingSettings(temperature=0.0, max_tokens=tokens, ignore_eos=True, candidates=0)
        for number in range(streams):
            ids = tuple(range(1000 + number, 1000 + number + PROMPT))
            self.core.handle(Submit(f"r{number}", token_ids=ids, settings=settings))
        while self.core.has_work:
            self.core.step()
        ends = [event for event in self.events if isinstance(event, Finished)]
        if [end.generated_tokens for end in ends] != [tokens] * streams:
            raise RuntimeError(f"not every stream gave {tokens} tokens: {self.events[-3:]}")
        first = max(end.timeline.tokens_ns[0] for end in ends)
        last = max(end.timeline.tokens_ns[-1] for end in ends)
        return streams * (tokens - 1) / (last - first) * 1e9


@contextlib.contextmanager
def another_program(core: int | None) -> Iterator[None]:
    """A program that never rests, held on `core` if that is given."""
    process = subprocess.Popen([sys.executable, "-c", LOOP], start_new_session=True)
    try:
        if core is not None:
            os.sched_setaffinity(process.pid, {core})
        time.sleep(SETTLE)
        yield
    finally:
        process.kill()
        process.wait()


def measure(engine: Engine, arguments: argparse.Namespace) -> dict[str, list[float]]:
    """Tokens a second by condition, one of each round."""
    rates: dict[str, list[float]] = {}
    cores = sorted(os.sched_getaffinity(0))
    for number in range(arguments.rounds):
        held = cores[number % len(cores)]
        for name, condition in (
            ("quiet", contextlib.nullcontext()),
            ("a core busy", another_program(None)),
            ("one core held busy", another_program(held)),
        ):
            with condition:
                rates.setdefault(name, []).append(engine.decode(arguments.tokens, arguments.streams))
    return rates


def section(rates: dict[str, list[float]], arguments: argparse.Namespace) -> str:
    """What `benchmarks/RESULTS.md` says of it."""
    quiet = statistics.median(rates["quiet"])
    rows = [
        f"| {name} | {statistics.median(values):.0f} | {statistics.median(values) / quiet:.2f} "
        f"| {', '.join(f'{value:.0f}' for value in values)} |"
        for name, values in rates.items()
    ]
    return "\n".join(
        (
            "## With a core kept busy by another program",
            "",
            f"{time.strftime('%Y-%m-%d')}, {results_file.machine()}. Ours alone, the default model, "
            f"{arguments.streams} stream{'s' * (arguments.streams > 1)} of {arguments.tokens} tokens, threads as it "
            "chooses (`benchmarks/busy.py`); the target is half of the quiet speed.",
            "",
            "| | tok/s | of quiet | rounds |",
            "|---|---|---|---|",
            *rows,
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=192)
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0, help="0: as the engine chooses")
    parser.add_argument("--write", action="store_true", help="put the result into benchmarks/RESULTS.md")
    arguments = parser.parse_args()
    engine = Engine(arguments.threads)
    engine.decode(32, arguments.streams)
    rates = measure(engine, arguments)
    quiet = statistics.median(rates["quiet"])
    for name, values in rates.items():
        middle = statistics.median(values)
        told = ", ".join(f"{value:.0f}" for value in values)
        print(f"{name:20}{middle:8.1f} tok/s{middle / quiet:7.2f}   rounds: {told}")
    if arguments.write:
        results_file.replace_section("busy", section(rates, arguments))


if __name__ == "__main__":
    main()
