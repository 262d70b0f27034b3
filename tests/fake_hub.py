"""A hub on this machine: the few answers of the Hugging Face hub's API that fetching a model needs."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import unquote, urlparse

from .patience import PATIENCE

COMMIT = "c0ffee" + "0" * 34


class Stall:
    """Makes weights stop half-way: `begun` is set then, and they stay so until `over` is set."""

    def __init__(self) -> None:
        self.begun, self.over = threading.Event(), threading.Event()


class FakeHub(BaseHTTPRequestHandler):
    """Serves `repos`: repository -> file -> content. `status` makes every answer an error instead."""

    repos: ClassVar[dict[str, dict[str, bytes]]] = {}
    requests: ClassVar[list[str]] = []
    status: ClassVar[tuple[int, dict[str, str]] | None] = None
    stall: ClassVar[Stall | None] = None
    ranges: ClassVar[list[str]] = []
    spoiled: ClassVar[set[str]] = set()  # files that come with other bytes than their digest says

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output quiet."""

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        path = unquote(urlparse(self.path).path)
        self.requests.append(path)
        if self.status:
            code, headers = self.status
            self._send(code, b"{}", headers, body)
            return
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            self._api("/".join(parts[2:4]), parts[4:], body)
            return
        files = self.repos.get("/".join(parts[:2]), {})
        name = "/".join(parts[4:])
        if name not in files:
            self._send(404, b"", {"X-Error-Code": "EntryNotFound"}, body)
            return
        etag = hashlib.sha256(files[name]).hexdigest()
        content = bytes(len(files[name])) if name in self.spoiled else files[name]
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if wanted and body:
            start = int(wanted[1])
            self.ranges.append(wanted[0])
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            self._send(206, content[start:], headers, body, name)
            return
        self._send(200, content, headers, body, name)

    def _api(self, repo: str, rest: list[str], body: bool) -> None:
        if repo not in self.repos:
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"}, body)
            return
        if rest[:1] == ["revision"] and rest[1] not in ("main", COMMIT):
            self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"}, body)
            return
        files = self.repos[repo]
        if rest[:1] == ["tree"]:
            answer: object = [
                {"type": "file", "path": name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
                for name, content in files.items()
            ]
        else:
            siblings = [{"rfilename": name, "size": len(content)} for name, content in files.items()]
            answer = {"id": repo, "sha": COMMIT, "siblings": siblings, "private": False, "tags": []}
        self._send(200, json.dumps(answer).encode(), {"Content-Type": "application/json"}, body)

    def _send(self, code: int, content: bytes, headers: dict[str, str], body: bool, name: str = "") -> None:
        self.send_response(code)
        for header, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(header, value)
        self.end_headers()
        if not body:
            return
        if self.stall and name.endswith(".safetensors"):
            self.wfile.write(content[: len(content) // 2])
            self.wfile.flush()
            self.stall.begun.set()
            self.stall.over.wait(PATIENCE)
            return
        self.wfile.write(content)


@contextmanager
def serve() -> Iterator[str]:
    """Run the hub; yields its address."""
    FakeHub.repos, FakeHub.requests, FakeHub.status, FakeHub.stall = {}, [], None, None
    FakeHub.ranges, FakeHub.spoiled = [], set()
    server = ThreadingHTTPServer(("127.0.0.1", 0), FakeHub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE)
