"""Reads the small files beside a model that say what its tokens mean: special tokens, end tokens, chat template."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from .errors import ModelError

# The named special tokens, as transformers hands them to templates (SPECIAL_TOKENS_ATTRIBUTES).
NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


@dataclasses.dataclass(frozen=True, slots=True)
class TokenizerFiles:
    """What a model folder says about its tokens, read but not yet checked against the vocabulary."""

    named: dict[str, str]  # bos_token … to its text
    extra: tuple[str, ...]  # further special tokens
    added: dict[int, dict[str, Any]]  # tokenizer_config's added_tokens_decoder
    templates: dict[str, str]  # by name; "default" is the one for chats
    end_ids: tuple[int, ...]  # of generation_config.json and config.json
    adds_bos: bool | None  # None: the tokenizer's post-processor decides


def read_tokenizer_files(folder: Path) -> TokenizerFiles:
    """Read what is there; missing files are taken as empty. Raises `ModelError` for broken ones."""
    config = read_json(folder / "tokenizer_config.json")
    legacy = read_json(folder / "special_tokens_map.json")
    named = {key: text for key in NAMED if (text := _text(config.get(key, legacy.get(key)))) is not None}
    extra = config.get("additional_special_tokens") or config.get("extra_special_tokens") or ()
    extra = extra.values() if isinstance(extra, dict) else extra
    added = config.get("added_tokens_decoder") or {}
    model = read_json(folder / "config.json")
    ends = [read_json(folder / "generation_config.json").get("eos_token_id"), model.get("eos_token_id")]
    ends.append((model.get("text_config") or {}).get("eos_token_id"))
    return TokenizerFiles(
        named=named,
        extra=tuple(text for item in extra if (text := _text(item)) is not None),
        added={int(number): entry for number, entry in added.items()},
        templates=_templates(folder, config.get("chat_template")),
        end_ids=tuple(dict.fromkeys(number for value in ends for number in _ids(value))),
        adds_bos=config.get("add_bos_token"),
    )


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file, empty if there is no such file. Raises `ModelError` if it is none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} can't be read: {error}.", "Fetch the model again.") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path} does not hold a JSON object.", "Fetch the model again.")
    return value


def _templates(folder: Path, configured: Any) -> dict[str, str]:
    """Templates by name. Files beside the config win over the config, as in transformers."""
    if isinstance(configured, str):
        templates = {"default": configured}
    else:
        templates = {entry["name"]: entry["template"] for entry in configured or ()}
    files = {path.stem: path for path in sorted((folder / "additional_chat_templates").glob("*.jinja"))}
    if (folder / "chat_template.jinja").is_file():
        files["default"] = folder / "chat_template.jinja"
    if files:
        templates = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    if not templates and isinstance(packed := read_json(folder / "chat_template.json").get("chat_template"), str):
        templates = {"default": packed}
    return templates


def _text(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _ids(value: Any) -> list[int]:
    if isinstance(value, list):
        return [number for number in value if isinstance(number, int)]
    return [value] if isinstance(value, int) else []
