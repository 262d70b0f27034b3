"""Checks a safetensors file by its header alone: nothing is mapped, nothing allocated.

Format: 8 bytes length (little-endian), a JSON header, then the tensors' bytes (huggingface/safetensors, README).
"""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

from ..errors import ModelError
from .gguf_header import incomplete, looks_like

_MAX_HEADER = 100_000_000  # the format's own limit, bytes
_BITS = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("BOOL", "I8", "U8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}


def check_safetensors(path: Path) -> set[str]:
    """The names of the tensors in `path`. Raises as `read_shapes`."""
    return set(read_shapes(path))


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor in `path`, by name.

    Raises `ModelError` naming the file, with needed and found size, when it is too short or too long, or with what
    it looks like when it is something else.
    """
    found = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(512)
        if len(start) < 8:
            what = "is an empty file" if not start else f"holds only {len(start)} bytes"
            raise ModelError(f"{path} {what}, not safetensors.", "Fetch it again.")
        (length,) = struct.unpack("<Q", start[:8])
        if length > _MAX_HEADER or (len(start) > 8 and start[8:9] not in b"{ "):
            raise ModelError(f"{path} is not safetensors: it {looks_like(start)}.", "Fetch the file itself again.")
        if 8 + length > found:
            raise incomplete(path, 8 + length, found, inside_header=True)
        file.seek(8)
        raw = file.read(length)
    try:
        header = json.loads(raw)
        tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
        needed = 8 + length + max((_end(entry) for entry in tensors.values()), default=0)
        shapes = {name: tuple(entry["shape"]) for name, entry in tensors.items()}
    except (ValueError, AttributeError, TypeError, KeyError, OverflowError):
        raise ModelError(f"{path}: the safetensors header is broken.", "Fetch the file again.") from None
    if needed > found:
        raise incomplete(path, needed, found)
    if needed < found:
        raise ModelError(
            f"{path}: file too long: needs {needed:,} bytes, has {found:,}.",
            "It was not written by one program alone; fetch it again.",
        )
    return shapes


def _end(entry: dict[str, Any]) -> int:
    """Where a tensor's bytes end, counted from the end of the header; raises `ValueError` when they do not fit it."""
    begin, end = entry["data_offsets"]
    bits = _BITS.get(entry["dtype"])
    size = math.prod(entry["shape"])
    if not 0 <= begin <= end or (bits is not None and size * bits != (end - begin) * 8):
        raise ValueError
    return end
