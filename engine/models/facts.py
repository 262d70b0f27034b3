"""What is known of a model on this machine without loading it: configuration, tensors' shapes, whether it is a chat's.

Headers only: no weight is read, nothing is hashed, no network, no torch.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import ModelError
from . import architectures
from .folder import CONFIG, INDEX, SINGLE, is_gguf, read_config
from .gguf_header import read_header
from .memory import Memory, Shapes, estimate
from .safetensors_file import read_shapes

_WRITERS = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")


@dataclasses.dataclass(frozen=True)
class Facts:
    """config.json as transformers would have it, and the shape of every tensor by its name."""

    config: Mapping[str, Any]
    shapes: Shapes

    @property
    def architecture(self) -> str:
        return str(self.config.get("model_type", ""))

    @property
    def writes(self) -> bool:
        """Whether the model says of itself that it continues text; one that says nothing may."""
        names = self.config.get("architectures")
        return not isinstance(names, list) or not names or any(str(name).endswith(_WRITERS) for name in names)

    def memory(self, precision: str, window: int = 0, page_size: int = 16) -> Memory:
        """What it will take. Raises `ModelError` for a configuration that does not say."""
        try:
            return estimate(self.config, self.shapes, precision, window, page_size)
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            raise ModelError(f"the configuration does not tell the model's size: {error!r}.") from None


def read_facts(place: Path) -> Facts:
    """The facts of a model folder or a GGUF file.

    Raises `ModelError` naming the file that is missing or can't be read.
    """
    try:
        if place.is_file() or (not (place / CONFIG).exists() and is_gguf(place)):
            return _gguf(place)
        return Facts(read_config(place), _shapes(place))
    except OSError as error:
        raise ModelError(f"{place} can't be read: {error.strerror or error}.") from None


def _gguf(file: Path) -> Facts:
    header = read_header(file)
    config = architectures.config(architectures.find(header), header)
    return Facts(config, {name: info.shape for name, info in header.tensors.items()})


def _shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    names = [SINGLE]
    if (folder / INDEX).is_file():
        try:
            names = sorted(set(json.loads((folder / INDEX).read_text("utf-8"))["weight_map"].values()))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ModelError(f"{folder / INDEX} is broken.", "Fetch it again.") from None
    found: dict[str, tuple[int, ...]] = {}
    for name in names:
        if not (folder / name).is_file():
            raise ModelError(f"{folder} lacks {name}.", "Fetch it again.")
        found |= read_shapes(folder / name)
    return found
