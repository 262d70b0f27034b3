"""The last benchmark of each kind, kept in the state directory to compare the next one with."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from ...engine import places
from .measures import FORMAT, Report


def folder() -> Path:
    """Where they are kept."""
    return places.state() / "bench"


def path(report: Report, engine: str) -> Path:
    """The file of the runs that `report` can be compared with: same model, precision, device, sizes and engine.

    Kernels, threads and versions may differ: what they change is what a comparison is for.
    """
    parts = (report.identity or report.model, report.precision, report.device, report.prompt_tokens,
             report.new_tokens, engine)  # fmt: skip
    return folder() / f"{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}.json"


def load(file: Path) -> Report | None:
    """The run kept in `file`; None where there is none, or none that this version can read."""
    try:
        report = msgspec.json.decode(file.read_bytes(), type=Report)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return report if report.format == FORMAT else None


def save(report: Report, file: Path) -> None:
    """Put `report` in its place in one step: readers find the old one or the new one. Raises `OSError`."""
    places.put(file, msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
