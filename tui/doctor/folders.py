"""Where things are kept: whether they can be, and how much room there is."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

from ...engine import places
from ...engine.errors import CutawayError
from ...engine.models import hub
from ...engine.models.storage import size
from ..store import opening
from .findings import Finding

GROUP = "folders"
KINDS: dict[places.Kind, str] = {
    "config": "settings, themes",
    "data": "chats",
    "cache": "models, compiled kernels",
    "state": "logs, traces",
}
LITTLE = 500_000_000  # bytes; the default model takes more


def look() -> list[Finding]:
    """Each of our folders, the hub's cache, and the chats' file."""
    found = [_ours(kind) for kind in KINDS]
    found.append(_folder("hub cache", hub.cache_folder(), "models of the hub", "HF_HOME"))
    return [*found, *_chats()]


def _ours(kind: places.Kind) -> Finding:
    try:
        return _folder(kind, places.folder(kind), KINDS[kind], places.variable(kind))
    except CutawayError as error:
        return Finding(GROUP, kind, error.message, "wrong", error.action)


def _folder(name: str, folder: Path, what: str, variable: str) -> Finding:
    """Whether something can be written there: tried, since permissions do not tell all."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    value = f"{folder} ({what})"
    problem = _unwritable(there)
    if problem:
        action = f"Make {there} writable, or set {variable} to a folder that is."
        return Finding(GROUP, name, f"{value}: {problem}", "wrong", action)
    value += "" if folder.exists() else ", not made yet"
    free = shutil.disk_usage(there).free
    value += f", {size(free)} free"
    if free < LITTLE:
        return Finding(GROUP, name, value, "note", f"Free some space, or set {variable} to another disk.")
    mode = stat.S_IMODE(folder.stat().st_mode) if folder.exists() else 0
    if name == "data" and mode & (stat.S_IROTH | stat.S_IWOTH) and not _walled(folder):
        return Finding(
            GROUP, name, f"{value}, readable by others", "note", f"Keep your chats to yourself: chmod 700 {folder}."
        )
    return Finding(GROUP, name, value)


def _walled(folder: Path) -> bool:
    """Whether a folder above keeps others out."""
    return any(not stat.S_IMODE(above.stat().st_mode) & stat.S_IXOTH for above in folder.parents)


def _unwritable(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} is no folder"
    try:
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return os.strerror(error.errno) if error.errno else str(error)


def _chats() -> list[Finding]:
    try:
        file = opening.path()
        if not file.exists():
            return []
        taken = file.stat().st_size
    except (OSError, CutawayError):
        return []
    if file.with_suffix(".damaged").exists():
        action = "Start cutaway once: it keeps the damaged file aside and rescues what there is."
        return [Finding(GROUP, "chats", f"{file}: damage was met in it", "wrong", action)]
    return [Finding(GROUP, "chats", f"{size(taken)} in {file.name}")]
