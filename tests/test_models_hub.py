"""Models of the hub, against a hub on this machine: fetched once, then used without a connection."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cutaway.engine.errors import DownloadError, LoadCancelled, ModelError
from cutaway.engine.models import catalogue, child, folder, hub, hub_part, resolve
from cutaway.engine.models.hub_child import NothingUsable, choose
from cutaway.engine.models.spec import HubId
from cutaway.engine.protocol import LoadProgress
from huggingface_hub import constants
from safetensors.numpy import save

from . import tiny_gguf
from .fake_hub import COMMIT, FakeHub, Stall, serve

WEIGHTS = save({"a": np.zeros((500, 100), np.float32)})
FILES = {
    "config.json": b'{"model_type": "llama"}',
    "tokenizer.json": b"{}",
    "model.safetensors": WEIGHTS,
    "README.md": b"---\nlicense: mit\n---\n",
    "pytorch_model.bin": b"never fetched",
}


@pytest.fixture
def hub_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("CUTAWAY_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf" / "hub"))
    monkeypatch.setattr(folder, "check_architecture", lambda *_: None)  # imports transformers; pinned elsewhere
    with serve() as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        FakeHub.repos["org/tiny"] = dict(FILES)
        yield url


@pytest.fixture
def no_connections(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Connections that were tried, and child processes, which are where they would be tried."""
    tried: list[str] = []

    def refuse(*arguments: object, **_: object) -> None:
        tried.append(str(arguments))
        raise OSError("the network is down")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    return tried


def test_a_hub_model_is_fetched_with_progress_and_without_what_it_does_not_need(hub_url: str) -> None:
    told: list[LoadProgress] = []
    found = resolve("org/tiny", progress=told.append)
    assert (found.name, found.source, found.license, found.format) == ("tiny", "hub org/tiny", "mit", "safetensors")
    assert found.folder.name == COMMIT
    assert sorted(file.name for file in found.folder.iterdir()) == sorted(set(FILES) - {"pytorch_model.bin"})
    assert told[0].stage == "find"
    totals = {event.total for event in told if event.stage == "download"}
    assert totals <= {sum(len(FILES[name]) for name in set(FILES) - {"pytorch_model.bin"})}


def test_ml_07_a_full_cache_is_used_without_a_connection(
    hub_url: str, monkeypatch: pytest.MonkeyPatch, no_connections: list[str]
) -> None:
    repo = hub.repo_folder(HubId("org/tiny"))
    snapshot = repo / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(COMMIT)
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (snapshot / name).write_bytes(FILES[name])
    for offline, switch in ((False, "1"), (True, ""), (False, "")):
        monkeypatch.setenv("HF_HUB_OFFLINE", switch)
        assert resolve("org/tiny", offline=offline).folder == snapshot
    assert no_connections == []
    assert FakeHub.requests == []


def test_ml_07_an_empty_cache_offline_names_the_missing_files_and_the_switch(
    hub_url: str, monkeypatch: pytest.MonkeyPatch, no_connections: list[str]
) -> None:
    with pytest.raises(DownloadError) as caught:
        resolve("org/tiny", offline=True)
    assert "config.json, tokenizer.json, model.safetensors missing, and --offline is set" in caught.value.message
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DownloadError, match="HF_HUB_OFFLINE=1 is set"):
        resolve("org/tiny")
    with pytest.raises(DownloadError, match=r"m\.gguf missing, and HF_HUB_OFFLINE=1 is set"):
        resolve("org/tiny:m.gguf")
    assert no_connections == []


