"""The process that talks to the hub: `python -m cutaway.engine.models.hub_child REQUEST`, JSON in, JSON lines out.

REQUEST: `repo`, `revision`, `file` (empty: the safetensors), `cache` (a folder). Lines, each a JSON object: first
`files` and `total` (bytes still to come), `verify` when all came, then `folder`; or, at any point, `error` (a word) and
`message`.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

from . import hub_part

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


class Damaged(Exception):
    """What came is not what the hub says it has."""


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
    repo_folder = Path(cache) / f"models--{repo.replace('/', '--')}"
    missing = [name for name in wanted if name not in there]
    say(files=wanted, total=max(0, sum(sizes[name] for name in missing) - hub_part.here(repo_folder)))
    for name in missing:
        if sizes[name] >= hub_part.LARGE and info.sha:
            hub_part.fetch(repo, name, info.sha, repo_folder)
    patterns = [name.replace("[", "[[]") for name in wanted]
    folder = snapshot_download(repo, revision=revision, cache_dir=cache, allow_patterns=patterns)
    say(verify=True)
    for name in missing:
        check(Path(folder) / name)
    return {"folder": folder}


def check(file: Path) -> None:
    """Compare a file that came with the digest that the hub gave it; what differs is removed, so that it comes again.

    The hub's cache names content by its digest: sha256 for large files, git's sha1 for small ones. Raises `Damaged`.
    """
    blob = file.resolve()
    if not re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", blob.name):
        return
    digest = hashlib.sha256() if len(blob.name) == 64 else hashlib.sha1(f"blob {blob.stat().st_size}\0".encode())
    with blob.open("rb") as content:
        while chunk := content.read(1 << 22):
            digest.update(chunk)
    if digest.hexdigest() != blob.name:
        file.unlink()
        blob.unlink(missing_ok=True)
        raise Damaged(f"{file.name} came with another content than the hub says")


def classify(error: Exception) -> str:
    """One word for what went wrong."""
    from huggingface_hub import errors

    if isinstance(error, NothingUsable):
        return "unusable"
    if isinstance(error, Damaged):
        return "damaged"
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
