"""The screen, in a real pseudo-terminal, with the real model: first paint, keys, idling, scrolling, and its price.

    python benchmarks/screen.py [--rounds 5] [--size 160x48] [--only paint]

Prints distributions; times are wall-clock seconds as a person would wait them. "share of ask" is the engine's rate
with every panel open against `cutaway ask` with the same prompt, in turns.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.terminal import Terminal  # noqa: E402 - the terminal of the tests, found from the root

LINES = 10  # scrolled at a time: a message of 250 words has so many out of sight
LONG = "Tell a long story about a sailing fox."


def open_screen(size: tuple[int, int], *arguments: str) -> Terminal:
    # Folders of its own: a draft left by the run before would come back, and chats gather among the user's. Python
    # keeps what it has compiled, as it does by itself: where it may not, each start compiles all of ours, about 0.12 s.
    own = {f"CUTAWAY_{kind}_DIR": tempfile.mkdtemp() for kind in ("STATE", "DATA", "CONFIG")}
    env = {**own, "PYTHONDONTWRITEBYTECODE": ""}
    terminal = Terminal(*arguments, size=size, model="", env=env)
    terminal.patience = 40  # a model takes its time to load on a busy machine
    return terminal


def loaded(terminal: Terminal) -> None:
    terminal.until(lambda: " pages" in terminal.screen.display[0], "the model")


def quit_screen(terminal: Terminal) -> None:
    terminal.send("\x11")
    terminal.ended()


def first_paint(size: tuple[int, int]) -> float:
    """From starting the command to the bytes that show the prompt's hint; drawing them is the terminal's time."""
    began = time.perf_counter()
    terminal = open_screen(size)
    fd, written = terminal.child.child_fd, b""
    while b"Ctrl+J" not in written:
        if select.select([fd], [], [], 5)[0]:
            written += os.read(fd, 65536)
    took = time.perf_counter() - began
    terminal.feed(written)
    quit_screen(terminal)
    return took


def key_times(terminal: Terminal, keys: int) -> list[float]:
    """From a key to the bytes that show its letter, each a letter that nothing else shows."""
    times: list[float] = []
    fd = terminal.child.child_fd
    for index in range(keys):
        letter = chr(0x1E02 + 2 * index).encode()
        written = b""
        began = time.perf_counter()
        os.write(fd, letter)
        while letter not in written:
            if select.select([fd], [], [], 5)[0]:
                written += os.read(fd, 65536)
        times.append(time.perf_counter() - began)
        terminal.feed(written)
        pause = time.perf_counter() + 0.05
        while time.perf_counter() < pause:
            terminal.read()
    return times


def cpu_share(pid: int, seconds: float, wait: Callable[[], None]) -> float:
    """Share of one core that a process uses while `wait` goes on again and again."""
    process = psutil.Process(pid)
    before, began = process.cpu_times(), time.perf_counter()
    while time.perf_counter() - began < seconds:
        wait()
    after = process.cpu_times()
    return (after.user + after.system - before.user - before.system) / (time.perf_counter() - began)


def drain(terminal: Terminal) -> None:
    """Take what the program writes until the reply has been cut at its length, and draw it after that.

    Our terminal is Python and would keep a core busy, which no terminal that people use does.
    """
    written, end = b"", time.monotonic() + terminal.patience
    while b"cut at" not in written:
        if time.monotonic() > end:
            raise TimeoutError("the reply did not end")
        if select.select([terminal.child.child_fd], [], [], 1)[0]:
            written += os.read(terminal.child.child_fd, 65536)
    terminal.feed(written)


def screen_rate(size: tuple[int, int]) -> float:
    """Tokens a second that the engine reports with the screen on."""
    terminal = open_screen(size, "--max-tokens", "200", "--ignore-eos", "--seed", "1")
    loaded(terminal)
    terminal.ask(LONG)
    drain(terminal)
    terminal.until(lambda: "✂" in terminal.text() and "○" in terminal.screen.display[0], "the end of the reply")
    rate = float(terminal.screen.display[0].split("○")[1].split("tok/s")[0].replace(",", ""))
    quit_screen(terminal)
    return rate


def ask_rate() -> float:
    """Tokens a second that `cutaway ask` reports."""
    command = [sys.executable, "-P", "-m", "cutaway.tui.cli", "ask", "--stats", "--max-tokens", "200", "--ignore-eos"]
    done = subprocess.run([*command, "--seed", "1", LONG], capture_output=True, text=True, check=True, cwd=ROOT)
    found = re.search(r"reply speed\s+([\d.,]+)", done.stderr)
    assert found is not None, done.stderr
    return float(found[1].replace(",", ""))


async def scroll(messages: int) -> float:
    """Seconds a line scrolled takes, its painting included, in a chat of so many messages of 250 words."""
    from tests.screen_run import running
    from tests.test_app_frames import fill, scroll_up

    async with running() as run:
        await fill(run, messages, 250)
        times: list[float] = []
        for _ in range(5):
            run.main.view.scroll_end(animate=False)
            await run.pilot.pause()
            began = time.perf_counter()
            scroll_up(run, LINES)
            times.append((time.perf_counter() - began) / LINES)
        return min(times)


def spread(name: str, values: list[float], unit: str, scale: float = 1.0) -> None:
    ordered = sorted(value * scale for value in values)
    p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    print(f"{name:<44} median {statistics.median(ordered):8.1f} {unit}   p95 {p95:8.1f} {unit}   of {len(ordered)}")


def paint(size: tuple[int, int], rounds: int) -> None:
    first_paint(size)  # compiles what has changed
    spread("first paint from the command", [first_paint(size) for _ in range(rounds)], "ms", 1e3)


def keys(size: tuple[int, int], rounds: int) -> None:
    terminal = open_screen(size, "--max-tokens", "400", "--ignore-eos")
    loaded(terminal)
    spread("a key appears, idle", key_times(terminal, 40), "ms", 1e3)
    print(f"{'idle, share of a core':<44} {cpu_share(terminal.child.pid, 5, lambda: time.sleep(0.5)):.2%}")
    terminal.send("\x15")
    terminal.send("\x14" * 5)  # one round of traffic is over before as many keys are typed
    terminal.until(lambda: re.search("7 [A-Z]?[▪░▒▓█]", terminal.text()) is not None, "eight lanes")
    times = key_times(terminal, 40)
    assert "○" not in terminal.screen.display[0], "the lanes were idle before the last key"
    spread("a key appears, eight lanes or more decoding", times, "ms", 1e3)
    quit_screen(terminal)


def rate(size: tuple[int, int], rounds: int) -> None:
    pairs: list[tuple[float, float]] = []
    for number in range(rounds):  # who comes first takes turns: a machine drifts
        before = ask_rate() if number % 2 else 0.0
        pairs.append((screen_rate(size), before or ask_rate()))
    spread("tok/s with every panel open", [a for a, _ in pairs], "tok/s")
    spread("tok/s of cutaway ask", [b for _, b in pairs], "tok/s")
    shares = [a / b for a, b in pairs]
    print(f"{'share of ask':<44} median {statistics.median(shares):.1%}   {min(shares):.1%} to {max(shares):.1%}")
    if rounds > 1:  # single pairs scatter by several percent, so only many of them tell
        mean, error = statistics.geometric_mean(shares), statistics.stdev(shares) / rounds**0.5
        print(f"{'share of ask':<44} mean   {mean:.2%}   standard error {error:.2%}")


def scrolling(size: tuple[int, int], rounds: int) -> None:
    short, long = asyncio.run(scroll(1)), asyncio.run(scroll(400))
    print(f"{'a line scrolled: 100,000 tokens against 100':<44} {long / short:.2f} times ({long * 1e3:.2f} ms)")


PARTS = {"paint": paint, "keys": keys, "rate": rate, "scroll": scrolling}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", default="160x48")
    parser.add_argument("--only", choices=PARTS, action="append", help="one part; may be given several times")
    given = parser.parse_args()
    columns, rows = map(int, given.size.split("x"))
    for name in given.only or PARTS:
        PARTS[name]((columns, rows), given.rounds)


if __name__ == "__main__":
    main()
