"""Model folders: every incomplete or unusable one is named, with the file and what to do, before anything is read."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from cutaway.engine.errors import ModelError
from cutaway.engine.models import resolve
from cutaway.engine.models.folder import INDEX, SINGLE, missing_files
from cutaway.engine.models.safetensors_file import check_safetensors
from cutaway.engine.protocol import LoadProgress
from safetensors.numpy import save_file


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTAWAY_CACHE_DIR", str(tmp_path / "cache"))


def tensors(seed: int = 0, *names: str) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {name: random.standard_normal((4, 3)).astype(np.float32) for name in names or ("a", "b")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A complete folder, as far as anything before loading can tell."""
    made = tmp_path / "tiny"
    made.mkdir()
    (made / "config.json").write_text('{"model_type": "llama"}')
    (made / "tokenizer.json").write_text("{}")
    save_file(tensors(), made / SINGLE)
    return made


def shard(folder: Path) -> None:
    """Turn the folder's single file into two shards and an index."""
    (folder / SINGLE).unlink()
    save_file(tensors(0, "a"), folder / "model-00001-of-00002.safetensors")
    save_file(tensors(1, "b"), folder / "model-00002-of-00002.safetensors")
    places = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))


def refusal(folder: Path) -> str:
    with pytest.raises(ModelError) as caught:
        resolve(str(folder))
    return str(caught.value)


def test_a_complete_folder_is_found_with_its_name_license_and_identity(folder: Path) -> None:
    (folder / "README.md").write_text("---\nlanguage: en\nlicense: 'apache-2.0'\n---\n# Tiny\nlicense: no\n")
    found = resolve(str(folder))
    assert (found.folder, found.name, found.source, found.format) == (folder, "tiny", str(folder), "safetensors")
    assert found.license == "apache-2.0"
    assert len(found.identity) == 64
    assert missing_files(folder) == []


def test_identity_follows_the_content_and_not_the_place(folder: Path, tmp_path: Path) -> None:
    first = resolve(str(folder)).identity
    moved = folder.rename(tmp_path / "elsewhere")
    assert resolve(str(moved)).identity == first
    save_file(tensors(1), moved / SINGLE)
    second = resolve(str(moved)).identity
    assert second != first
    (moved / "config.json").write_text('{"model_type": "llama", "rope_theta": 5}')
    assert resolve(str(moved)).identity not in (first, second)


def test_weights_are_hashed_once(folder: Path) -> None:
    resolve(str(folder))
    told: list[LoadProgress] = []
    resolve(str(folder), progress=told.append)
    assert "verify" not in {event.stage for event in told}


def test_ml_04_one_byte_short_names_the_file_and_both_sizes(folder: Path) -> None:
    whole = (folder / SINGLE).read_bytes()
    (folder / SINGLE).write_bytes(whole[:-1])
    said = refusal(folder)
    assert f"{folder / SINGLE}: file incomplete: needs {len(whole):,} bytes, has {len(whole) - 1:,}." in said


def test_ml_04_one_byte_too_many_names_the_file_and_both_sizes(folder: Path) -> None:
    whole = (folder / SINGLE).read_bytes()
    (folder / SINGLE).write_bytes(whole + b"\0")
    said = refusal(folder)
    assert f"{folder / SINGLE}: file too long: needs {len(whole):,} bytes, has {len(whole) + 1:,}." in said


def test_ml_04_the_missing_shard_is_named(folder: Path) -> None:
    shard(folder)
    assert resolve(str(folder)).format == "safetensors"
    (folder / "model-00002-of-00002.safetensors").unlink()
    assert f"{folder / INDEX} names the shard model-00002-of-00002.safetensors, which is missing" in refusal(folder)
    assert missing_files(folder) == ["model-00002-of-00002.safetensors"]


