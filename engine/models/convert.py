"""Converts a GGUF file, once, into a folder that transformers and tokenizers read directly.

The folder is `converted/<sha256 of the file>` in the cache. It appears complete or not at all; `cutaway.json` in it
says where it came from and which version of this conversion made it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .. import places
from ..errors import ModelError
from .gguf_header import Header, read_header
from .local import LocalModel, Watch
from .safetensors_file import check_safetensors
from .storage import locked, need_room, put, storing, temporary_folder

VERSION = 1  # raise it when the same file would convert to something else
NOTE = "cutaway.json"
# Tokens that end a turn, as llama.cpp knows them; many files name only one of theirs in the metadata.
_TURN_ENDS = {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|eom_id|>", "<|end_of_text|>"}
_TOKENIZER_SPARE = 16 << 20  # bytes; tokenizer.json and the configs are smaller


def converted_folder(sha256: str) -> Path:
    """Where the conversion of the GGUF file with this digest is kept."""
    return places.cache() / "converted" / sha256


def find_converted(sha256: str) -> LocalModel | None:
    """The conversion of the GGUF file with this digest, if it was made, by this version."""
    folder = converted_folder(sha256)
    note = read_note(folder)
    if note.get("converter") != VERSION or not _is_whole(folder / "model.safetensors"):
        return None
    return LocalModel(folder, note["name"], sha256, note["source"], note["license"], "gguf")


def _is_whole(weights: Path) -> bool:
    """Whether the file is as long as its header says: a crash of the machine can cut what was just written."""
    try:
        return bool(check_safetensors(weights))
    except (OSError, ModelError):
        return False


def read_note(folder: Path) -> dict[str, Any]:
    """What `cutaway.json` in `folder` says; empty where there is none."""
    try:
        return json.loads((folder / NOTE).read_text("utf-8"))
    except (OSError, ValueError):
        return {}


def convert(
    path: Path, sha256: str, watch: Watch, *, name: str = "", source: str = "", license: str = ""
) -> LocalModel:
    """Convert the GGUF file `path`, whose digest is `sha256`, unless that was done before.

    Raises `ModelError`: a broken or incomplete file, an architecture or tokenizer that is not supported, a tensor
    that has no place, no room on the disk, a cache that can't be written; and `LoadCancelled`.
    """
    found = find_converted(sha256)
    if found:
        return found
    header = read_header(path)
    return _convert(header, sha256, watch, name or path.stem, source or str(path), license)


def _convert(header: Header, sha256: str, watch: Watch, name: str, source: str, license: str) -> LocalModel:
    # Late, since these need numpy and gguf, and a conversion is made only once.
    from . import architectures, weights

    watch.tell("convert", note=f"reading {header.path.name}")
    architecture = architectures.find(header)
    config = architectures.config(architecture, header)
    tensors = architectures.tensors(architecture, header, config)
    config["dtype"] = weights.DTYPES[max((t.dtype for t in tensors), key=["F16", "BF16", "F32"].index)]
    needed = weights.file_size(tensors) + _TOKENIZER_SPARE
    target = converted_folder(sha256)
    note = {
        "converter": VERSION,
        "name": name,
        "source": source,
        "license": license or str(header.get("general.license", "")),
        "sha256": sha256,
        "file": str(header.path),
    }
    with storing(target.parent, needed, f"the conversion of {header.path.name}"), locked(target, watch):
        found = find_converted(sha256)
        if found:
            return found
        need_room(target.parent, needed, f"the conversion of {header.path.name}")
        with temporary_folder(target) as scratch:
            made = scratch / "model"
            made.mkdir()
            _write_texts(made, header, config)
            weights.write(made / "model.safetensors", tensors, header, watch)
            _write_json(made / NOTE, note)
            put(made, target)
    return LocalModel(target, name, sha256, source, note["license"], "gguf")


def _write_texts(folder: Path, header: Header, config: dict[str, Any]) -> None:
    from .gguf_tokenizer import build_tokenizer

    tokenizer, tokenizer_config = build_tokenizer(header)
    ids = _special_ids(header)
    _write_json(folder / "config.json", {**config, **ids})
    _write_json(folder / "generation_config.json", ids)
    _write_json(folder / "tokenizer_config.json", tokenizer_config)
    tokenizer.save(str(folder / "tokenizer.json"))


def _special_ids(header: Header) -> dict[str, Any]:
    """bos, pad and every token that ends a turn, as generation_config.json names them."""
    from .gguf_tokenizer import CONTROL

    tokens = header.require("tokenizer.ggml.tokens")
    kinds = header.get("tokenizer.ggml.token_type", ())
    ends = [header.get(f"tokenizer.ggml.{key}_token_id") for key in ("eos", "eot", "eom")]
    ends += [n for n, kind in enumerate(kinds) if kind == CONTROL and tokens[n] in _TURN_ENDS]
    unique = list(dict.fromkeys(n for n in ends if n is not None))
    found = {
        "bos_token_id": header.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": unique[0] if len(unique) == 1 else unique or None,
        "pad_token_id": header.get("tokenizer.ggml.padding_token_id"),
    }
    return {key: value for key, value in found.items() if value is not None}


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")
