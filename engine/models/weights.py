"""Turns the tensors of a GGUF file into one safetensors file, a few rows at a time, with numpy alone.

What is stored is exact wherever that is affordable. float32, float16 and bfloat16 tensors keep their type. A
quantized tensor becomes float32: a value such as scale * q + minimum needs more bits than bfloat16's 8 or
float16's 11 have, and whoever compares two engines must compare them on the same weights. Beyond
`EXACT_PARAMETERS` quantized values a float32 copy would fill disks (28 GB for a 7B model), so it is bfloat16,
rounded to nearest even: an error of 2^-9 of a value, far below that of the quantization itself.

safetensors format: 8 bytes length, a JSON header, then the tensors (huggingface/safetensors, README).
"""

from __future__ import annotations

import dataclasses
import json
import math
import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .gguf_header import Header, TensorInfo
from .local import Watch

EXACT_PARAMETERS = 1 << 31
_CHUNK_VALUES = 1 << 22  # float32 values held at once
_WIDTHS = {"F32": 4, "F16": 2, "BF16": 2}
DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


@dataclasses.dataclass(frozen=True, slots=True)
class Stored:
    """One tensor to write. `order` permutes its rows; `shift` is added to its values."""

    name: str
    dtype: str  # F32, F16 or BF16
    shape: tuple[int, ...]
    source: TensorInfo
    order: np.ndarray | None = None  # [rows] int
    shift: float = 0.0

    @property
    def size(self) -> int:
        """Bytes."""
        return math.prod(self.shape) * _WIDTHS[self.dtype]


def dtype_for(header: Header, info: TensorInfo) -> str:
    """The type that `info` is stored as: F32, F16 or BF16."""
    kind = _kind(info)
    if kind in _WIDTHS:
        return kind
    quantized = sum(math.prod(t.shape) for t in header.tensors.values() if _kind(t) not in _WIDTHS)
    return "F32" if quantized <= EXACT_PARAMETERS else "BF16"


def file_size(tensors: list[Stored]) -> int:
    """Bytes of the safetensors file that `write` makes."""
    return len(_head(tensors)) + sum(tensor.size for tensor in tensors)


def write(path: Path, tensors: list[Stored], header: Header, watch: Watch) -> None:
    """Write `tensors` of the GGUF file behind `header` to `path`. Told as stage "convert", in tensors."""
    with header.path.open("rb") as source, mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as data:
        with path.open("wb") as file:
            file.write(_head(tensors))
            for number, tensor in enumerate(tensors):
                watch.tell("convert", number, len(tensors), "tensors", tensor.name)
                for chunk in _values(tensor, data):
                    file.write(chunk.data)
                    watch.check()
        watch.tell("convert", len(tensors), len(tensors), "tensors")


def _head(tensors: list[Stored]) -> bytes:
    described: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for tensor in tensors:
        described[tensor.name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [at, at + tensor.size],
        }
        at += tensor.size
    text = json.dumps(described, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def _values(tensor: Stored, data: mmap.mmap) -> Iterator[np.ndarray]:
    """The values of `tensor` in its stored type, as contiguous [rows, columns] pieces."""
    info = tensor.source
    # A vector whose entries move is a column, so that each entry is a row.
    columns = 1 if tensor.order is not None and len(info.shape) == 1 else info.shape[-1]
    rows = math.prod(info.shape) // columns
    # A copy of each piece, not a view: a view would keep the map open.
    width = info.size // rows
    step = max(1, _CHUNK_VALUES // columns)
    for start in range(0, rows, step):
        count = min(step, rows - start)
        if tensor.order is None:
            raw = np.frombuffer(data[info.offset + start * width : info.offset + (start + count) * width], np.uint8)
            raw = raw.reshape(count, width)
        else:
            picked = tensor.order[start : start + count]
            joined = b"".join(data[info.offset + i * width : info.offset + (i + 1) * width] for i in picked.tolist())
            raw = np.frombuffer(joined, np.uint8).reshape(count, width)
        yield raw if _is_plain(tensor) else _cast(_dequantize(raw, info) + np.float32(tensor.shift), tensor.dtype)


def _is_plain(tensor: Stored) -> bool:
    return not tensor.shift and _kind(tensor.source) == tensor.dtype


def _kind(info: TensorInfo) -> str:
    from gguf.constants import GGMLQuantizationType

    return GGMLQuantizationType(info.kind).name


def _dequantize(raw: np.ndarray, info: TensorInfo) -> np.ndarray:
    """[rows, bytes] uint8 -> [rows, columns] float32."""
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    return dequantize(raw, GGMLQuantizationType(info.kind)).astype(np.float32, copy=False)


def _cast(values: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "F32":
        return np.ascontiguousarray(values, np.float32)
    if dtype == "F16":
        return np.ascontiguousarray(values, np.float16)
    return _bfloat16(values)


def _bfloat16(values: np.ndarray) -> np.ndarray:
    """float32 -> the bits of bfloat16 (uint16), rounded to nearest even; not-a-number stays so."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)
