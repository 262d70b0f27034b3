"""A small HTTP server over real sockets that answers by a script: recorded answers, cut, slowed or broken at will."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .patience import PATIENCE

RECORDED = Path(__file__).parent / "servers"


@dataclasses.dataclass(frozen=True)
class Request:
    """What a client asked."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclasses.dataclass(frozen=True)
class Answer:
    """What is sent back: `parts` one by one, `pause` seconds apart; then, with `cut`, nothing but the hang-up.

    `gate`, if given, is waited for before the part with the number `gated`.
    """

    parts: Sequence[bytes] = ()
    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "application/json"),)
    pause: float = 0.0
    cut: bool = False
    gate: threading.Event | None = None
    gated: int = 0
    chunked: bool = True


Route = Answer | Callable[[Request], Answer]
Routes = dict[tuple[str, str], Route]
SSE = (("Content-Type", "text/event-stream; charset=utf-8"),)


def stream(*parts: bytes | str, **fields: Any) -> Answer:
    """A stream of events in these pieces."""
    pieces = [part.encode() if isinstance(part, str) else part for part in parts]
    return Answer(pieces, **{"headers": SSE, **fields})


def data(value: object) -> str:
    """One event."""
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"


def piece(text: str, index: int = 0, **fields: object) -> str:
    """One event with a piece of a reply."""
    choice = {"index": index, "delta": {"content": text}, "finish_reason": None, **fields}
    return data({"choices": [choice]})


def end(reason: str = "stop", index: int = 0) -> str:
    return data({"choices": [{"index": index, "delta": {}, "finish_reason": reason}]})


DONE = "data: [DONE]\n\n"


def plain(value: object, status: int = 200) -> Answer:
    """A JSON answer."""
    return Answer([json.dumps(value).encode()], status)


def recorded(kind: str, name: str, **fields: Any) -> Answer:
    """A recorded answer of a real server."""
    entry = json.loads((RECORDED / kind / "index.json").read_text())[name]
    headers = tuple((key.title(), value) for key, value in entry["headers"].items())
    return Answer([body(kind, name)], entry["status"], headers, **fields)


def body(kind: str, name: str) -> bytes:
    return (RECORDED / kind / f"{name}.body").read_bytes()


def vllm(chat: Route | None = None) -> Routes:
    """vLLM 0.32 as it was recorded; `chat` answers chat completions instead of the recorded stream."""
    kind = "vllm-0.32"
    return {
        ("GET", "/v1/models"): recorded(kind, "models"),
        ("GET", "/version"): recorded(kind, "version"),
        ("GET", "/metrics"): recorded(kind, "metrics"),
        ("POST", "/tokenize"): recorded(kind, "tokenize_chat"),
        ("POST", "/v1/chat/completions"): chat or recorded(kind, "chat_stream_logprobs"),
    }


def llama_server(chat: Route | None = None) -> Routes:
    """llama.cpp's server as it was recorded; how it answers /tokenize with pieces is from its README."""
    kind = "llama-server"

    def tokenize(request: Request) -> Answer:
        words = re.findall(r"<[^>]+>|\s|[^\s<]+", request.json["content"])
        return plain({"tokens": [{"id": 100 + at, "piece": word} for at, word in enumerate(words)]})

    return {
        ("GET", "/v1/models"): recorded(kind, "models"),
        ("GET", "/metrics"): recorded(kind, "metrics"),
        ("POST", "/tokenize"): tokenize,
        ("POST", "/apply-template"): plain({"prompt": "<|im_start|>user\nWhat is the capital of France?<|im_end|>"}),
        ("POST", "/v1/chat/completions"): chat or recorded(kind, "chat_stream_logprobs"),
    }


def llama_cpp_python(chat: Route | None = None) -> Routes:
    """`python -m llama_cpp.server` as it was recorded."""
    kind = "llamacpp-python-0.3.36"
    return {
        ("GET", "/v1/models"): recorded(kind, "models"),
        ("POST", "/v1/chat/completions"): chat or recorded(kind, "chat_stream_logprobs"),
    }


