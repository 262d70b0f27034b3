"""Keeps what came of a package whose download was stopped, and fetches the rest of it the next time.

pip begins every file anew and removes what it has when it ends. While it runs, the file that it writes gets a second
name here (a hard link), and its log tells where the file comes from. Nothing depends on this: where the rest can't be
had from there, or does not make the pinned digest, pip fetches the whole.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import urllib.parse
from pathlib import Path

from . import child
from .local import Watch
from .wheel_rest import UNFIT

_FOUND = re.compile(r"^\s*Found link (https?://\S+)", re.MULTILINE)


class WheelPart:
    """What is here of the wheel of `size` bytes that is to become `target`. Call it with the lock of `target` held."""

    def __init__(self, target: Path, size: int) -> None:
        self.path = target.parent / f".{target.name}.part"
        self._address = target.parent / f".{target.name}.part-url"
        self._size = size
        self._linked: int | None = None  # the inode

    def keep(self, scratch: Path, log: Path) -> None:
        """Give the wheel that pip writes below `scratch` its second name, as soon as there is one."""
        for wheel in scratch.glob("pip-*/*.whl"):
            with contextlib.suppress(OSError):  # it went, or this disk has no links: the next download begins anew
                inode = wheel.stat().st_ino
                if inode == self._linked:
                    return
                url = _url(log, wheel.name)
                if not url:
                    return
                self.drop()
                self._address.write_text(url, "utf-8")
                os.link(wheel, self.path)
                self._linked = inode

    def finish(self, scratch: Path, watch: Watch) -> Path | None:
        """The whole wheel, if what is here could be completed. Raises `LoadCancelled`.

        What can't be continued is forgotten; where only the connection failed, it stays for another time.
        """
        try:
            url, begun = self._address.read_text("utf-8"), self.path.stat().st_size
        except (OSError, UnicodeDecodeError):
            url, begun = "", 0
        if not 0 < begun < self._size:
            self.drop()
            return None
        log = scratch / "rest.log"
        command = [sys.executable, "-m", f"{__package__}.wheel_rest", url, str(self.path), str(self._size)]
        name = Path(urllib.parse.urlsplit(url).path).name
        if status := child.run(command, log, lambda: self._tell(watch, name)):
            if status == UNFIT:
                self.drop()
            return None
        whole = scratch / name
        self.path.replace(whole)
        self.drop()
        return whole

    def drop(self) -> None:
        """Forget what is here."""
        self.path.unlink(missing_ok=True)
        self._address.unlink(missing_ok=True)

    def _tell(self, watch: Watch, name: str) -> None:
        watch.tell("download", min(self.path.stat().st_size, self._size), self._size, "bytes", name)


def _url(log: Path, name: str) -> str:
    """Where the wheel called `name` comes from, as pip's log tells; empty where that can't be asked again."""
    for url in _FOUND.findall(log.read_text("utf-8", "replace")):
        plain = url.partition("#")[0]
        if urllib.parse.unquote(plain.rpartition("/")[2]) == name and "****" not in plain:
            return plain
    return ""
