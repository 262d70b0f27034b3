"""Tells what a user means by a model's name: the default model, something on this machine, or a hub id.

Whatever looks like a path is never looked up on the network: a typing error must not be answered with a login hint.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
from pathlib import Path

from ..errors import ModelError

_HUB = re.compile(
    r"(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(@(?P<revision>[\w./-]+?))?(:(?P<file>[^:\\]+\.gguf))?"
)
_SUFFIXES = (".gguf", ".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".json")


@dataclasses.dataclass(frozen=True, slots=True)
class HubId:
    """A model on the hub; `file` names one GGUF file in it, empty for the safetensors."""

    repo: str
    revision: str = "main"
    file: str = ""

    def __str__(self) -> str:
        revision = "" if self.revision == "main" else f"@{self.revision}"
        return f"{self.repo}{revision}{f':{self.file}' if self.file else ''}"

    @property
    def name(self) -> str:
        return Path(self.file).stem if self.file else self.repo.split("/")[1]


def read_spec(spec: str) -> Path | HubId:
    """What a non-empty `spec` means: an existing path, made absolute, or a hub id.

    Raises `ModelError` with near names for something that looks like a path and does not exist. No network.
    """
    if not spec.strip() or "\0" in spec:
        raise ModelError("the model's name is blank.", "Give a folder, a GGUF file or a hub id, or nothing at all.")
    path = Path(os.path.abspath(os.path.expanduser(spec)))  # noqa: PTH100, PTH111  (neither may touch the disk)
    if path.exists():
        return path
    match = _HUB.fullmatch(spec)
    if match and not _looks_like_path(spec, match["file"] is not None, path):
        return HubId(match["repo"], match["revision"] or "main", match["file"] or "")
    raise no_such(path, hub="/" not in spec and os.sep not in spec)


def _looks_like_path(spec: str, names_file: bool, path: Path) -> bool:
    if spec.startswith((".", "~", os.sep)) or "\\" in spec:
        return True
    if spec.lower().endswith(_SUFFIXES) and not names_file:
        return True
    # `models/tinyy` beside `models/tiny` is a typing error, not a hub id.
    return bool(near_names(path))


def no_such(path: Path, *, hub: bool = False) -> ModelError:
    """The error for a path that is not there, with what is near it."""
    found = near_names(path) or _near_in_near_folder(path)
    if found:
        return ModelError(f"no such file: {path}.", f"Near it: {', '.join(found)}.")
    hint = "A hub id has the form org/name." if hub else "Check the spelling, or list what is here: cutaway models."
    return ModelError(f"no such file: {path}.", hint)


def near_names(path: Path) -> list[str]:
    """Up to three names in the folder of `path` that are spelled much like it, as full paths."""
    return [str(path.parent / name) for name in _near(path.name, path.parent)]


def _near_in_near_folder(path: Path) -> list[str]:
    """The same one folder up: for `modles/x.gguf`, what `models` has that is like `x.gguf`."""
    if path.parent.exists():
        return []
    folders = [path.parent.parent / name for name in _near(path.parent.name, path.parent.parent)]
    inside = [str(folder / name) for folder in folders for name in _near(path.name, folder)]
    return (inside or [str(folder) for folder in folders])[:3]


def _near(name: str, folder: Path) -> list[str]:
    try:
        names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError:
        return []
    lowered = {entry.lower(): entry for entry in reversed(names)}
    return [lowered[match] for match in difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.7)]
