"""Writing into the cache so that nothing half-written is ever found there.

Everything is made in a temporary folder beside its place and moved there in one step, under a lock, so that two
programs that want the same thing both get it.
"""

from __future__ import annotations

import contextlib
import errno
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import filelock

from .. import places
from ..errors import ModelError
from .local import Watch

_FULL = {errno.ENOSPC, errno.EDQUOT}
_FULL_FILE = errno.EFBIG  # FAT has no room for files of 4 GiB
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST}


@contextlib.contextmanager
def locked(target: Path, watch: Watch) -> Iterator[None]:
    """Hold the lock of `target`, waiting while another program holds it. Raises `LoadCancelled` while waiting."""
    target.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(target.parent / f".{target.name}.lock")
    while True:
        try:
            lock.acquire(timeout=0.2)
            break
        except filelock.Timeout:
            watch.tell("find", note=f"another program is making {target.name}")
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def temporary_folder(target: Path) -> Iterator[Path]:
    """A folder beside `target`, gone at the end whatever happens. Left-overs of killed programs go first.

    Call it with the lock of `target` held: then whatever has its prefix is nobody's.
    """
    prefix = f".{target.name}.new-"
    for leftover in target.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def put(made: Path, target: Path) -> None:
    """Move the finished `made` to `target`, replacing what is there. Call it with the lock of `target` held."""
    if target.is_dir():  # a folder can't replace one that is not empty
        target.rename(made.parent / "replaced")
    made.replace(target)


def need_room(where: Path, needed: int, what: str) -> None:
    """Raise `ModelError` with both numbers unless `needed` bytes are free at `where` (an existing folder)."""
    free = shutil.disk_usage(where).free
    if free < needed:
        raise _full(where, needed, what, free)


@contextlib.contextmanager
def storing(where: Path, needed: int, what: str) -> Iterator[None]:
    """Turn a full disk or a read-only folder, met while storing `what` (`needed` bytes), into a `ModelError`."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise _full(where, needed, what) from error
        if error.errno == _FULL_FILE:
            raise ModelError(
                f"{where} is on a disk that takes no files as large as {what} ({size(needed)}).",
                f"Set {places.variable('cache')} to a folder on another disk.",
            ) from error
        if error.errno in _READ_ONLY:
            raise ModelError(
                f"{what} can't be stored: {error.filename or where} can't be written ({error.strerror}).",
                f"Make {where} writable, or set {places.variable('cache')} to a folder that is.",
            ) from error
        raise


def _full(where: Path, needed: int, what: str, free: int | None = None) -> ModelError:
    has = "the disk is full" if free is None else f"{size(free)} are free"
    return ModelError(
        f"no room for {what}: it needs {size(needed)} in {where}, and {has}.",
        f"Free some space, remove a model (cutaway models remove), or set {places.variable('cache')} to another disk.",
    )


def size(count: int) -> str:
    """Bytes for people: 98.4 MB."""
    if count < 1000:
        return f"{count} bytes"
    value, units = count / 1000, ["kB", "MB", "GB", "TB"]
    while value >= 1000 and len(units) > 1:
        value, _ = value / 1000, units.pop(0)
    return f"{value:.1f} {units[0]}"
