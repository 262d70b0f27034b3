"""Measures the store of chats at a size that takes years to reach: 10,000 chats with 1,000,000 messages.

Run with `python benchmarks/store.py [--chats N] [--messages N] [--file FILE]`. Starting, listing, searching and opening
should each take less than 0.2 s; the exit status tells. The data is made in one transaction, which takes a minute or
so; with --file it is kept and used again.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from cutaway.tui.store.chats import ChatStore

LIMIT_S = 0.2
WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in ("n", "r", "s", "l", "ndo", "ster", "ka")]
COMMON, RARE = "the", "xylophone"


def _text(dice: random.Random, number: int) -> str:
    words = dice.choices(WORDS, k=30)
    words[::6] = [COMMON] * len(words[::6])
    return " ".join(words) + (f" {RARE}" if number % 50_021 == 0 else "")


def make(file: Path, chats: int, messages: int) -> None:
    """Fill a new store."""
    store = ChatStore(file)
    each = messages // chats
    dice = random.Random(1)

    def chat_rows() -> Iterator[tuple[object, ...]]:
        for chat in range(chats):
            yield chat + 1, f"chat{chat:06}", f"chat {chat} about {dice.choice(WORDS)}", 1000 * chat, 1000 * chat

    def message_rows() -> Iterator[tuple[object, ...]]:
        for number in range(chats * each):
            chat, at = divmod(number, each)
            role = "assistant" if at % 2 else "user"
            yield number + 1, chat + 1, number if at else None, role, _text(dice, number), number + 2, "end", "tiny"

    connection = store.database.connection
    with store.database.transaction():
        connection.executemany("INSERT INTO chats(id, key, title, made_ms, changed_ms) VALUES (?,?,?,?,?)", chat_rows())
        connection.executemany(
            "INSERT INTO messages(id, chat, parent, role, text, chosen, status, model) VALUES (?,?,?,?,?,?,?,?)",
            message_rows(),
        )
    store.end()


def _start(file: Path) -> Callable[[], object]:
    """Opening in a program of its own, imports not counted."""
    code = (
        "import sys, time; from pathlib import Path; from cutaway.tui.store.chats import ChatStore; "
        "t = time.perf_counter(); s = ChatStore(Path(sys.argv[1])); s.listed(); print(time.perf_counter() - t); s.end()"
    )
    return lambda: float(
        subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, check=True).stdout
    )


def measure(file: Path, chats: int) -> bool:
    """Print the times; returns whether all are within the limit."""
    starts = [_start(file)() for _ in range(5)]
    store = ChatStore(file)
    asked: dict[str, Callable[[], object]] = {
        "list, first page": lambda: store.listed(50),
        "list, last page": lambda: store.listed(50, chats - 50),
        "search, a common word": lambda: store.find(COMMON),
        "search, a rare word": lambda: store.find(RARE),
        "search, two common words": lambda: store.find(f"{COMMON} {WORDS[7]}"),
        "search, begun word": lambda: store.find(WORDS[3][:2]),
        "search, not there": lambda: store.find("qqqq"),
        "open a chat": lambda: store.load(f"chat{chats // 2:06}"),
    }
    times: dict[str, list[float]] = {"start and first page": [float(str(s)) for s in starts]}
    for name, ask in asked.items():
        for _ in range(5):
            began = time.perf_counter()
            ask()
            times.setdefault(name, []).append(time.perf_counter() - began)
    store.end()
    for name, taken in times.items():
        worst = max(taken)
        mark = "ok" if worst < LIMIT_S else "TOO SLOW"
        print(f"{name:26} median {statistics.median(taken) * 1e3:7.1f} ms   worst {worst * 1e3:7.1f} ms   {mark}")
    return all(max(taken) < LIMIT_S for taken in times.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chats", type=int, default=10_000)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--file", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = given.file or Path(folder) / "chats.db"
        if not file.exists():
            began = time.perf_counter()
            make(file, given.chats, given.messages)
            print(f"made in {time.perf_counter() - began:.0f} s, {file.stat().st_size / 1e6:,.0f} MB")
        return 0 if measure(file, given.chats) else 1


if __name__ == "__main__":
    sys.exit(main())
