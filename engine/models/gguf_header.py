"""Reads the header of a GGUF file: metadata, tensor list and the size that the file must have.

Format: the GGUF specification (ggml repository, docs/gguf.md), versions 2 and 3, little-endian. Nothing is
allocated from a number in the file before that number has been checked against the file's size.
"""

from __future__ import annotations

import dataclasses
import math
import mmap
import re
import struct
from pathlib import Path
from typing import Any

from ..errors import ModelError

MAGIC = b"GGUF"
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MAX_DIMENSIONS = 4
# Far above any real model; a number beyond these is a broken file, not a short one.
_MAX_COUNT = 1 << 24
_MAX_BYTES = 1 << 30


@dataclasses.dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor. `shape` is in row-major order (GGUF stores it reversed); `offset` is from the file's start."""

    name: str
    shape: tuple[int, ...]
    kind: int  # ggml type number
    offset: int
    size: int  # bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Header:
    """What a GGUF file says about itself."""

    path: Path
    version: int
    metadata: dict[str, Any]
    tensors: dict[str, TensorInfo]
    file_size: int

    @property
    def architecture(self) -> str:
        return str(self.metadata.get("general.architecture", ""))

    def get(self, key: str, default: Any = None) -> Any:
        """Metadata `key`, where a leading "." stands for the architecture: `get(".block_count")`."""
        return self.metadata.get(f"{self.architecture}{key}" if key.startswith(".") else key, default)

    def require(self, key: str) -> Any:
        """Like `get`, but raises `ModelError` naming the key when it is missing."""
        value = self.get(key)
        if value is None:
            name = f"{self.architecture}{key}" if key.startswith(".") else key
            raise ModelError(f"{self.path}: the GGUF metadata has no {name}.", "Take another conversion of the model.")
        return value


def read_header(path: Path) -> Header:
    """Parse and check the header of `path`.

    Raises `ModelError`: not a GGUF file (says what it looks like), an unsupported version, a broken header, or a
    file shorter than its tensors need.
    """
    check_kind(path)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return _Reader(path, data).header()


def check_kind(path: Path) -> None:
    """Raise `ModelError` unless `path` is a file that begins as GGUF does; says what was found instead."""
    if path.is_dir():
        raise ModelError(f"{path} is a directory, not a GGUF file.", "Give the file inside it, or a model folder.")
    with path.open("rb") as file:
        start = file.read(512)
    if start.startswith(MAGIC):
        return
    if not start:
        raise ModelError(f"{path} is an empty file, not GGUF.", "Fetch it again.")
    raise ModelError(f"{path} is not GGUF: it {looks_like(start)}.", "Fetch the file itself again.")


def looks_like(start: bytes) -> str:
    """What a file that begins with `start` (512 bytes or fewer) seems to be, as the end of "it ..."."""
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if MAGIC.startswith(start):
        return f"holds only the first {len(start)} bytes of one"
    if text.startswith((b"<!doctype html", b"<html", b"<head", b"<!--")):
        return "looks like HTML, a web page saved under the model's name"
    if text.startswith(b"version https://git-lfs"):
        return "is a Git LFS pointer, not the file it points to"
    if text.startswith(b"<?xml"):
        return "looks like XML, perhaps an error page"
    if start.startswith((b"ggml", b"lmgg", b"ggjt", b"tjgg", b"fmgg", b"ggla")):
        return "is of an older format that GGUF replaced"
    if start.startswith(b"PK\x03\x04"):
        return "looks like a zip archive or a PyTorch checkpoint"
    if len(start) > 9 and start[8:9] == b"{" and struct.unpack("<Q", start[:8])[0] < 1 << 27:
        return "looks like safetensors"
    if re.match(rb'[\[{]\s*["{\[}\]]', text):
        return "looks like JSON, perhaps an error message"
    if not set(text) & set(range(9)):
        return f"looks like text, beginning {start[:20].decode('utf-8', 'replace')!r}"
    return f"begins with {start[:4].hex(' ')}"


