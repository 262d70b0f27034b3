"""Models on the Hugging Face hub: what the hub's own cache has, and how the rest gets there.

What is in the cache is used as it is, without a connection; `fetch` asks the hub again.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from pathlib import Path

from ..errors import DownloadError, ModelError
from . import child
from .folder import CONFIG, gguf_files, missing_files
from .local import Watch
from .spec import HubId
from .storage import need_room, size, storing

_TRUE = {"1", "ON", "YES", "TRUE"}
_ERRNO = re.compile(r"^\[Errno -?\d+\] ")


def offline_switch(offline: bool) -> str:
    """The switch that forbids connections, as the user knows it; empty when none is set."""
    if offline:
        return "--offline"
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        if os.environ.get(name, "").upper() in _TRUE:
            return f"{name}={os.environ[name]}"
    return ""


def cache_folder() -> Path:
    """The hub's cache, where huggingface_hub looks for it (HF_HUB_CACHE, HF_HOME)."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def repo_folder(model: HubId) -> Path:
    return cache_folder() / f"models--{model.repo.replace('/', '--')}"


def snapshot(model: HubId) -> Path | None:
    """The cached snapshot of the model's revision, complete or not. No network."""
    repo = repo_folder(model)
    try:
        commit = (repo / "refs" / model.revision).read_text("utf-8").strip()
    except OSError:
        commit = model.revision
    folder = repo / "snapshots" / commit
    return folder if folder.is_dir() else None


def cached(model: HubId) -> Path | None:
    """The model in the hub's cache, if all of it is there: a safetensors folder, or a GGUF file. No network."""
    folder = snapshot(model)
    if folder is None:
        return None
    if model.file:
        return folder / model.file if (folder / model.file).is_file() else None
    if not missing_files(folder):
        return folder
    only = gguf_files(folder)
    return only[0] if len(only) == 1 and not (folder / CONFIG).exists() else None


def missing(model: HubId) -> str:
    """What the cache lacks of the model, in words."""
    if model.file:
        return model.file
    folder = snapshot(model)
    return ", ".join(missing_files(folder) if folder else ["config.json", "tokenizer.json", "model.safetensors"])


def fetch(model: HubId, watch: Watch) -> None:
    """Bring the model into the hub's cache, or up to date there.

    Raises `DownloadError` saying what to do, `ModelError` for a full or read-only disk, `LoadCancelled`. What came
    before a cancel is kept, and the next try goes on from there.
    """
    cache = cache_folder()
    request = {"repo": model.repo, "revision": model.revision, "file": model.file, "cache": str(cache)}
    command = [sys.executable, "-m", "cutaway.engine.models.hub_child", json.dumps(request)]
    watch.tell("find", note=f"asking the hub for {model.repo}")
    with storing(cache, 0, str(model)), tempfile.TemporaryDirectory(prefix="cutaway-") as scratch:
        cache.mkdir(parents=True, exist_ok=True)
        log = Path(scratch) / "hub.log"
        child.run(command, log, _Download(model, log, watch))
        told, last = _lines(log), log.read_text("utf-8", "replace").strip().rpartition("\n")[2]
    error = next((line for line in told if "error" in line), None)
    if error:
        raise _error(model, error["error"], error["message"], sum(line.get("total", 0) for line in told))
    if not any("folder" in line for line in told):
        raise DownloadError(f"{model}: the download ended early: {last or 'without a word'}.", "Try again.")


class _Download:
    """Ten times a second: the plan as soon as the child tells it, then what has come."""

    def __init__(self, model: HubId, log: Path, watch: Watch) -> None:
        self.model, self.log, self.watch = model, log, watch
        self.tell = None

    def __call__(self) -> None:
        if self.tell is None:
            total = next((line["total"] for line in _lines(self.log) if "total" in line), None)
            if total is None:
                self.watch.check()
                return
            need_room(cache_folder(), total, str(self.model))
            self.tell = child.growth(repo_folder(self.model), total, str(self.model), self.watch)
        if any("verify" in line for line in _lines(self.log)):
            self.watch.tell("verify", note=str(self.model))
        else:
            self.tell()


def _lines(log: Path) -> list[dict]:
    """The JSON lines among what the child wrote; libraries write beside them."""
    found = []
    for line in log.read_text("utf-8", "replace").splitlines():
        if line.startswith("{"):
            try:
                found.append(json.loads(line))
            except ValueError:
                continue  # not finished yet
    return found


def _error(model: HubId, kind: str, message: str, total: int) -> ModelError:
    told = _ERRNO.sub("", message).rstrip(".")
    token = "log in once with `hf auth login`, or set HF_TOKEN."
    texts = {
        "gated": (
            f"{model.repo} is only for those whom its makers let in.",
            f"Ask for access on its page on the hub, then {token}",
        ),
        "missing": (
            f"the hub has no model {model.repo}, or it is private.",
            f"Check the spelling; for a private one {token}",
        ),
        "revision": (f"{model.repo} has no revision {model.revision}.", "Check the spelling."),
        "unusable": (f"{model.repo} can't be used: {message}.", ""),
        "server": (f"the hub refused {model.repo}: {told}.", "Try again later."),
        "network": (
            f"the hub can't be reached for {model.repo}: {told}.",
            "Check the connection, set HF_ENDPOINT to a mirror, or give a model on this machine.",
        ),
        "damaged": (
            f"{model.repo}: {message}, so it was removed.",
            "Fetch it again; if it comes so again, check HF_ENDPOINT and what is between here and the hub.",
        ),
        "full": (
            f"no room for {model}: it needs {size(total)} in {cache_folder()}, and the disk is full.",
            "Free some space, or set HF_HOME to another disk.",
        ),
        "read-only": (f"{cache_folder()} can't be written: {told}.", "Make it writable, or set HF_HOME."),
    }
    text, action = texts.get(kind, (f"{model.repo}: {message}", ""))
    return DownloadError(text, action)
