"""Where things are kept: one folder each for config, data, cache and state.

platformdirs knows each system's convention; `CUTAWAY_CACHE_DIR` and its siblings override it. As the XDG Base
Directory Specification (0.8) asks, an `XDG_*` value that is empty or relative counts as unset.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Literal

import platformdirs

from .errors import CutawayError

Kind = Literal["cache", "config", "data", "state"]

_UNIX = {"cache": ".cache", "config": ".config", "data": ".local/share", "state": ".local/state"}


def named(text: str) -> Path:
    """The path that a person wrote: ~ is the home folder, and the ~ of somebody who is not known stays."""
    return Path(os.path.expanduser(text))  # noqa: PTH111 - pathlib's raises for whom it does not know


def folder(kind: Kind) -> Path:
    """Absolute path of one of cutaway's folders. It need not exist yet.

    Raises `CutawayError` when there is neither a home folder nor an override.
    """
    override = os.environ.get(variable(kind), "").strip()
    try:
        if override:
            return Path(override).expanduser().absolute()  # a folder called ~somebody here is never what was meant
        found = Path(getattr(platformdirs, f"user_{kind}_path")("cutaway", appauthor=False))
        # platformdirs takes a relative XDG value as it is.
        return found if found.is_absolute() else Path.home() / _UNIX[kind] / "cutaway"
    except RuntimeError:
        raise CutawayError(
            f"there is no home folder to keep the {kind} in.", f"Set {variable(kind)} to a folder."
        ) from None


def variable(kind: Kind) -> str:
    """Name of the environment variable that overrides `folder(kind)`."""
    return f"CUTAWAY_{kind.upper()}_DIR"


def cache() -> Path:
    """Models, conversions, compiled steps: anything that can be made again."""
    return folder("cache")


def config() -> Path:
    """The settings file, themes and templates of the user."""
    return folder("config")


def data() -> Path:
    """Chats."""
    return folder("data")


def state() -> Path:
    """Logs and traces."""
    return folder("state")


def put(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, for nobody else to read; makes its folder. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # of mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
