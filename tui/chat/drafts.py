"""What was typed and not sent survives a crash: one small file a running program, in the state folder. No Textual."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from ...engine import places

HISTORY_LIMIT = 500  # prompts kept
HISTORY_BYTES = 4_000_000  # of the history file at most: the oldest prompts go first


class Drafts:
    """Keeps this program's draft, and finds the one a program that is gone has left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / f"draft-{os.getpid()}.txt"
        self._kept = ""

    def keep(self, text: str) -> None:
        """Write the draft, or remove it when it is empty. A full or read-only disk must not disturb typing."""
        if text == self._kept:
            return
        with contextlib.suppress(OSError):
            if text.strip():
                places.put(self.path, text.encode("utf-8", "surrogatepass"))
            else:
                self.path.unlink(missing_ok=True)
            self._kept = text

    def left_behind(self) -> str:
        """Take over the newest draft of a program that no longer runs; empty if there is none."""
        found: list[tuple[float, Path]] = []
        with contextlib.suppress(OSError):
            for path in self.folder.glob("draft-*.txt"):
                number = path.stem.removeprefix("draft-")
                if number.isdecimal() and path != self.path and not _runs(int(number)):
                    found.append((path.stat().st_mtime, path))
        for _, path in sorted(found, reverse=True):
            with contextlib.suppress(OSError, UnicodeError):
                text = path.read_text(encoding="utf-8", errors="surrogatepass")
                path.unlink()
                return text
        return ""


def _runs(pid: int) -> bool:
    import psutil

    return psutil.pid_exists(pid)


class History:
    """The prompts that were sent, oldest first, kept between runs where a path is given."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.entries: list[str] = []
        self._at = 0
        self._draft = ""
        if path is not None:
            self._read(path)
        self._at = len(self.entries)

    def _read(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            if path.stat().st_size > HISTORY_BYTES:
                return
            for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
                with contextlib.suppress(json.JSONDecodeError):
                    if line and isinstance(entry := json.loads(line), str):
                        self.entries.append(entry)
            del self.entries[:-HISTORY_LIMIT]

    def add(self, text: str) -> None:
        """Remember a prompt that was sent."""
        if not self.entries or self.entries[-1] != text:
            self.entries.append(text)
            del self.entries[:-HISTORY_LIMIT]
            self._write()
        self._at = len(self.entries)

    def _write(self) -> None:
        if self.path is None:
            return
        with contextlib.suppress(OSError):
            lines = [json.dumps(entry).encode() + b"\n" for entry in self.entries]
            while sum(map(len, lines)) > HISTORY_BYTES:
                del lines[0]
            places.put(self.path, b"".join(lines))

    def older(self, current: str) -> str | None:
        """The prompt before; `current` is kept for coming back. None: there is none."""
        if self._at == 0:
            return None
        if self._at == len(self.entries):
            self._draft = current
        self._at -= 1
        return self.entries[self._at]

    def newer(self) -> str | None:
        """The prompt after, at the end what was being typed. None: there is none."""
        if self._at >= len(self.entries):
            return None
        self._at += 1
        return self._draft if self._at == len(self.entries) else self.entries[self._at]
