"""GGUF files: what is checked before anything is allocated, and what a conversion leaves behind."""

from __future__ import annotations

import errno
import json
import os
import struct
import subprocess
import sys
import threading
from pathlib import Path

import gguf
import numpy as np
import pytest
from cutaway.engine.errors import LoadCancelled, ModelError
from cutaway.engine.models import resolve, storage, weights
from cutaway.engine.models.convert import NOTE, VERSION, convert, converted_folder, find_converted
from cutaway.engine.models.gguf_header import read_header
from cutaway.engine.models.local import Watch
from cutaway.engine.protocol import LoadProgress
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file

from . import tiny_gguf
from .patience import PATIENCE

Kind = gguf.GGMLQuantizationType


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUTAWAY_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    tiny_gguf.llama(path)
    return path


def header_end(path: Path) -> int:
    """Where the tensors' bytes begin."""
    return min(info.offset for info in read_header(path).tensors.values())


def test_ml_01_truncated_gguf_names_the_path_and_both_sizes(tiny: Path, tmp_path: Path, cache: Path) -> None:
    whole = tiny.read_bytes()
    for cut in (len(whole) // 2, header_end(tiny), len(whole) - 1):
        short = tmp_path / f"cut-{cut}.gguf"
        short.write_bytes(whole[:cut])
        with pytest.raises(ModelError) as caught:
            resolve(str(short))
        assert f"{short}: file incomplete: needs {len(whole):,} bytes, has {cut:,}." in caught.value.message
    assert not (cache / "converted").exists()


def test_ml_01_gguf_cut_inside_its_header_says_how_much_it_needs_at_least(tiny: Path, tmp_path: Path) -> None:
    whole, end = tiny.read_bytes(), header_end(tiny)
    for cut in (4, 23, 24, 100, end // 2, end - 64):
        short = tmp_path / "cut.gguf"
        short.write_bytes(whole[:cut])
        with pytest.raises(ModelError, match=rf"file incomplete: needs (at least )?[\d,]+ bytes, has {cut:,}\."):
            read_header(short)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"<!doctype html><html><body>404</body></html>", "is not GGUF: it looks like HTML"),
        (b"\n  <html>", "is not GGUF: it looks like HTML"),
        (b"", "is an empty file, not GGUF"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "is a Git LFS pointer"),
        (b'{"error": "not found"}', "looks like JSON"),
        (b"PK\x03\x04" + bytes(40), "looks like a zip archive or a PyTorch checkpoint"),
        (b"ggjt\x03\x00\x00\x00", "is of an older format"),
        (b"GG", "holds only the first 2 bytes of one"),
        (b"Not Found", "looks like text, beginning 'Not Found'"),
        (b"\x00\x01\x02\x03rest", "begins with 00 01 02 03"),
        (struct.pack("<Q", 40) + b'{"a":{"dtype":"F32"}}', "looks like safetensors"),
    ],
)
def test_ml_02_another_file_under_the_models_name_is_called_what_it_is(
    content: bytes, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError) as caught:
        resolve(str(path))
    assert str(path) in caught.value.message
    assert said in caught.value.message


