"""`cutaway models`, as a shell sees it: what is here and fits, fetched from a hub on this machine and removed again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from cutaway.engine.models import shelf
from cutaway.engine.models.spec import HubId

from . import tiny_folder
from .cli_run import cutaway
from .fake_hub import COMMIT, FakeHub, serve

SWITCHES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty caches of our own and of the hub."""
    monkeypatch.setenv("CUTAWAY_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    for name in SWITCHES:
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def hub(folders: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with serve() as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        yield url


def models(*args: str, code: int = 0) -> str:
    done = cutaway("models", *args)
    assert done.returncode == code, done.stderr.decode()
    return done.stdout.decode() if code == 0 else done.stderr.decode()


def put_into_cache(repo: str, source: Path, cache: Path) -> Path:
    """What another program's download leaves in the hub's cache."""
    snapshot = cache / f"models--{repo.replace('/', '--')}" / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot.parent.parent / "refs").mkdir()
    (snapshot.parent.parent / "refs" / "main").write_text(COMMIT)
    for file in source.iterdir():
        (snapshot / file.name).write_bytes(file.read_bytes())
    return snapshot


def test_a_hub_model_is_fetched_listed_told_of_found_and_removed(hub: str, tmp_path: Path) -> None:
    made = tiny_folder.make(tmp_path / "made")
    FakeHub.repos["org/tiny"] = {file.name: file.read_bytes() for file in made.iterdir()}
    FakeHub.repos["org/tiny"]["README.md"] = b"---\nlicense: mit\n---\n"
    assert models("pull", "org/tiny").strip().endswith(COMMIT)
    head, row, *more = models("list").splitlines()
    assert head.split() == ["MODEL", "SIZE", "LICENSE", "FITS"]
    assert row.split()[0] == "org/tiny"
    assert row.split()[-2:] == ["mit", "yes"]
    assert more == []
    (line,) = models("list", "--json").splitlines()
    told = json.loads(line)
    assert (told["spec"], told["complete"], told["fits"], told["context"]) == ("org/tiny", True, "whole", 512)
    assert told["weight_bytes"] + told["cache_bytes"] < psutil.virtual_memory().total
    info = models("info", "org/tiny", "--precision", "float32", "--window", "128")
    assert "yes, with its whole window of 128 tokens" in info
    assert "as float32" in info
    assert models("path", "org/tiny").strip() == told["folder"]
    assert "freed" in cutaway("models", "remove", "--yes", "org/tiny").stderr.decode()
    assert models("list") == ""
    assert "is not on this machine" in models("path", "org/tiny", code=3)


@pytest.mark.parametrize("variable", ["HF_HOME", "HF_HUB_CACHE"])
def test_a_model_in_the_hubs_own_cache_is_used_without_a_download_and_listed(
    variable: str, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = folders / "elsewhere" / ("hub" if variable == "HF_HOME" else "")
    monkeypatch.setenv(variable, str(folders / "elsewhere"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody is there
    snapshot = put_into_cache("org/tiny", tiny_folder.make(folders / "made"), cache)
    assert models("path", "org/tiny").strip() == str(snapshot)
    assert "org/tiny" in models("list")
    done = cutaway("ask", "--model", "org/tiny", "--precision", "float32", "--max-tokens", "2", "--seed", "1", "hi")
    assert done.returncode == 0, done.stderr.decode()


def test_ours_and_recommended_ones_are_listed_apart_from_what_can_not_be_served(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tiny_folder.make(folders / "made")
    config = json.loads((made / "config.json").read_text())
    (made / "config.json").write_text(json.dumps(config | {"architectures": ["BertModel"]}))
    put_into_cache("org/embedder", made, folders / "hf" / "hub")
    assert "No model is on this machine yet" not in cutaway("models").stderr.decode()
    rows = {line.split()[0]: line for line in models("list", "--all").splitlines()}
    assert "does not write text" in rows["org/embedder"]
    assert rows["Qwen/Qwen3-0.6B"].rstrip().endswith("to fetch")
    assert "≈" in rows["Qwen/Qwen3-0.6B"]
    assert "leave is needed" in rows["google/gemma-3-270m-it"]
    assert rows["SmolLM2-135M-Instruct"].split()[1] == "92.9"  # megabytes: nothing approximate about it


def test_what_a_model_would_take_is_told_before_it_is_here(folders: Path) -> None:
    told = models("info", "Qwen/Qwen3-0.6B", "--precision", "int8")
    assert "1.3 GB as int8; 2.4 GB while loading" in told
    assert "≈ 1.5 GB to fetch" in told
    assert "Fetch it: cutaway models pull org/unknown" in models("info", "org/unknown", code=3)


def test_the_default_under_its_hub_id_counts_as_here(folders: Path) -> None:
    put_into_cache("HuggingFaceTB/SmolLM2-135M-Instruct", tiny_folder.make(folders / "made"), folders / "hf" / "hub")
    rows = [line.split()[0] for line in models("list", "--all").splitlines()]
    assert "HuggingFaceTB/SmolLM2-135M-Instruct" in rows
    assert "SmolLM2-135M-Instruct" not in rows


def test_an_incomplete_model_says_so_and_its_memory_is_known_from_the_list(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folders / "hf" / "hub"))
    snapshot = put_into_cache("Qwen/Qwen3-0.6B", tiny_folder.make(folders / "made"), folders / "hf" / "hub")
    (snapshot / "tokenizer.json").unlink()
    (snapshot / "model.safetensors").rename(snapshot / "model-00001-of-00002.safetensors")
    (snapshot / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})
    )
    (entry,) = [entry for entry in shelf.shelf("int8") if entry.spec == str(HubId("Qwen/Qwen3-0.6B"))]
    assert entry.incomplete
    assert entry.kept
    assert entry.memory is not None
    assert entry.memory.parameters > 5e8
    assert "incomplete: pull it again" in models("list")
