"""What finding a model yields, and how the finding reports and is stopped."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from ..errors import LoadCancelled
from ..protocol import LoadProgress

Progress = Callable[[LoadProgress], None]


@dataclasses.dataclass(frozen=True)
class LocalModel:
    """A model on this machine, ready to be read: a folder that transformers and tokenizers can open.

    `identity` is the sha256 (hex) of the weights' content: of the GGUF file, or of the safetensors and config files.
    """

    folder: Path
    name: str
    identity: str
    source: str
    license: str  # an SPDX id as far as it is known, else empty
    format: Literal["safetensors", "gguf"]  # what the source was; the folder is always safetensors


@dataclasses.dataclass(frozen=True)
class Watch:
    """Carries progress out of a slow job and a wish to stop into it."""

    progress: Progress = lambda _: None
    cancelled: Callable[[], bool] = lambda: False

    def tell(self, stage: str, done: int = 0, total: int = 0, unit: str = "", note: str = "") -> None:
        """Report progress, then raise `LoadCancelled` if the user asked to stop."""
        self.progress(LoadProgress(stage, done, total, unit, note))
        self.check()

    def check(self) -> None:
        """Raise `LoadCancelled` if the user asked to stop."""
        if self.cancelled():
            raise LoadCancelled("the load was cancelled.")
