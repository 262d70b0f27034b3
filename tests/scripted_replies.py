"""What the scripted core says, and what it tells of its prompt: see `scripted_core` for the words it knows."""

from __future__ import annotations

import itertools
import os
import re
import signal
import sys
import time
import zlib
from collections.abc import Iterator

from cutaway.engine.protocol import PromptRendered, PromptToken, Role, Submit

ROLES: tuple[Role, ...] = ("system", "user", "assistant", "tool")


def rendered(command: Submit, words: list[str], window: int, now: int) -> PromptRendered:
    role = command.messages[-1].role if command.messages else "raw"
    known = next((r for r in ROLES if r == role), "raw")
    ends = list(itertools.accumulate(len(word) for word in words))
    tokens = tuple(
        PromptToken(token_id(word), word, known, start=end - len(word), end=end, bytes=word.encode("utf-8", "replace"))
        for word, end in zip(words, ends, strict=True)
    )
    return PromptRendered(
        command.request, "".join(words), tokens, 0, 0, now, now, window,
        samples=command.samples, settings=command.settings, label=command.label or command.request,
    )  # fmt: skip


def script(command: Submit) -> Iterator[str]:
    said = command.messages[-1].content if command.messages else command.text or ""
    said = said.removeprefix("slowly ")
    name, rest = (*said.split(maxsplit=1), "", "")[:2]
    match name:
        case "count":
            yield from (f"{n} " for n in range(1, int(rest) + 1))
        case "forever":
            yield from (f"{n} " for n in itertools.count(1))
        case "recall":
            yield " | ".join(f"{m.role}: {m.content}" for m in command.messages)
        case "raw":
            yield from rest.encode("latin-1", "backslashreplace").decode("unicode_escape")
        case "fail" | "memory" | "die" | "noise":
            yield from ("one ", "two ")
            _go_wrong(name)
            yield "three"
        case _:
            yield from re.findall(r"\s*\S+", f"You said: {said}")


def _go_wrong(how: str) -> None:
    if how == "fail":
        raise RuntimeError("a kernel is broken")
    if how == "memory":
        raise MemoryError
    if how == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    print("noise from a library")
    os.write(1, b"noise from a C library\n")
    print("and more of it", file=sys.stderr, flush=True)


def work(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


def token_id(piece: str) -> int:
    return zlib.crc32(piece.encode("utf-8", "surrogatepass")) % 1000
