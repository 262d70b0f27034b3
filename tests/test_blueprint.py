"""A model that was checked before loads without transformers, and computes what it computed with it."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch
from cutaway.engine import blueprint, kernels, places, served
from cutaway.engine.client import EngineClient
from cutaway.engine.decode_step import NativeStep
from cutaway.engine.models import resolve
from cutaway.engine.protocol import Load, Ready
from cutaway.engine.runner import PagedRunner
from safetensors.torch import load_file, save_file

from . import tiny_folder
from .patience import LONG

pytestmark = pytest.mark.skipif(kernels.load() is None, reason=f"no kernels here: {kernels.problem()}")

ROWS = 24


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = kernels.load()
    assert library is not None
    monkeypatch.setattr(kernels, "load", lambda: library)  # compiled elsewhere
    monkeypatch.setenv("CUTAWAY_CACHE_DIR", str(tmp_path / "cache"))


def _make(folder: Path) -> tuple[served.Served, PagedRunner]:
    made, precision = served.make(
        Load(model=str(folder), precision="int8", pages=8, page_size=16),
        resolve(str(folder)),
        torch.device("cpu"),
        lambda _: None,
        lambda: False,
    )
    assert precision == "int8"
    assert isinstance(made.runner, PagedRunner)
    return made, made.runner


def _logits(runner: PagedRunner) -> torch.Tensor:
    """Of a prompt of ROWS tokens, every position: [ROWS, vocabulary]."""
    step = runner.decode
    assert isinstance(step, NativeStep)
    rows = torch.arange(ROWS)
    return step.rows(rows + 5, rows, rows, torch.arange(2, dtype=torch.int32).expand(ROWS, -1), rows + 1, rows)


def _by_blueprint(runner: PagedRunner) -> bool:
    return type(runner.model) is torch.nn.Module


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("llama", {}),
        ("llama", {"tie_word_embeddings": True}),
        ("llama", {"attention_bias": True}),
        ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}}),
        ("qwen2", {}),
        ("qwen3", {}),
        ("mistral", {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value) or "plain",
)
def test_the_second_load_computes_the_same_bits_without_the_transformers_model(
    tmp_path: Path, family: str, changes: dict[str, object]
) -> None:
    folder = tiny_folder.make(tmp_path / "model", family, **changes)
    first, by_model = _make(folder)
    second, by_print = _make(folder)
    assert not _by_blueprint(by_model)
    assert _by_blueprint(by_print)
    assert torch.equal(_logits(by_model), _logits(by_print))
    assert first.test is not None
    assert second.test == first.test
    same = (
        "architecture",
        "parameters",
        "weight_bytes",
        "step_bytes",
        "window",
        "vocabulary",
        "layers",
        "kernel",
        "page_bytes",
    )
    assert {name: getattr(first, name) for name in same} == {name: getattr(second, name) for name in same}


def test_a_damaged_blueprint_is_not_used_and_made_again(tmp_path: Path) -> None:
    folder = tiny_folder.make(tmp_path / "model")
    _make(folder)
    (kept,) = (tmp_path / "cache" / "blueprints").iterdir()
    kept.write_bytes(kept.read_bytes()[:1000])
    assert not _by_blueprint(_make(folder)[1])
    assert _by_blueprint(_make(folder)[1])


def test_weights_that_give_other_logits_are_taken_the_long_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tiny_folder.make(tmp_path / "model")
    _make(folder)
    (kept,) = (tmp_path / "cache" / "blueprints").iterdir()
    monkeypatch.setattr(blueprint, "place", lambda *_: kept)  # as if its name were not the hash of the weights
    weights = load_file(folder / "model.safetensors")
    weights["model.layers.2.self_attn.v_proj.weight"] *= -1
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    assert not _by_blueprint(_make(folder)[1])
    assert "logits differ" in caplog.text


def test_a_layer_missing_from_the_files_is_named(tmp_path: Path) -> None:
    folder = tiny_folder.make(tmp_path / "model")
    local = resolve(str(folder))
    _make(folder)
    library = kernels.load()
    assert library is not None
    known = blueprint.find(blueprint.place(local, library.path))
    assert known is not None
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.0.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(KeyError, match="up_proj"):
        blueprint.read(known, folder, library)


class _FullDisk(io.BytesIO):
    def write(self, _: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_leaves_no_half_of_a_blueprint_and_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tiny_folder.make(tmp_path / "model")

    def full(handle: int, _: str) -> _FullDisk:
        os.close(handle)
        return _FullDisk()

    monkeypatch.setattr(places, "os", SimpleNamespace(**{**vars(os), "fdopen": full}))
    made, _ = _make(folder)
    assert made.test is not None
    assert made.test.passed
    assert "can't be kept" in caplog.text
    assert list((tmp_path / "cache" / "blueprints").iterdir()) == []


def test_a_model_that_our_kernels_do_not_serve_leaves_no_blueprint(tmp_path: Path) -> None:
    _make(tiny_folder.make(tmp_path / "model", "olmo"))
    assert not (tmp_path / "cache" / "blueprints").exists()


@pytest.mark.model
def test_the_default_model_is_ready_without_importing_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUTAWAY_CACHE_DIR")
    code = """
import sys
from cutaway.engine.build import build
from cutaway.engine.protocol import Load, Ready
for _ in range(2):
    build(Load(pages=16, page_size=16), lambda event: None, lambda progress: None, lambda: False)
    print("transformers" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=LONG)
    second = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=LONG)
    assert second.stdout.split() == ["False", "False"]


@pytest.mark.model
async def test_the_process_takes_at_most_two_and_a_half_times_the_weights_beside_the_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CUTAWAY_CACHE_DIR")
    for _ in range(2):  # the first may leave the blueprint
        client = EngineClient()
        welcome = await client.start()
        try:
            await client.send(Load(offline=True))
            card = await anext(event.card async for event in client.events() if isinstance(event, Ready))
            resident = psutil.Process(welcome.pid).memory_info().rss
        finally:
            await client.close()
    assert resident <= 2.5 * card.weight_bytes + card.pages * card.page_bytes, resident