def test_ml_07_offline_names_just_the_files_that_an_incomplete_cache_lacks(hub_url: str) -> None:
    del FakeHub.repos["org/tiny"]["model.safetensors"]
    FakeHub.repos["org/tiny"]["model.safetensors.index.json"] = json.dumps(
        {"weight_map": {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"}}
    ).encode()
    FakeHub.repos["org/tiny"]["model-1-of-2.safetensors"] = WEIGHTS
    with pytest.raises(ModelError, match=r"lacks model-2-of-2\.safetensors on the hub"):
        resolve("org/tiny")
    with pytest.raises(DownloadError, match=r": model-2-of-2\.safetensors missing"):
        resolve("org/tiny", offline=True)


@pytest.mark.parametrize(
    ("status", "headers", "said"),
    [
        (401, {"X-Error-Code": "GatedRepo"}, "is only for those whom its makers let in"),
        (403, {"X-Error-Code": "GatedRepo"}, "is only for those whom its makers let in"),
        (401, {"X-Error-Message": "Invalid credentials in Authorization header"}, "only for those|has no model"),
        (404, {"X-Error-Code": "RepoNotFound"}, "the hub has no model org/tiny, or it is private"),
        (500, {}, "the hub refused org/tiny"),
    ],
)
def test_a_refusal_of_the_hub_says_what_to_do(status: int, headers: dict[str, str], said: str, hub_url: str) -> None:
    FakeHub.status = (status, headers)
    with pytest.raises(DownloadError, match=said) as caught:
        resolve("org/tiny")
    assert caught.value.action


def test_an_unknown_revision_and_file_are_named(hub_url: str) -> None:
    with pytest.raises(DownloadError, match="org/tiny has no revision v9"):
        resolve("org/tiny@v9")
    with pytest.raises(DownloadError, match=r"it has no file m\.gguf; its GGUF files: none"):
        resolve("org/tiny:m.gguf")


def test_no_network_is_said_with_what_to_do(hub_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DownloadError, match="the hub can't be reached for org/tiny") as caught:
        resolve("org/tiny")
    assert "HF_ENDPOINT" in caught.value.action
    assert re.search(r": \w[^\[]+[^.]\. Check the connection", str(caught.value))  # two whole sentences, no number


def test_a_download_process_that_dies_is_quoted(hub_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(command: list[str], log: Path, tick: object) -> int:
        log.write_text("Traceback\nImportError: no hub here\n")
        return 1

    monkeypatch.setattr(hub.child, "run", die)
    with pytest.raises(DownloadError, match="the download ended early: ImportError: no hub here"):
        resolve("org/tiny")


def test_a_cancelled_download_goes_on_where_it_stopped(hub_url: str) -> None:
    FakeHub.repos["org/tiny"]["model.safetensors"] = save({"a": np.zeros((3000, 1000), np.float32)})
    stall = FakeHub.stall = Stall()

    def half_is_here() -> bool:
        return stall.begun.is_set() and hub_part.here(hub.repo_folder(HubId("org/tiny"))) > 0

    with pytest.raises(LoadCancelled):
        resolve("org/tiny", cancelled=half_is_here)
    stall.over.set()
    FakeHub.stall = None
    told: list[LoadProgress] = []
    assert resolve("org/tiny", progress=told.append).name == "tiny"
    (wanted,) = FakeHub.ranges
    assert int(wanted.removeprefix("bytes=").removesuffix("-")) > 0


def test_what_came_damaged_is_said_removed_and_fetched_again(hub_url: str) -> None:
    FakeHub.spoiled = {"model.safetensors"}
    with pytest.raises(DownloadError, match=r"model\.safetensors came with another content than the hub says"):
        resolve("org/tiny")
    assert hub.missing(HubId("org/tiny")) == "model.safetensors"
    FakeHub.spoiled = set()
    assert resolve("org/tiny").name == "tiny"


def test_a_repository_with_one_gguf_file_is_fetched_and_converted(hub_url: str, tmp_path: Path) -> None:
    tiny_gguf.llama(tmp_path / "m.gguf")
    FakeHub.repos["org/gguf"] = {"tiny.Q4_1.gguf": (tmp_path / "m.gguf").read_bytes(), "README.md": b""}
    found = resolve("org/gguf")
    assert (found.name, found.format, found.source) == ("gguf", "gguf", "hub org/gguf")
    assert resolve("org/gguf:tiny.Q4_1.gguf", offline=True).folder == found.folder
    FakeHub.repos["org/gguf"]["other.gguf"] = b"GGUF"
    with pytest.raises(DownloadError, match=r"several GGUF files; add one to the id after a colon: other\.gguf, tiny"):
        catalogue.pull("org/gguf")


@pytest.mark.parametrize(
    ("files", "file", "expected"),
    [
        (["config.json", "model.safetensors", "x.gguf", "onnx/model.onnx"], "", ["config.json", "model.safetensors"]),
        (["a.gguf", "b.gguf"], "b.gguf", ["b.gguf"]),
        (["a.gguf", "mmproj-a.gguf"], "", ["a.gguf"]),
        (
            ["model-1.safetensors", "consolidated.safetensors", "model.safetensors.index.json"],
            "",
            ["model-1.safetensors", "model.safetensors.index.json"],
        ),
    ],
)
def test_only_what_a_model_needs_is_chosen(files: list[str], file: str, expected: list[str]) -> None:
    assert choose(files, file) == expected


@pytest.mark.parametrize(
    ("files", "said"), [(["pytorch_model.bin"], "only pickled weights"), (["x.txt"], "neither safetensors nor GGUF")]
)
def test_a_repository_without_usable_weights_says_why(files: list[str], said: str) -> None:
    with pytest.raises(NothingUsable, match=said):
        choose(files, "")


def test_pull_brings_up_to_date_what_resolve_leaves_alone(hub_url: str) -> None:
    first = resolve("org/tiny")
    FakeHub.repos["org/tiny"]["config.json"] = b'{"model_type": "llama", "x": 1}'
    FakeHub.requests.clear()
    assert resolve("org/tiny") == first
    assert FakeHub.requests == []
    catalogue.pull("org/tiny")
    assert "/api/models/org/tiny/revision/main" in FakeHub.requests


def test_listed_shown_and_removed(hub_url: str, tmp_path: Path) -> None:
    found = resolve("org/tiny")
    (listed,) = catalogue.list_cached()
    assert (listed.name, listed.spec, listed.license, listed.complete) == ("tiny", "org/tiny", "mit", True)
    assert listed.size >= len(WEIGHTS)
    assert catalogue.path("org/tiny") == found.folder
    assert catalogue.remove("org/tiny") >= len(WEIGHTS)
    assert catalogue.list_cached() == []
    with pytest.raises(ModelError, match="org/tiny is not on this machine"):
        catalogue.path("org/tiny")
    with pytest.raises(ModelError, match="nothing of org/tiny is kept"):
        catalogue.remove("org/tiny")


def test_the_hubs_own_variables_say_where_its_cache_is(tmp_path: Path) -> None:
    code = "from cutaway.engine.models import hub; print(hub.cache_folder())"
    for variables, expected in (
        ({"HF_HOME": str(tmp_path)}, tmp_path / "hub"),
        ({"HF_HUB_CACHE": str(tmp_path / "c")}, tmp_path / "c"),
    ):
        environment = {"PATH": "", **variables}
        printed = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        assert Path(printed.stdout.strip()) == expected


def test_what_is_fetched_is_measured_while_folders_come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone, scan = tmp_path / "gone", os.scandir
    gone.mkdir()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to(tmp_path / "kept" / "file")

    def scandir(path: str = ".") -> Any:
        if Path(path) == gone:
            gone.rmdir()
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert child.bytes_below(tmp_path) == 5
    assert not gone.exists()
