"""Which precision and which matrix products serve, and what the card says of them."""

from __future__ import annotations

from typing import Any

import torch

from .errors import SettingError
from .kv_cache import KVCache
from .protocol import Load

PRECISIONS = ("auto", "float32", "bfloat16", "float16", "int8")


def precision(wanted: str, device: torch.device) -> tuple[str, torch.dtype]:
    """Resolve "auto" and return the precision's name and the dtype that weights are loaded in."""
    if wanted not in PRECISIONS:
        raise SettingError("precision", f"precision must be one of {', '.join(PRECISIONS)}, not {wanted!r}.")
    if wanted == "auto":
        wanted = "bfloat16" if device.type == "cuda" else "float32"
    if wanted == "int8":
        return wanted, torch.float32
    return wanted, {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[wanted]


def kv_dtype(precision: str, dtype: torch.dtype) -> torch.dtype:
    """What keys and values are kept in."""
    return dtype


def prepare(model: Any, precision: str, load: Load) -> tuple[bool, str]:
    """Quantise the model where the precision asks for it. Returns whether it is quantised, and the kernel's name."""
    return False, f"torch {precision}"


def decode_step(model: Any, cache: KVCache, precision: str) -> tuple[Any | None, str]:
    """The fast decode step for this model, if there is one, and a note for the card."""
    return None, ""