class _Reader:
    """A bounds-checked cursor over the mapped file."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path = path
        self.data = data
        self.size = len(data)
        self.at = 0

    def header(self) -> Header:
        self._need(24)
        self.at = 4
        version = self._scalar("I")
        if version & 0xFFFF == 0:
            raise ModelError(f"{self.path} is a big-endian GGUF file.", "Take the little-endian one.")
        if version not in (2, 3):
            raise ModelError(f"{self.path} has GGUF version {version}; versions 2 and 3 are read.", "Convert it again.")
        tensors, pairs = self._scalar("Q"), self._scalar("Q")
        for what, count in (("tensors", tensors), ("metadata keys", pairs)):
            if count > _MAX_COUNT:
                raise self._broken(f"it claims {count:,} {what}")
        metadata: dict[str, Any] = {}
        for _ in range(pairs):
            key = self._string("a metadata key")
            if key in metadata:
                raise self._broken(f"the metadata key {key} appears twice")
            metadata[key] = self._value(self._scalar("I"), key)
        infos = [self._tensor() for _ in range(tensors)]
        return self._finish(version, metadata, infos)

    def _finish(self, version: int, metadata: dict[str, Any], infos: list[TensorInfo]) -> Header:
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment <= 0 or alignment % 8:
            raise self._broken(f"general.alignment is {alignment!r}, not a multiple of 8")
        start = math.ceil(self.at / alignment) * alignment
        tensors: dict[str, TensorInfo] = {}
        for info in infos:
            if info.name in tensors:
                raise self._broken(f"the tensor {info.name} appears twice")
            if info.offset % alignment:
                raise self._broken(f"the tensor {info.name} lies at {info.offset}, not on a multiple of {alignment}")
            tensors[info.name] = dataclasses.replace(info, offset=start + info.offset)
        needed = max((info.offset + info.size for info in tensors.values()), default=self.at)
        if needed > self.size:
            raise incomplete(self.path, needed, self.size)
        return Header(self.path, version, metadata, tensors, self.size)

    def _tensor(self) -> TensorInfo:
        name = self._string("a tensor name")
        dimensions = self._scalar("I")
        if not 1 <= dimensions <= _MAX_DIMENSIONS:
            raise self._broken(f"the tensor {name} has {dimensions} dimensions")
        sizes = tuple(self._scalar("Q") for _ in range(dimensions))
        kind, offset = self._scalar("I"), self._scalar("Q")
        block, width = _block_size(kind, name, self.path)
        if 0 in sizes or math.prod(sizes) >= 1 << 56 or offset >= 1 << 56 or sizes[0] % block:
            raise self._broken(f"the tensor {name} has the impossible shape {list(sizes)} at {offset}")
        return TensorInfo(name, sizes[::-1], kind, offset, math.prod(sizes) // block * width)

    def _value(self, kind: int, key: str) -> Any:
        if kind == _STRING:
            return self._string(key)
        if kind == _ARRAY:
            return self._array(key)
        if kind not in _SCALARS:
            raise self._broken(f"{key} has the unknown value type {kind}")
        return self._scalar(_SCALARS[kind])

    def _array(self, key: str) -> tuple[Any, ...] | list[str]:
        kind, count = self._scalar("I"), self._scalar("Q")
        if count > _MAX_COUNT * 8:
            raise self._broken(f"{key} claims {count:,} entries")
        if kind == _STRING:
            self._need(8 * count)  # each string has at least its length
            return [self._string(key) for _ in range(count)]
        if kind not in _SCALARS:
            raise self._broken(f"{key} is an array of the unsupported value type {kind}")
        layout = struct.Struct(f"<{count}{_SCALARS[kind]}")
        self._need(layout.size)
        values = layout.unpack_from(self.data, self.at)
        self.at += layout.size
        return values

    def _string(self, what: str) -> str:
        length = self._scalar("Q")
        if length > _MAX_BYTES:
            raise self._broken(f"{what} claims {length:,} bytes")
        self._need(length)
        raw = self.data[self.at : self.at + length]
        self.at += length
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            raise self._broken(f"{what} is not UTF-8") from None

    def _scalar(self, code: str) -> Any:
        layout = _LAYOUTS[code]
        self._need(layout.size)
        (value,) = layout.unpack_from(self.data, self.at)
        self.at += layout.size
        return _shortest(value) if code == "f" else value

    def _need(self, count: int) -> None:
        if self.at + count > self.size:
            raise incomplete(self.path, self.at + count, self.size, inside_header=True)

    def _broken(self, why: str) -> ModelError:
        return ModelError(f"{self.path}: the GGUF header is broken: {why}.", "Fetch the file again.")


def _shortest(value: float) -> float:
    """The shortest decimal with the same float32: 1e-05, not 9.999999747378752e-06."""
    for digits in range(6, 9):
        short = float(f"{value:.{digits}g}")
        if _LAYOUTS["f"].pack(short) == _LAYOUTS["f"].pack(value):
            return short
    return value


_LAYOUTS = {code: struct.Struct(f"<{code}") for code in _SCALARS.values()}


def incomplete(path: Path, needed: int, found: int, *, inside_header: bool = False) -> ModelError:
    """The error for a file that ends too early. Sizes in bytes."""
    at_least = "at least " if inside_header else ""
    return ModelError(f"{path}: file incomplete: needs {at_least}{needed:,} bytes, has {found:,}.", "Fetch it again.")


def _block_size(kind: int, name: str, path: Path) -> tuple[int, int]:
    """Values and bytes of one block of ggml type `kind`."""
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    try:
        return GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
    except (ValueError, KeyError):
        raise ModelError(
            f"{path}: the tensor {name} has the ggml type {kind}, which this version of gguf does not know.",
            "Update gguf, or take a file with another quantization.",
        ) from None
