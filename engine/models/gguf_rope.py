"""Rotary position settings of a GGUF file, as transformers' `rope_parameters`. What has no equivalent is refused."""

from __future__ import annotations

import math
import mmap
from typing import Any

from ..errors import ModelError
from .gguf_header import Header, TensorInfo
from .gguf_keys import Keys

# Llama 3.1 and later (meta-llama/llama-models, apply_scaling): only the factor differs between the models.
_LOW, _HIGH, _ORIGINAL = 1.0, 4.0, 8192
LLAMA3_TENSOR = "rope_freqs.weight"
LONG_TENSOR, SHORT_TENSOR = "rope_factors_long.weight", "rope_factors_short.weight"
TENSORS = {LLAMA3_TENSOR, LONG_TENSOR, SHORT_TENSOR}
_SUBTLE = ("attn_factor", "yarn_log_multiplier", "yarn_ext_factor", "yarn_attn_factor")


def rope(keys: Keys, head_dim: int, *, partial: bool = False) -> dict[str, Any]:
    """The `rope_parameters` of a file whose heads have `head_dim` values.

    With `partial` the rotation may cover only a first part of each head. Raises `ModelError` naming the key or
    tensor that is not supported.
    """
    theta = keys.number("rope.freq_base", 10000.0)
    rotated = keys.whole("rope.dimension_count", head_dim)
    if not partial and rotated != head_dim:
        keys.only("rope.dimension_count", head_dim)
    parameters: dict[str, Any] = {"rope_type": "default", "rope_theta": theta}
    if partial:
        parameters["partial_rotary_factor"] = rotated / head_dim
    if LLAMA3_TENSOR in keys.header.tensors:
        return {**parameters, **_llama3(keys, theta, rotated)}
    if LONG_TENSOR in keys.header.tensors or SHORT_TENSOR in keys.header.tensors:
        return {**parameters, **_longrope(keys)}
    return {**parameters, **_scaling(keys)}


def _scaling(keys: Keys) -> dict[str, Any]:
    kind = keys.get("rope.scaling.type", "none")
    old = keys.get("rope.scale_linear")
    factor = keys.get("rope.scaling.factor", old or 1.0)
    original = keys.get("rope.scaling.original_context_length")
    if kind == "yarn":
        for name in _SUBTLE:
            keys.only(f"rope.scaling.{name}", 1.0)
        betas = {name: keys.get(f"rope.scaling.yarn_{name}") for name in ("beta_fast", "beta_slow")}
        given = {name: value for name, value in betas.items() if value is not None}
        return {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original, **given}
    if kind == "linear" or (kind == "none" and factor not in (0.0, 1.0)):
        return {"rope_type": "linear", "factor": factor}
    keys.only("rope.scaling.type", "none")
    return {}


def _llama3(keys: Keys, theta: float, rotated: int) -> dict[str, Any]:
    """The Llama 3 scaling whose divisors are the ones in the file."""
    divisors = _values(keys.header, keys.header.tensors[LLAMA3_TENSOR])
    factor = max(divisors)
    expected = [_llama3_divisor(theta ** (2 * i / rotated) * 2 * math.pi, factor) for i in range(rotated // 2)]
    same = len(divisors) == len(expected) and all(
        math.isclose(d, e, rel_tol=1e-3) for d, e in zip(divisors, expected, strict=True)
    )
    if not same:
        raise ModelError(
            f"{keys.header.path}: the tensor {LLAMA3_TENSOR} holds a rotary scaling that is not Llama 3's.",
            "Take the model as a safetensors folder or a hub id.",
        )
    keys.get("rope.scaling.type")
    keys.get("rope.scaling.factor")
    keys.get("rope.scaling.original_context_length")
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": _LOW,
        "high_freq_factor": _HIGH,
        "original_max_position_embeddings": _ORIGINAL,
    }


def _llama3_divisor(wavelength: float, factor: float) -> float:
    if wavelength < _ORIGINAL / _HIGH:
        return 1.0
    if wavelength > _ORIGINAL / _LOW:
        return factor
    smooth = (_ORIGINAL / wavelength - _LOW) / (_HIGH - _LOW)
    return 1.0 / ((1.0 - smooth) / factor + smooth)


def _longrope(keys: Keys) -> dict[str, Any]:
    """Phi-3's: one divisor a frequency, other ones beyond the original window."""
    tensors = keys.header.tensors
    for name in (LONG_TENSOR, SHORT_TENSOR):
        if name not in tensors:
            raise ModelError(f"{keys.header.path}: the tensor {name} is missing.", "Take another conversion.")
    keys.only("rope.scaling.type", "longrope")
    keys.get("rope.scaling.factor")
    return {
        "rope_type": "longrope",
        "long_factor": _values(keys.header, tensors[LONG_TENSOR]),
        "short_factor": _values(keys.header, tensors[SHORT_TENSOR]),
        "attention_factor": keys.number("rope.scaling.attn_factor", 1.0),
        "original_max_position_embeddings": keys.whole("rope.scaling.original_context_length"),
    }


def _values(header: Header, info: TensorInfo) -> list[float]:
    """A small float32 tensor."""
    import struct

    if info.size != 4 * math.prod(info.shape):
        raise ModelError(f"{header.path}: the tensor {info.name} is not float32.", "Take another conversion.")
    with header.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return list(struct.unpack_from(f"<{info.size // 4}f", data, info.offset))