def test_ml_02_a_directory_named_like_a_file_is_called_one(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").mkdir()
    with pytest.raises(ModelError, match=r"m\.gguf is a directory, not a GGUF file"):
        resolve(str(tmp_path / "m.gguf"))


def test_ml_05_unsupported_architecture_is_named_with_the_supported_ones(tmp_path: Path) -> None:
    path = tmp_path / "z.gguf"
    tiny_gguf.llama(path, architecture="zzz")
    with pytest.raises(ModelError) as caught:
        resolve(str(path))
    assert "architecture zzz is not supported (supported: llama, qwen2, " in caught.value.message
    assert "corrupt" not in str(caught.value)
    assert "broken" not in str(caught.value)


def with_counts(tensors: int, pairs: int, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, pairs) + bytes(64)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (with_counts(1 << 60, 0), "it claims 1,152,921,504,606,846,976 tensors"),
        (with_counts(0, 1 << 40), "metadata keys"),
        (with_counts(0, 0, version=1), "has GGUF version 1; versions 2 and 3 are read"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
        (with_counts(0, 1)[:24] + struct.pack("<Q", 1 << 50), "a metadata key claims"),
        (with_counts(0, 1)[:24] + struct.pack("<Q1sIIQ", 1, b"k", 9, 5, 1 << 40), "k claims"),
        (with_counts(0, 1)[:24] + struct.pack("<Q1sI", 1, b"k", 77) + bytes(8), "unknown value type 77"),
        (with_counts(1, 0)[:24] + struct.pack("<Q1sI", 1, b"t", 9) + bytes(80), "has 9 dimensions"),
        (with_counts(1, 0)[:24] + struct.pack("<Q1sIQQIQ", 1, b"t", 2, 1 << 40, 1 << 40, 0, 0), "impossible shape"),
        (with_counts(1, 0)[:24] + struct.pack("<Q1sIQIQ", 1, b"t", 1, 8, 999, 0), "ggml type 999"),
    ],
)
def test_absurd_numbers_in_a_header_are_refused_and_not_allocated(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError) as caught:
        read_header(path)
    assert said in caught.value.message


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, 6000), value=st.integers(0, 255), cut=st.integers(0, 6000))
def test_a_damaged_header_is_read_or_refused_but_never_crashes(
    position: int, value: int, cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "whole.gguf"
    if not path.exists():
        tiny_gguf.llama(path)
    content = bytearray(path.read_bytes())
    content[position % len(content)] = value
    damaged = path.with_name("damaged.gguf")
    damaged.write_bytes(content[: len(content) - cut % 7 * 1000])
    refusal = ""
    try:
        read_header(damaged)
    except ModelError as error:
        refusal = error.message
    assert not refusal or str(damaged) in refusal


def test_header_holds_what_the_writer_wrote(tiny: Path) -> None:
    header, reference = read_header(tiny), gguf.GGUFReader(tiny)
    for tensor in reference.tensors:
        info = header.tensors[tensor.name]
        assert (info.offset, info.size) == (tensor.data_offset, tensor.n_bytes)
        assert info.shape == tuple(reversed([int(size) for size in tensor.shape]))
    for key, field in reference.fields.items():
        if not key.startswith("GGUF."):
            value = header.metadata[key]
            assert (list(value) if isinstance(value, tuple) else value) == pytest.approx(field.contents())


def test_float32_metadata_comes_as_its_shortest_decimal(tiny: Path) -> None:
    assert read_header(tiny).get(".attention.layer_norm_rms_epsilon") == 1e-05


@pytest.mark.parametrize(
    ("kind", "stored", "dtype"),
    [
        (Kind.F32, np.float32, "float32"),
        (Kind.F16, np.float16, "float32"),  # norms stay float32, and they set the model's type
        (Kind.Q4_1, np.float32, "float32"),
        (Kind.Q8_0, np.float32, "float32"),
    ],
)
def test_conversion_keeps_every_dequantized_value(kind: Kind, stored: type, dtype: str, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    written = tiny_gguf.llama(path, kind=kind)
    folder = resolve(str(path)).folder
    found = load_file(folder / "model.safetensors")
    assert json.loads((folder / "config.json").read_text())["dtype"] == dtype
    plain = found["model.layers.1.mlp.down_proj.weight"]
    assert plain.dtype == stored
    assert np.array_equal(plain.astype(np.float32), written["blk.1.ffn_down.weight"])
    assert np.array_equal(found["model.norm.weight"], written["output_norm.weight"])
    keys = found["model.layers.0.self_attn.k_proj.weight"]
    permuted = tiny_gguf.permute(keys.astype(np.float32), tiny_gguf.KV_HEADS)
    assert np.array_equal(permuted, written["blk.0.attn_k.weight"])


def test_bfloat16_is_kept_and_rounding_to_it_goes_to_nearest_even(tmp_path: Path) -> None:
    import torch

    path = tmp_path / "m.gguf"
    written = tiny_gguf.llama(path, kind=Kind.BF16)
    with safe_open(resolve(str(path)).folder / "model.safetensors", "pt") as file:
        tensor = file.get_tensor("model.layers.1.mlp.down_proj.weight")
    assert tensor.dtype == torch.bfloat16
    assert np.array_equal(tensor.float().numpy(), written["blk.1.ffn_down.weight"])
    values = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    values[:4] = [np.nan, np.inf, -np.inf, 3.4e38]
    ours = torch.from_numpy(weights._bfloat16(values).view(np.int16)).view(torch.bfloat16)
    assert torch.equal(ours.view(torch.int16)[1:], torch.from_numpy(values).bfloat16().view(torch.int16)[1:])
    assert ours[0].isnan()


def test_beyond_the_exact_size_quantized_weights_become_bfloat16(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "EXACT_PARAMETERS", 100)
    path = tmp_path / "m.gguf"
    tiny_gguf.llama(path, kind=Kind.Q4_1)
    folder = resolve(str(path)).folder
    with safe_open(folder / "model.safetensors", "pt") as file:
        assert str(file.get_tensor("model.embed_tokens.weight").dtype) == "torch.bfloat16"
        assert str(file.get_tensor("model.norm.weight").dtype) == "torch.float32"


def test_conversion_tells_its_progress_in_tensors(tiny: Path) -> None:
    told: list[LoadProgress] = []
    resolve(str(tiny), progress=told.append)
    steps = [event for event in told if event.stage == "convert" and event.total]
    assert [event.done for event in steps] == list(range(21))
    assert steps[-1].done == steps[-1].total == 20


def test_second_resolve_neither_hashes_nor_converts(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = resolve(str(tiny))
    told: list[LoadProgress] = []
    monkeypatch.setattr(weights, "write", lambda *_: pytest.fail("converted again"))
    assert resolve(str(tiny), progress=told.append) == first
    assert told == []
    os.utime(tiny, ns=(1, 1))
    assert resolve(str(tiny), progress=told.append) == first
    assert {event.stage for event in told} == {"verify"}


def test_a_conversion_by_another_version_or_cut_short_is_made_again(tiny: Path) -> None:
    found = resolve(str(tiny))
    note = json.loads((found.folder / NOTE).read_text())
    (found.folder / NOTE).write_text(json.dumps({**note, "converter": VERSION - 1}))
    assert find_converted(found.identity) is None
    assert resolve(str(tiny)) == found
    weights_file = found.folder / "model.safetensors"
    whole = weights_file.read_bytes()
    weights_file.write_bytes(whole[:-1])
    assert find_converted(found.identity) is None
    assert resolve(str(tiny)) == found
    assert weights_file.read_bytes() == whole


def test_cancelled_conversion_leaves_nothing(tiny: Path, cache: Path) -> None:
    calls = 0

    def cancelled() -> bool:
        nonlocal calls
        calls += 1
        return calls > 12

    with pytest.raises(LoadCancelled):
        resolve(str(tiny), cancelled=cancelled)
    assert [entry.name for entry in (cache / "converted").iterdir() if not entry.name.endswith(".lock")] == []


def test_full_disk_in_mid_conversion_leaves_nothing_and_says_how_much_is_needed(
    tiny: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = weights._values, 0

    def failing(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 9:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(weights, "_values", failing)
    with pytest.raises(ModelError) as caught:
        resolve(str(tiny))
    assert "no room for the conversion of tiny.gguf: it needs 16." in caught.value.message
    assert str(cache) in caught.value.message
    assert "CUTAWAY_CACHE_DIR" in caught.value.action
    assert [entry.name for entry in (cache / "converted").iterdir() if not entry.name.endswith(".lock")] == []
    monkeypatch.undo()


def test_too_small_a_disk_is_seen_before_writing(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 1_000_000})
    monkeypatch.setattr(storage.shutil, "disk_usage", lambda _: usage)
    monkeypatch.setattr(weights, "write", lambda *_: pytest.fail("wrote"))
    with pytest.raises(ModelError, match=r"needs 16\.\d MB in .*converted, and 1\.0 MB are free"):
        resolve(str(tiny))


def test_read_only_cache_still_serves_what_it_has_and_else_names_the_variable(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = resolve(str(tiny))
    other = tmp_path / "other.gguf"
    tiny_gguf.llama(other, kind=Kind.Q8_0)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", "cache")

    monkeypatch.setattr(Path, "mkdir", refuse)
    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    monkeypatch.setattr("tempfile.mkstemp", refuse)
    assert resolve(str(tiny)) == found
    with pytest.raises(ModelError, match="can't be written") as caught:
        resolve(str(other))
    assert "CUTAWAY_CACHE_DIR" in caught.value.action


def test_a_file_where_the_cache_should_be_is_named(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "occupied").write_text("")
    monkeypatch.setenv("CUTAWAY_CACHE_DIR", str(tmp_path / "occupied"))
    with pytest.raises(ModelError, match="occupied") as caught:
        resolve(str(tiny))
    assert "CUTAWAY_CACHE_DIR" in caught.value.action


def test_two_programs_that_convert_at_once_both_get_the_model(tiny: Path, cache: Path) -> None:
    code = "import sys; from cutaway.engine.models import resolve; print(resolve(sys.argv[1]).folder)"
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(tiny)], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    answers = {process.communicate(timeout=PATIENCE)[0] for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len(answers) == 1
    folder = Path(answers.pop().strip())
    assert find_converted(folder.name) is not None
    assert [entry for entry in folder.parent.iterdir() if ".new-" in entry.name] == []


def test_waiting_for_another_conversion_can_be_cancelled(tiny: Path) -> None:
    digest = "7" * 64
    stop = threading.Event()
    target = converted_folder(digest)
    with storage.locked(target, Watch()):
        stop.set()
        with pytest.raises(LoadCancelled):
            convert(tiny, digest, Watch(cancelled=stop.is_set))


def test_left_overs_of_a_killed_conversion_are_cleared(tiny: Path, cache: Path) -> None:
    found = resolve(str(tiny))
    leftover = cache / "converted" / f".{found.identity}.new-abc"
    leftover.mkdir()
    (leftover / "model.safetensors").write_bytes(b"half")
    (found.folder / NOTE).unlink()
    resolve(str(tiny))
    assert not leftover.exists()


def test_gguf_under_another_name_is_known_by_its_first_bytes(tiny: Path) -> None:
    other = tiny.with_name("weights.dat")
    tiny.rename(other)
    assert resolve(str(other)).format == "gguf"


def test_a_part_of_a_split_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"

    def split(writer: gguf.GGUFWriter) -> None:
        writer.add_uint16("split.no", 1)
        writer.add_uint16("split.count", 3)

    tiny_gguf.llama(path, extra=split)
    with pytest.raises(ModelError, match="part 2 of 3 of a split GGUF file"):
        resolve(str(path))


def test_name_license_and_source_come_from_the_file(tiny: Path) -> None:
    found = resolve(str(tiny))
    assert (found.name, found.license, found.source, found.format) == ("tiny", "mit", str(tiny), "gguf")
    assert found.identity == found.folder.name


def test_no_torch_is_imported_by_finding_and_converting(tiny: Path) -> None:
    code = (
        "import sys; from cutaway.engine.models import resolve, catalogue; resolve(sys.argv[1]); "
        "catalogue.list_cached(); catalogue.path(sys.argv[1]); "
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tiny)], timeout=PATIENCE).returncode == 0
