"""From what the user typed to a model on this machine."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import ModelError
from . import default
from .local import LocalModel, Progress, Watch


def resolve(
    spec: str,
    *,
    offline: bool = False,
    progress: Progress = lambda _: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> LocalModel:
    """Find the model that `spec` means, fetching and converting it where needed.

    `spec` is empty (the default model), a safetensors folder, a GGUF file, or a hub id. Raises `ModelError`,
    `DownloadError` or `LoadCancelled`.
    """
    watch = Watch(progress, cancelled)
    if not spec:
        return _default(watch, offline)
    raise ModelError(f"{spec}: not yet.")


def _default(watch: Watch, offline: bool) -> LocalModel:
    found = default.find_default() or default.convert_fetched(watch)
    if found:
        return found
    default.fetch(watch)
    converted = default.convert_fetched(watch)
    assert converted is not None, "fetch() leaves the file in its place"
    return converted
