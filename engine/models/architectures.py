"""What each GGUF architecture is called, configured and named in transformers.

Metadata keys: the GGUF specification. What they mean for each architecture: llama.cpp's converter, undone. A key
or a tensor that is not understood is refused by its name rather than ignored.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import ModelError
from . import gguf_rope
from .architecture_settings import (
    gemma,
    gemma2,
    gemma3,
    granite,
    llama,
    olmo2,
    phi3,
    qwen2,
    qwen3,
    smollm3,
)
from .gguf_header import Header, TensorInfo
from .gguf_keys import Keys
from .weights import Stored, dtype_for


@dataclasses.dataclass(frozen=True, slots=True)
class Architecture:
    """How one GGUF architecture maps to transformers."""

    settings: Callable[[Keys], dict[str, Any]]  # what config.json says beyond the ids
    names: dict[str, str]  # GGUF name without "blk.N." -> transformers' name without "model.layers.N."
    permuted: bool = False  # llama.cpp keeps rotary pairs side by side in q and k, transformers half a head apart
    norm_shift: float = 0.0  # what llama.cpp added to every norm's weights


_ATTENTION = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
}
_MLP = {"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
_QK_NORMS = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
_PRE_NORMS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
_POST_NORMS = {"post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}
_GEMMA_NORMS = {"attn_norm": "input_layernorm", "ffn_norm": "pre_feedforward_layernorm", **_POST_NORMS}
_FUSED = {
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_up": "mlp.gate_up_proj",
    "ffn_down": "mlp.down_proj",
}
_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LLAMA = {**_PRE_NORMS, **_ATTENTION, **_MLP}

ARCHITECTURES = {
    "llama": Architecture(llama, _LLAMA, permuted=True),
    "qwen2": Architecture(qwen2, _LLAMA),
    "qwen3": Architecture(qwen3, {**_LLAMA, **_QK_NORMS}),
    "gemma": Architecture(gemma, _LLAMA, norm_shift=1.0),
    "gemma2": Architecture(gemma2, {**_GEMMA_NORMS, **_ATTENTION, **_MLP}, norm_shift=1.0),
    "gemma3": Architecture(gemma3, {**_GEMMA_NORMS, **_ATTENTION, **_QK_NORMS, **_MLP}, norm_shift=1.0),
    "phi3": Architecture(phi3, {**_PRE_NORMS, **_FUSED}),
    "granite": Architecture(granite, _LLAMA, permuted=True),
    "olmo2": Architecture(olmo2, {**_POST_NORMS, **_ATTENTION, **_QK_NORMS, **_MLP}),
    "smollm3": Architecture(smollm3, _LLAMA, permuted=True),
}


def find(header: Header) -> Architecture:
    """The architecture of a GGUF file; raises `ModelError` for one that is not supported."""
    name = header.require("general.architecture")
    if name not in ARCHITECTURES:
        raise ModelError(
            f"{header.path}: architecture {name} is not supported (supported: {', '.join(ARCHITECTURES)}).",
            "Take the model as a safetensors folder or a hub id, or another model.",
        )
    parts = header.get("split.count", 1)
    if parts > 1:
        raise ModelError(
            f"{header.path}: this is part {header.get('split.no', 0) + 1} of {parts} of a split GGUF file.",
            "Join the parts with llama.cpp's gguf-split --merge.",
        )
    return ARCHITECTURES[name]


def config(architecture: Architecture, header: Header) -> dict[str, Any]:
    """What config.json says. Raises `ModelError` naming a key that is missing, odd, or not understood."""
    keys = Keys(header)
    settings = architecture.settings(keys)
    keys.finish()
    rows = header.tensors["token_embd.weight"].shape[0] if "token_embd.weight" in header.tensors else 0
    tokens = len(header.require("tokenizer.ggml.tokens"))
    if rows < tokens:
        raise ModelError(
            f"{header.path}: {tokens} tokens, but token_embd.weight has {rows} rows.",
            "Take another conversion of the model.",
        )
    return {**settings, "vocab_size": rows, "tie_word_embeddings": "output.weight" not in header.tensors}


def tensors(architecture: Architecture, header: Header, config: dict[str, Any]) -> list[Stored]:
    """Every tensor of the file with its place in the state dict.

    Raises `ModelError` for a tensor that has no place, and for a place that has no tensor.
    """
    expected = _expected(architecture, config)
    placed: list[Stored] = []
    for info in header.tensors.values():
        if info.name in gguf_rope.TENSORS:
            continue
        name = expected.pop(info.name, None)
        if name is None:
            raise ModelError(
                f"{header.path}: the tensor {info.name} has no place in the architecture {header.architecture}.",
                "Take the model as a safetensors folder or a hub id.",
            )
        shift = -architecture.norm_shift if info.name.endswith("norm.weight") else 0.0
        order = _order(architecture, header, info)
        placed.append(Stored(name, dtype_for(header, info), info.shape, info, order, shift))
    if expected:
        raise ModelError(
            f"{header.path}: {len(expected)} tensors are missing, {next(iter(expected))} first.",
            "Take another conversion of the model.",
        )
    return placed


def _expected(architecture: Architecture, config: dict[str, Any]) -> dict[str, str]:
    """GGUF name -> transformers' name of everything that must be there."""
    found = {f"{gguf}.weight": f"{name}.weight" for gguf, name in _TOP.items()}
    if config["tie_word_embeddings"]:
        del found["output.weight"]
    biased: set[str] = set()
    if config.get("attention_bias"):
        biased |= {"attn_q", "attn_k", "attn_v", "attn_output"}
    if config.get("mlp_bias"):
        biased |= set(_MLP)
    if config["model_type"] == "qwen2":
        biased |= {"attn_q", "attn_k", "attn_v"}
    for layer in range(config["num_hidden_layers"]):
        for gguf, name in architecture.names.items():
            for suffix in ("weight", "bias") if gguf in biased else ("weight",):
                found[f"blk.{layer}.{gguf}.{suffix}"] = f"model.layers.{layer}.{name}.{suffix}"
    return found


def _order(architecture: Architecture, header: Header, info: TensorInfo) -> np.ndarray | None:
    """Rows [rows] of q and k as transformers wants them: halves of a head, where llama.cpp has pairs."""
    part = re.fullmatch(r"blk\.\d+\.(attn_[qk])\.\w+", info.name)
    if not architecture.permuted or not part:
        return None
    keys = Keys(header)
    heads = keys.whole("attention.head_count")
    if part[1] == "attn_k":
        heads = keys.whole("attention.head_count_kv", heads)
    rows = info.shape[0]
    if rows % (2 * heads):
        raise ModelError(f"{header.path}: {info.name} has {rows} rows for {heads} heads.", "Take another conversion.")
    return np.arange(rows).reshape(heads, rows // heads // 2, 2).swapaxes(1, 2).reshape(rows)
