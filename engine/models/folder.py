"""Checks a model folder (config.json, safetensors, tokenizer.json) before anything is loaded from it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from ..errors import ModelError
from .gguf_header import MAGIC
from .hashing import remembered_sha256
from .local import LocalModel, Watch
from .safetensors_file import check_safetensors

CONFIG, TOKENIZER, SINGLE, INDEX = "config.json", "tokenizer.json", "model.safetensors", "model.safetensors.index.json"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_ALWAYS = frozenset(("llama", "mistral", "qwen2", "qwen3"))  # in every transformers that we allow
_KNOWN = ("llama", "mistral", "qwen2", "qwen3", "gemma3", "phi3", "granite", "olmo2", "smollm3", "gpt_oss")


def open_folder(folder: Path, watch: Watch, *, name: str = "", source: str = "") -> LocalModel:
    """Check `folder` and name its content. Raises `ModelError` naming the file at fault and what to do."""
    weights = check_folder(folder)
    check_architecture(folder, watch)
    digest = hashlib.sha256()
    for file in (folder / CONFIG, folder / TOKENIZER, *weights):
        digest.update(f"{file.name}\0{remembered_sha256(file, watch)}\n".encode())
    return LocalModel(
        folder, name or folder.name, digest.hexdigest(), source or str(folder), read_license(folder), "safetensors"
    )


def missing_files(folder: Path) -> list[str]:
    """Names of the files that a complete model folder has and this one has not."""
    missing = [name for name in (CONFIG, TOKENIZER) if not (folder / name).is_file()]
    try:
        missing += [file.name for file in _weight_files(folder) if not file.is_file()]
    except ModelError:
        missing.append(INDEX)
    return missing


def check_folder(folder: Path) -> list[Path]:
    """The weight files of `folder`, each of them complete. Reads headers only."""
    config = read_config(folder)
    if not isinstance(config.get("model_type"), str):
        raise ModelError(f"{folder / CONFIG} has no model_type.", "Take the folder as its maker published it.")
    weights = _weight_files(folder)
    if not weights[0].is_file() and not (folder / INDEX).is_file():
        raise _no_weights(folder)
    names: dict[str, set[str]] = {}
    for file in weights:
        if not file.is_file():
            raise ModelError(f"{folder / INDEX} names the shard {file.name}, which is missing.", "Fetch it again.")
        names[file.name] = check_safetensors(file)
    for tensor, shard in _index(folder).items():
        if tensor not in names[shard]:
            raise ModelError(f"{folder / shard} lacks the tensor {tensor}, which {INDEX} places there.", "Fetch both.")
    if not (folder / TOKENIZER).is_file():
        raise ModelError(
            f"{folder} has no {TOKENIZER}.",
            "Make one: transformers' AutoTokenizer.from_pretrained(folder).save_pretrained(folder).",
        )
    return weights


def check_architecture(folder: Path, watch: Watch) -> None:
    """Raise `ModelError` unless transformers has a text model of this folder's type. May import transformers."""
    config = read_config(folder)
    if config["model_type"] in _ALWAYS:
        return
    watch.tell("import", note="transformers")
    from transformers import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    kind = config["model_type"]
    text = config.get("text_config")
    kinds = {kind, text.get("model_type", kind) if isinstance(text, dict) else kind}
    if kind in CONFIG_MAPPING and (kinds & set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES) or isinstance(text, dict)):
        return
    if kind not in CONFIG_MAPPING and "auto_map" in config:
        raise ModelError(
            f"{folder}: architecture {kind} comes with Python code of its own, which is not run.", "Take another model."
        )
    known = [name for name in _KNOWN if name in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES]
    more = len(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES) - len(known)
    raise ModelError(
        f"{folder}: architecture {kind} is not supported (supported: {', '.join(known)} and {more} more).",
        "Take another model, or a newer transformers.",
    )


def read_config(folder: Path) -> dict[str, Any]:
    """config.json. Raises `ModelError`, with what the folder holds instead where it has none."""
    path = folder / CONFIG
    try:
        config = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise _no_config(folder) from None
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} can't be read: {error}.", "Fetch it again.") from error
    if not isinstance(config, dict):
        raise ModelError(f"{path} is not a JSON object.", "Fetch it again.")
    return config


def read_license(folder: Path) -> str:
    """The licence that the front matter of README.md names, empty where it names none."""
    try:
        with (folder / "README.md").open(encoding="utf-8", errors="replace") as file:
            lines = [line.rstrip("\n") for line, _ in zip(file, range(200), strict=False)]
    except OSError:
        return ""
    if not lines or lines[0] != "---":
        return ""
    for line in lines[1:]:
        if line == "---":
            break
        if line.startswith("license:"):
            return line.removeprefix("license:").strip().strip("\"'")
    return ""


def gguf_files(folder: Path) -> list[Path]:
    """GGUF files in `folder`, by name or by their first bytes."""
    return sorted(file for file in _files(folder) if file.suffix.lower() == ".gguf" or is_gguf(file))


def is_gguf(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return opened.read(4) == MAGIC
    except OSError:
        return False


def _weight_files(folder: Path) -> list[Path]:
    if (folder / INDEX).is_file():
        return [folder / shard for shard in sorted(set(_index(folder).values()))]
    return [folder / SINGLE]


def _index(folder: Path) -> dict[str, str]:
    """Tensor -> shard; empty where the weights are one file."""
    path = folder / INDEX
    if not path.is_file():
        return {}
    try:
        places = json.loads(path.read_text("utf-8"))["weight_map"]
        if places and all(isinstance(shard, str) and Path(shard).name == shard for shard in places.values()):
            return places
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    raise ModelError(f"{path} is broken.", "Fetch it again.")


def _no_config(folder: Path) -> ModelError:
    found = gguf_files(folder)
    if found:
        return ModelError(f"{folder} has no {CONFIG}, but GGUF files.", f"Give one of them: {_listed(found)}.")
    inside = [child for child in sorted(folder.iterdir()) if (child / CONFIG).is_file()] if folder.is_dir() else []
    if inside:
        return ModelError(f"{folder} has no {CONFIG}.", f"There are models inside it: {_listed(inside)}.")
    return ModelError(
        f"{folder} has no {CONFIG}, so it is not a model folder.", "Give the folder that holds the model."
    )


def _no_weights(folder: Path) -> ModelError:
    pickles = [file for file in _files(folder) if file.suffix in _PICKLES]
    if pickles:
        return ModelError(
            f"{folder} has only pickled weights ({_listed(pickles)}), which can run any code and are never opened.",
            "Take the model's safetensors, or save them: AutoModelForCausalLM.from_pretrained(folder)"
            ".save_pretrained(folder).",
        )
    others = [file for file in _files(folder) if file.suffix == ".safetensors"]
    hint = f"There is {_listed(others)}: rename it." if others else "Fetch it again."
    return ModelError(f"{folder} has neither {SINGLE} nor {INDEX}.", hint)


def _files(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.iterdir()) if file.is_file()] if folder.is_dir() else []


def _listed(paths: list[Path]) -> str:
    names = [path.name for path in paths]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
