"""The reader's progress on disk: one JSON file in the state folder, replaced as a whole."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from ...engine import places
from .progress import Kept

NAME = "tour.json"


class ProgressFile:
    """Reads and writes the progress; without a folder nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self.path = folder / NAME if folder is not None else None
        self.problem = ""  # why it is not kept

    def read(self) -> Kept | None:
        """What was kept, if anything. A file that can't be understood is put aside, and `problem` says so."""
        if self.path is None:
            return None
        try:
            kept = msgspec.json.decode(self.path.read_bytes(), type=Kept)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.problem = f"{self.path} can't be read: {error.strerror}. The tour begins anew."
            return None
        except msgspec.MsgspecError:
            kept = None
        if kept is None or kept.version != 1:
            aside = self.path.with_suffix(".unreadable.json")
            with contextlib.suppress(OSError):
                self.path.replace(aside)
            self.problem = f"The tour's progress could not be understood and is put aside as {aside.name}."
            return None
        return kept

    def write(self, kept: Kept) -> None:
        """Replace what was kept. A disk that is full costs the progress, not the tour: see `problem`."""
        if self.path is None:
            return
        try:
            places.put(self.path, msgspec.json.format(msgspec.json.encode(kept)))
            self.problem = ""
        except OSError as error:
            self.problem = f"The tour's progress is not being kept: {self.path} ({error.strerror})."
