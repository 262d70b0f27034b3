"""sha256 of files, remembered by path, size and time of change, so that a big file is read for it only once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from pathlib import Path

from .. import places
from .local import Watch

_CHUNK = 1 << 22


def sha256(path: Path, watch: Watch) -> str:
    """Hex digest of the file's content. Told as stage "verify", in bytes."""
    digest = hashlib.sha256()
    total, done = path.stat().st_size, 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            done += len(chunk)
            watch.tell("verify", done, total, "bytes", path.name)
    return digest.hexdigest()


def remembered_sha256(path: Path, watch: Watch) -> str:
    """Like `sha256`, but read from the index where the file has not changed since.

    A file in the hub's cache has its digest for a name; that one is believed.
    """
    real = path.resolve()
    if real.parent.name == "blobs" and re.fullmatch("[0-9a-f]{64}", real.name):
        return real.name
    status = path.stat()
    key = f"{real}:{status.st_size}:{status.st_mtime_ns}"
    known = _index()
    if key not in known:
        digest = sha256(path, watch)
        _store(path, key, digest)
        return digest
    return known[key]


def _file() -> Path:
    return places.cache() / "hashes.json"


def _index() -> dict[str, str]:
    try:
        found = json.loads(_file().read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _store(path: Path, key: str, digest: str) -> None:
    """Add one entry, dropping older ones of the same path. A lost race or an unwritable cache only costs time."""
    kept = {k: v for k, v in _index().items() if k.rsplit(":", 2)[0] != str(path.resolve())}
    kept[key] = digest
    with contextlib.suppress(OSError):
        _file().parent.mkdir(parents=True, exist_ok=True)  # not for its owner alone, as `put` would make it
        places.put(_file(), json.dumps(kept).encode())
