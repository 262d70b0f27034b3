"""The process that talks to the hub: `python -m cutaway.engine.models.hub_child REQUEST`, JSON in, JSON lines out.

REQUEST: `repo`, `revision`, `file` (empty: the safetensors), `cache` (a folder). Lines, each a JSON object: first
`files` and `total` (bytes still to come), then `folder`; or, at any point, `error` (a word) and `message`.
"""

from __future__ import annotations

import errno
import json
import sys
from pathlib import Path
from typing import Any

_TEXTS = {
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "chat_template.json",
    "README.md",
    "LICENSE",
}


class NothingUsable(Exception):
    """The repository has no weights that could be read."""


def choose(files: list[str], file: str) -> list[str]:
    """Which of a repository's files a model needs: safetensors before GGUF, and of GGUF files only one.

    Raises `NothingUsable` with the reason.
    """
    if file:
        if file in files:
            return [file]
        raise NothingUsable(f"it has no file {file}; its GGUF files: {_listed(_ggufs(files)) or 'none'}")
    weights = [name for name in files if name.endswith(".safetensors") and "/" not in name]
    if "model.safetensors.index.json" in files:
        weights = [name for name in weights if name.startswith("model-")] + ["model.safetensors.index.json"]
    elif "model.safetensors" in weights:
        weights = ["model.safetensors"]
    else:
        weights = []
    if weights:
        return sorted({*weights, *(name for name in files if name in _TEXTS)})
    ggufs = _ggufs(files)
    if len(ggufs) == 1:
        return ggufs
    if ggufs:
        raise NothingUsable(f"it has several GGUF files; add one to the id after a colon: {_listed(ggufs)}")
    if any(name.endswith((".bin", ".pt", ".pth")) for name in files):
        raise NothingUsable("it has only pickled weights, which can run any code and are never opened")
    raise NothingUsable("it has neither safetensors nor GGUF files")


def fetch(request: dict[str, str]) -> dict[str, Any]:
    """Fetch the files of a request into the hub's cache."""
    from huggingface_hub import HfApi, snapshot_download, try_to_load_from_cache

    repo, revision, cache = request["repo"], request["revision"], request["cache"]
    info = HfApi().model_info(repo, revision=revision, files_metadata=True)
    sizes = {entry.rfilename: entry.size or 0 for entry in info.siblings or ()}
    wanted = choose(list(sizes), request["file"])
    there = {n for n in wanted if isinstance(try_to_load_from_cache(repo, n, cache, info.sha), str)}
    say(files=wanted, total=sum(sizes[name] for name in wanted if name not in there))
    patterns = [name.replace("[", "[[]") for name in wanted]
    folder = snapshot_download(repo, revision=revision, cache_dir=cache, allow_patterns=patterns)
    return {"folder": folder}


def classify(error: Exception) -> str:
    """One word for what went wrong."""
    from huggingface_hub import errors

    if isinstance(error, NothingUsable):
        return "unusable"
    if isinstance(error, errors.GatedRepoError):
        return "gated"
    if isinstance(error, errors.RepositoryNotFoundError):
        return "missing"
    if isinstance(error, errors.RevisionNotFoundError):
        return "revision"
    status = getattr(getattr(error, "response", None), "status_code", 0)
    if status in (401, 403):
        return "gated"
    if status:
        return "server"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "full"
    if isinstance(error, OSError) and error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return "read-only"
    return "network"


def say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def main(arguments: list[str]) -> int:
    try:
        say(**fetch(json.loads(arguments[0])))
    except Exception as error:
        message = str(error).strip().splitlines()
        say(error=classify(error), message=message[0] if message else type(error).__name__)
        return 1
    return 0


def _ggufs(files: list[str]) -> list[str]:
    return sorted(name for name in files if name.endswith(".gguf") and "mmproj" not in Path(name).name)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