def simple(chat: Route, models: Sequence[str] = ("m",), base: str = "/v1") -> Routes:
    """A server with nothing but a list of models and chat completions."""
    listed = plain({"object": "list", "data": [{"id": name, "object": "model"} for name in models]})
    return {("GET", f"{base}/models"): listed, ("POST", f"{base}/chat/completions"): chat}


class HttpServer:
    """Serves `routes` in a thread of its own; `requests` keeps everything asked. What is not routed is a 404."""

    def __init__(self, routes: Routes) -> None:
        self.routes = dict(routes)
        self.requests: list[Request] = []
        self.open = 0  # connections
        # Keeps the port while nobody listens: neither another test nor a client's own end can be given it.
        self._place = _bound(0)
        self.port: int = self._place.getsockname()[1]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def asked(self, path: str = "/v1/chat/completions") -> list[Request]:
        return [request for request in self.requests if request.path == path and request.body != b"{}"]

    def start(self) -> HttpServer:
        """Listen, always on the same port."""
        listening = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(listening)), daemon=True)
        self._thread.start()
        assert listening.wait(PATIENCE)
        return self

    def stop(self) -> None:
        """Hang up on everybody."""
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread is not None:
            self._thread.join(PATIENCE)
        self._loop = None

    def close(self) -> None:
        """Stop for good."""
        self.stop()
        self._place.close()

    async def _serve(self, listening: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        tasks: set[asyncio.Task[None]] = set()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            self.open += 1
            try:
                await self._talk(reader, writer)
            except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                pass
            finally:
                self.open -= 1
                tasks.discard(task)
                writer.transport.abort() if task.cancelling() else writer.close()

        server = await asyncio.start_server(connected, sock=_bound(self.port), backlog=256)
        listening.set()
        await self._stop.wait()
        server.close()
        await asyncio.sleep(0)  # who has only just connected is in `tasks` then
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await _read(reader):
            self.requests.append(request)
            route = self.routes.get((request.method, request.path), plain({"detail": "Not Found"}, 404))
            answer = route(request) if callable(route) else route
            await _send(writer, answer)
            if answer.cut or not answer.chunked:
                return


def _bound(port: int) -> socket.socket:
    """A socket on a port of this machine, which others of ours may share."""
    made = socket.socket()
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        made.setsockopt(socket.SOL_SOCKET, option, 1)
    made.bind(("127.0.0.1", port))
    return made


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    method, path, _ = first.split(" ", 2)
    content = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, headers, content)


async def _send(writer: asyncio.StreamWriter, answer: Answer) -> None:
    head = [f"HTTP/1.1 {answer.status} OK", *(f"{name}: {value}" for name, value in answer.headers)]
    head.append("Transfer-Encoding: chunked" if answer.chunked else "Connection: close")
    writer.write("\r\n".join([*head, "", ""]).encode())
    await writer.drain()
    began = time.monotonic()
    for number, part in enumerate(answer.parts):
        if answer.gate is not None and number == answer.gated:
            while not answer.gate.is_set():
                await asyncio.sleep(0.005)
        if answer.pause:
            # By the clock and not by the sleep: a late part does not make the later ones late.
            await asyncio.sleep(max(0.0, began + (number + 1) * answer.pause - time.monotonic()))
        if part:
            writer.write(b"%x\r\n%s\r\n" % (len(part), part) if answer.chunked else part)
            await writer.drain()
    if answer.chunked and not answer.cut:
        writer.write(b"0\r\n\r\n")
        await writer.drain()


@contextlib.contextmanager
def serving(routes: Routes) -> Iterator[HttpServer]:
    """A running server, and its end."""
    server = HttpServer(routes).start()
    try:
        yield server
    finally:
        server.close()
