"""The models on this machine: what `cutaway models` lists, fetches, shows and removes. No torch, and no network but
in `pull`."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from .. import places
from ..errors import ModelError
from . import default, hub
from .child import bytes_below
from .convert import converted_folder, find_converted, read_note
from .folder import CONFIG, gguf_files, is_gguf, missing_files, read_license
from .hashing import remembered_sha256
from .local import LocalModel, Progress, Watch
from .locate import resolve
from .spec import HubId, read_spec
from .storage import storing


@dataclasses.dataclass(frozen=True)
class CachedModel:
    """One model that is kept on this machine. `spec` is what to give as `--model`, `size` counts bytes on disk."""

    name: str
    spec: str
    folder: Path
    size: int
    source: str
    license: str
    format: Literal["safetensors", "gguf"]
    complete: bool = True
    file: Path | None = None  # the GGUF file, where it is one of the hub's


def list_cached() -> list[CachedModel]:
    """Every model in cutaway's cache and in the hub's, by name."""
    found = [*_converted(), *_hub()]
    return sorted(found, key=lambda model: (model.name.lower(), model.spec))


def path(spec: str) -> Path:
    """Where the model that `spec` means is kept: the folder that is loaded. No network.

    Raises `ModelError` when it is not on this machine, or not converted yet.
    """
    if not spec or spec.lower() == default.DEFAULT.name.lower():
        found = default.find_default(default.DEFAULT)
        if found:
            return found.folder
        there = hub.cached(HubId(default.DEFAULT.hub))
        if there:
            return there
        raise ModelError("the default model is not on this machine.", "Fetch it: cutaway models pull.")
    meant = read_spec(spec)
    place = hub.cached(meant) if isinstance(meant, HubId) else meant
    if place is None:
        raise ModelError(f"{spec} is not on this machine.", f"Fetch it: cutaway models pull {spec}.")
    if place.is_file() and is_gguf(place):
        converted = find_converted(remembered_sha256(place, Watch()))
        if converted is None:
            raise ModelError(f"{place} is not converted yet.", f"Convert it: cutaway models pull {spec}.")
        return converted.folder
    return place


def pull(
    spec: str,
    *,
    progress: Progress = lambda _: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> LocalModel:
    """Fetch and convert the model that `spec` means; a hub model that is here is brought up to date.

    Raises what `resolve` raises.
    """
    meant = read_spec(spec) if spec and spec.lower() != default.DEFAULT.name.lower() else None
    if isinstance(meant, HubId) and not hub.offline_switch(False):
        hub.fetch(meant, Watch(progress, cancelled))
    return resolve(spec, progress=progress, cancelled=cancelled)


def remove(spec: str) -> int:
    """Remove what is kept of the model that `spec` means; returns the bytes freed.

    Of a folder or GGUF file of the user's own only the conversion goes. Raises `ModelError` when nothing is kept.
    """
    doomed = [place for place in _kept(spec) if place.exists()]
    if not doomed:
        raise ModelError(f"nothing of {spec or 'the default model'} is kept.", "See what is: cutaway models.")
    freed = 0
    for place in doomed:
        freed += _size(place)
        with storing(place.parent, 0, f"{place.name}'s removal"):
            shutil.rmtree(place) if place.is_dir() else place.unlink()
    return freed


def _kept(spec: str) -> Iterator[Path]:
    if not spec or spec.lower() == default.DEFAULT.name.lower():
        yield from (converted_folder(default.DEFAULT.sha256), default.DEFAULT.file)
        return
    meant = read_spec(spec)
    if isinstance(meant, HubId):
        folder = hub.snapshot(meant)
        for file in gguf_files(folder) if folder else ():
            yield converted_folder(remembered_sha256(file, Watch()))
        yield hub.repo_folder(meant)
    elif meant.is_file():
        yield converted_folder(remembered_sha256(meant, Watch()))
    elif meant.is_relative_to(places.cache() / "converted"):
        yield meant


def _converted() -> Iterator[CachedModel]:
    for folder in _folders(places.cache() / "converted"):
        note = read_note(folder)
        if "sha256" not in note:
            continue
        is_default = note["sha256"] == default.DEFAULT.sha256
        spec = default.DEFAULT.name if is_default else str(note["file"])
        if not is_default and not Path(spec).exists():
            spec = str(folder)
        size = _size(folder) + (_size(default.DEFAULT.file) if is_default else 0)
        whole = find_converted(note["sha256"]) is not None
        yield CachedModel(note["name"], spec, folder, size, note["source"], note["license"], "gguf", whole)


def _hub() -> Iterator[CachedModel]:
    for repo in _folders(hub.cache_folder()):
        kind, _, rest = repo.name.partition("--")
        owner, _, name = rest.partition("--")
        if kind != "models" or not name:
            continue
        for revision in (file.name for file in _entries(repo / "refs") if file.is_file()):
            model = HubId(f"{owner}/{name}", revision)
            folder = hub.snapshot(model)
            if folder is None:
                continue
            if (folder / CONFIG).exists() and any(folder.glob("*.safetensors")):
                source, license = f"hub {model}", read_license(folder)
                whole = not missing_files(folder)
                yield CachedModel(name, str(model), folder, _size(repo), source, license, "safetensors", whole)
                continue
            for file in gguf_files(folder):
                one = HubId(model.repo, revision, file.name)
                yield CachedModel(
                    one.name,
                    str(one),
                    folder,
                    file.stat().st_size,
                    f"hub {one}",
                    read_license(folder),
                    "gguf",
                    True,
                    file,
                )


def _folders(parent: Path) -> list[Path]:
    return [entry for entry in _entries(parent) if entry.is_dir() and not entry.name.startswith(".")]


def _entries(parent: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return sorted(parent.iterdir())
    return []


def _size(place: Path) -> int:
    if place.is_dir():
        return bytes_below(place)
    return place.stat().st_size if place.exists() else 0
