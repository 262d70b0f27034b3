"""Reads a GGUF file's architecture keys and remembers which were read, so that none is ignored in silence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import ModelError
from .gguf_header import Header

# Keys that say nothing that would change the computation, or nothing beyond what the tensors say.
_HARMLESS: dict[str, Callable[[Any], bool]] = {
    "vocab_size": lambda _: True,
    "tensor_data_layout": lambda _: True,
    "rope.scaling.finetuned": lambda _: True,
    "attention.layer_norm_epsilon": lambda _: True,  # beside the RMS one, which is required
    "attention.causal": lambda value: value is True,
    "expert_count": lambda value: value == 0,
    "expert_used_count": lambda value: value == 0,
}


class Keys:
    """The keys `<architecture>.*` of a file."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self._read: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self._read.add(name)
        return self.header.get(f".{name}", default)

    def whole(self, name: str, default: int | None = None) -> int:
        """A whole number above zero. Raises `ModelError` where it is missing, or differs by layer."""
        value = self.get(name, default)
        if isinstance(value, int) and value > 0:
            return value
        if isinstance(value, tuple) and value and len(set(value)) == 1 and isinstance(value[0], int):
            return value[0]
        raise self._refused(name, "is missing" if value is None else f"is {_short(value)}, not one number above zero")

    def number(self, name: str, default: float | None = None) -> float:
        """A number. Raises `ModelError` where it is missing or something else."""
        value = self.get(name, default)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return value
        raise self._refused(name, "is missing" if value is None else f"is {_short(value)}, not a number")

    def only(self, name: str, allowed: Any, default: Any = None) -> None:
        """Raise `ModelError` unless the key is absent or has the one value that is supported."""
        value = self.get(name, default)
        if value is not None and value != allowed:
            raise self._refused(name, f"is {_short(value)}, and only {allowed} is supported")

    def finish(self) -> None:
        """Raise `ModelError` naming a key that nobody read: a model run without it would answer wrongly."""
        prefix = f"{self.header.architecture}."
        for key, value in self.header.metadata.items():
            name = key.removeprefix(prefix)
            if name == key or name in self._read or (name in _HARMLESS and _HARMLESS[name](value)):
                continue
            raise self._refused(name, f"({_short(value)}) is not understood, and the model may not run right without")

    def _refused(self, name: str, why: str) -> ModelError:
        key = f"{self.header.architecture}.{name}"
        return ModelError(
            f"{self.header.path}: the GGUF key {key} {why}.", "Take the model as a safetensors folder or a hub id."
        )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
