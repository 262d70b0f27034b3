"""Our engine against transformers' `generate`, on the default model, in one run, as ratios.

    python benchmarks/engine.py [--rounds 3]

Each figure comes from a fresh process, so that neither side's threads or caches help or hurt the other, and the
sides take turns, so that a change of the machine's mood hits both. Prints medians, all rounds, and the ratios.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import own_core

PROMPT = 64
NEW = 64
STREAMS = 16
SIDES = ("generate float32", "generate bfloat16", "ours", "ours, no inspection", "ours, 16 streams")


def measure(side: str) -> float:
    """Tokens a second of one side, in this process."""
    if side.startswith("generate"):
        return _generate(side.split()[1])
    return _ours(STREAMS if "16" in side else 1, inspect="no inspection" not in side)


def _generate(precision: str) -> float:
    """transformers' own greedy decoding: tokens a second after the first."""
    import torch
    from cutaway.engine.models import resolve
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(resolve("").folder, dtype=getattr(torch, precision)).eval()
    ids = torch.arange(1000, 1000 + PROMPT)[None]

    def run(new: int) -> float:
        began = time.perf_counter()
        model.generate(ids, max_new_tokens=new, min_new_tokens=new, do_sample=False)
        return time.perf_counter() - began

    run(4)
    return max((NEW - 1) / (run(NEW) - run(1)) for _ in range(3))


def _ours(streams: int, inspect: bool) -> float:
    """Our engine: for one stream tokens a second after the first; for several, generated tokens over the whole time."""
    core, events = own_core.loaded()
    from cutaway.engine.protocol import Configure, Finished, SamplingSettings, Submit

    core.handle(Configure(inspect=inspect, prefix_cache=False))
    settings = SamplingSettings(temperature=0.0, max_tokens=NEW, ignore_eos=True)

    def run(count: int) -> float:
        events.clear()
        for n in range(count):
            core.handle(Submit(f"r{n}", token_ids=tuple(range(1000 + n, 1000 + n + PROMPT)), settings=settings))
        began = time.perf_counter()
        while core.has_work:
            core.step()
        seconds = time.perf_counter() - began
        ended = [event for event in events if isinstance(event, Finished)]
        if [event.generated_tokens for event in ended] != [NEW] * count:
            raise RuntimeError(f"not every stream gave {NEW} tokens: {ended}")
        if count == 1:
            times = ended[0].timeline.tokens_ns
            return (NEW - 1) / (times[-1] - times[0]) * 1e9
        return count * NEW / seconds

    run(streams)
    return max(run(streams) for _ in range(3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", choices=SIDES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure)))
        return
    results: dict[str, list[float]] = {side: [] for side in SIDES}
    for _ in range(arguments.rounds):
        for side in SIDES:
            command = [sys.executable, str(Path(__file__).resolve()), "--measure", side]
            out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            results[side].append(json.loads(out.splitlines()[-1]))
    medians = {side: statistics.median(values) for side, values in results.items()}
    for side, values in results.items():
        print(f"{side:22} {medians[side]:8.1f} tok/s   rounds: {', '.join(f'{v:.1f}' for v in values)}")
    best = max(medians["generate float32"], medians["generate bfloat16"])
    print(f"single stream / transformers' generate (the faster precision): {medians['ours'] / best:.2f}   (target 4)")
    ratio = medians["ours, 16 streams"] / medians["ours"]
    print(f"16 streams ({PROMPT} in, {NEW} out) / our single stream:             {ratio:.2f}   (target 6)")
    slower = 1 - medians["ours"] / medians["ours, no inspection"]
    print(f"slower with inspection events on:                              {slower:6.1%}   (target at most 5%)")


if __name__ == "__main__":
    main()
