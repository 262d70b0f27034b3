"""The screen on a server: does it keep up with what the server sends?

    python benchmarks/remote.py [--tokens 1000] [--rates 100,200,400,0] [--size 160x48] [--rounds 3]

A server in a process of its own writes one reply with log-probabilities, at each rate in tokens a second (0: as fast
as it can). Prints the server's own rate, as a bare socket reads it, beside those of `cutaway ask` and of the screen
with every panel open, as medians, and their shares of it. The screen's is taken from the first token on the screen to
the last, so what piles up anywhere counts against it; of the reply sent at once, from Enter to the last token.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.http_server import DONE, HttpServer, end, piece, stream, vllm  # noqa: E402 - found from the root
from tests.terminal import Terminal  # noqa: E402


def reply(tokens: int) -> list[str]:
    """One event a token, each with eight candidates, as vLLM writes them."""
    events: list[str] = []
    for number in range(tokens):
        word = f" w{number}"
        others = [
            {"token": f" o{other}", "logprob": -1.0 - other, "bytes": list(b" o%d" % other)} for other in range(7)
        ]
        told = {"token": word, "logprob": -0.5, "bytes": list(word.encode())}
        events.append(piece(word, logprobs={"content": [{**told, "top_logprobs": [told, *others]}]}))
    return [*events, end("length"), DONE]


def serve(tokens: int, rate: float) -> None:
    """Serve until standard input ends."""
    server = HttpServer(vllm(stream(*reply(tokens), pause=1 / rate if rate else 0.0))).start()
    print(server.port, flush=True)
    sys.stdin.read()
    server.stop()


@contextlib.contextmanager
def server(tokens: int, rate: float) -> Iterator[int]:
    command = [sys.executable, __file__, "--serve", "--tokens", str(tokens), "--rates", str(rate)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait()


def bare_rate(port: int, tokens: int) -> float:
    """Tokens a second between the first and the last event, read by nothing but a socket."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
        data, first = b"", 0.0
        while b"[DONE]" not in data[-64:]:
            data += connection.recv(65536)
            if not first and b"data:" in data:
                first = time.perf_counter()
        return (tokens - 1) / (time.perf_counter() - first)


def ask_rate(port: int) -> float:
    command = [sys.executable, "-P", "-m", "cutaway.tui.cli", "ask", "--server", f"127.0.0.1:{port}", "--stats", "hi"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, stdin=subprocess.DEVNULL)
    found = re.search(r"reply speed\s+([\d.,]+)", done.stderr)
    assert found is not None, done.stderr
    return float(found[1].replace(",", ""))


def screen_rate(port: int, tokens: int, size: tuple[int, int], paced: bool) -> float:
    """Tokens a second as they come to the screen, every panel open."""
    folder = tempfile.mkdtemp()
    places = {"CUTAWAY_STATE_DIR": folder, "CUTAWAY_DATA_DIR": folder}
    terminal = Terminal("--server", f"127.0.0.1:{port}", size=size, model="", env=places)
    try:
        terminal.patience = 60
        terminal.until(lambda: "vLLM" in terminal.screen.display[0], "the server")
        terminal.ask("hi")
        began = time.perf_counter()
        # Reading must not cost the machine more than a terminal would: look for bytes, not at the picture.
        seen = len(terminal.raw)
        while b"w1" not in terminal.raw[seen:]:
            terminal.raw += terminal.child.read_nonblocking(65536, timeout=60)
        first = time.perf_counter()
        last = f"w{tokens - 1}".encode()
        tail = b""
        while last not in tail:
            tail = (tail + terminal.child.read_nonblocking(65536, timeout=60))[-200_000:]
        return (tokens - 1) / (time.perf_counter() - (first if paced else began))
    finally:
        terminal.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=1000)
    parser.add_argument("--rates", default="100,200,400,0")
    parser.add_argument("--size", default="160x48")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.tokens, float(given.rates))
        return
    columns, rows = map(int, given.size.split("x"))
    print(f"{'asked for':>10} {'server':>10} {'ask':>10} {'':>6} {'screen':>10}   tok/s, {given.tokens} tokens")
    for rate in map(float, given.rates.split(",")):
        with server(given.tokens, rate) as port:
            bare = statistics.median(bare_rate(port, given.tokens) for _ in range(given.rounds))
            ask = statistics.median(ask_rate(port) for _ in range(given.rounds))
            screen = statistics.median(
                screen_rate(port, given.tokens, (columns, rows), bool(rate)) for _ in range(given.rounds)
            )
        name = f"{rate:,.0f}" if rate else "all"
        shares = [f"{ask / bare:.0%}", f"{screen / bare:.0%}"] if rate else ["", ""]
        print(f"{name:>10} {bare:>10,.0f} {ask:>10,.0f} {shares[0]:>6} {screen:>10,.0f} {shares[1]:>6}")


if __name__ == "__main__":
    main()