def test_ml_04_a_short_shard_and_a_tensor_that_its_shard_lacks_are_named(folder: Path) -> None:
    shard(folder)
    second = folder / "model-00002-of-00002.safetensors"
    second.write_bytes(second.read_bytes()[:-1])
    assert f"{second}: file incomplete" in refusal(folder)
    save_file(tensors(1, "c"), second)
    assert f"{second} lacks the tensor b" in refusal(folder)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is an empty file, not safetensors"),
        (b"abc", "holds only 3 bytes"),
        (b"<!DOCTYPE html><html>...", "looks like HTML"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer"),
        (b"PK\x03\x04" + bytes(30), "looks like a zip archive or a PyTorch checkpoint"),
        (struct.pack("<Q", 1000) + b'{"a":', "needs at least 1,008 bytes, has 13"),
        (struct.pack("<Q", 5) + b'{"a":', "header is broken"),
        (struct.pack("<Q", 2) + b"{}x", "needs 10 bytes, has 11"),
        (struct.pack("<Q", 60) + b'{"a":{"dtype":"F32","shape":[9],"data_offsets":[0,4]}}      ' + bytes(4), "broken"),
    ],
)
def test_ml_04_what_is_not_safetensors_is_called_what_it_is(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(ModelError) as caught:
        check_safetensors(path)
    assert str(path) in caught.value.message
    assert said in caught.value.message


def test_ml_05_unknown_model_type_is_named_with_supported_ones(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "zzz"}')
    said = refusal(folder)
    assert "architecture zzz is not supported (supported: llama, mistral," in said
    assert "corrupt" not in said


def test_ml_05_a_model_that_is_not_for_text_is_refused(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "vit"}')
    assert "architecture vit is not supported" in refusal(folder)


def test_code_that_comes_with_a_model_is_not_run(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "zzz", "auto_map": {"AutoConfig": "x.Config"}}')
    assert "comes with Python code of its own, which is not run" in refusal(folder)


def test_pickled_weights_are_refused_with_advice(folder: Path) -> None:
    (folder / SINGLE).unlink()
    (folder / "pytorch_model.bin").write_bytes(b"PK\x03\x04")
    said = refusal(folder)
    assert "only pickled weights (pytorch_model.bin)" in said
    assert "save_pretrained" in said


def test_a_folder_without_a_config_says_what_it_holds_instead(folder: Path) -> None:
    (folder / "config.json").unlink()
    assert f"{folder} has no config.json, so it is not a model folder" in refusal(folder)
    (folder / "m.Q4_0.gguf").write_bytes(b"GGUF")
    assert "but GGUF files. Give one of them: m.Q4_0.gguf" in refusal(folder)
    inner = folder.parent / "models"
    inner.mkdir()
    (folder / "config.json").write_text("{}")
    folder.rename(inner / "tiny")
    assert "There are models inside it: tiny" in refusal(inner)


@pytest.mark.parametrize(
    ("text", "said"), [("{", "can't be read"), ("[]", "not a JSON object"), ("{}", "no model_type")]
)
def test_a_bad_config_is_named(text: str, said: str, folder: Path) -> None:
    (folder / "config.json").write_text(text)
    assert str(folder / "config.json") in refusal(folder)
    assert said in refusal(folder)


def test_missing_weights_and_tokenizer_are_named(folder: Path) -> None:
    (folder / SINGLE).rename(folder / "weights.safetensors")
    assert f"neither {SINGLE} nor {INDEX}. There is weights.safetensors" in refusal(folder)
    (folder / "weights.safetensors").rename(folder / SINGLE)
    (folder / "tokenizer.json").unlink()
    assert f"{folder} has no tokenizer.json" in refusal(folder)


def test_an_index_that_points_outside_its_folder_is_refused(folder: Path) -> None:
    shard(folder)
    (folder / INDEX).write_text(json.dumps({"weight_map": {"a": "../../etc/passwd"}}))
    assert f"{folder / INDEX} is broken" in refusal(folder)


def test_ml_11_one_file_of_a_folder_is_answered_with_its_folder(folder: Path) -> None:
    said = refusal(folder / SINGLE)
    assert f"{folder / SINGLE} is one file of a model. Give its folder: {folder}." in said
