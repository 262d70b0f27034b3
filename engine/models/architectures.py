"""What each GGUF architecture is called, configured and named in transformers.

Metadata keys: the GGUF specification. Tensor names: llama.cpp's converter and transformers' state dicts.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import ModelError
from .gguf_header import Header, TensorInfo
from .weights import Stored, dtype_for


@dataclasses.dataclass(frozen=True, slots=True)
class Architecture:
    """How one GGUF architecture maps to transformers."""

    model_type: str
    class_name: str
    settings: Callable[[Header], dict[str, Any]]
    names: dict[str, str]  # GGUF name without "blk.N." -> transformers' name without "model.layers.N."
    permuted: bool = False  # rows of q and k are interleaved in pairs


_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def _common(header: Header) -> dict[str, Any]:
    heads = header.require(".attention.head_count")
    hidden = header.require(".embedding_length")
    return {
        "hidden_size": hidden,
        "intermediate_size": header.require(".feed_forward_length"),
        "num_hidden_layers": header.require(".block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": header.get(".attention.head_count_kv", heads),
        "head_dim": header.get(".attention.key_length", hidden // heads),
        "hidden_act": "silu",
        "max_position_embeddings": header.require(".context_length"),
        "rms_norm_eps": header.require(".attention.layer_norm_rms_epsilon"),
        "rope_parameters": {"rope_type": "default", "rope_theta": header.get(".rope.freq_base", 10000.0)},
    }


def _llama(header: Header) -> dict[str, Any]:
    biased = "blk.0.attn_q.bias" in header.tensors
    return {**_common(header), "attention_bias": biased, "mlp_bias": "blk.0.ffn_up.bias" in header.tensors}


ARCHITECTURES = {
    "llama": Architecture("llama", "LlamaForCausalLM", _llama, _LAYER, permuted=True),
}


def find(header: Header) -> Architecture:
    """The architecture of a GGUF file; raises `ModelError` for one that is not supported."""
    name = header.require("general.architecture")
    if name not in ARCHITECTURES:
        raise ModelError(
            f"{header.path}: architecture {name} is not supported (supported: {', '.join(ARCHITECTURES)}).",
            "Take the model as a safetensors folder or a hub id, or another model.",
        )
    return ARCHITECTURES[name]


def config(architecture: Architecture, header: Header) -> dict[str, Any]:
    """What config.json says."""
    tokens = header.require("tokenizer.ggml.tokens")
    return {
        "model_type": architecture.model_type,
        "architectures": [architecture.class_name],
        "vocab_size": len(tokens),
        "tie_word_embeddings": "output.weight" not in header.tensors,
        **architecture.settings(header),
    }


def tensors(architecture: Architecture, header: Header) -> list[Stored]:
    """Every tensor of the file with its place in the state dict. Raises `ModelError` for one that has none."""
    placed: list[Stored] = []
    for info in header.tensors.values():
        name = _place(architecture, info.name)
        if name is None:
            raise ModelError(
                f"{header.path}: the tensor {info.name} has no place in the architecture {header.architecture}.",
                "Take the model as a safetensors folder or a hub id.",
            )
        order = _order(architecture, header, info)
        placed.append(Stored(name, dtype_for(header, info), info.shape, info, order))
    return placed


def _order(architecture: Architecture, header: Header, info: TensorInfo) -> np.ndarray | None:
    """Rows of q and k as transformers wants them: halves of a head, where llama.cpp wants pairs."""
    part = info.name.split(".")[2:3]
    if not architecture.permuted or part not in (["attn_q"], ["attn_k"]):
        return None
    heads = header.require(".attention.head_count")
    if part == ["attn_k"]:
        heads = header.get(".attention.head_count_kv", heads)
    rows = info.shape[0]
    return np.arange(rows).reshape(heads, rows // heads // 2, 2).swapaxes(1, 2).reshape(rows)


def _place(architecture: Architecture, tensor: str) -> str | None:
    """The state dict name of a GGUF tensor."""
    stem, _, suffix = tensor.rpartition(".")
    block = re.fullmatch(r"blk\.(\d+)\.(\w+)", stem)
    if block:
        part = architecture.names.get(block[2])
        return part and f"model.layers.{block[1]}.{part}.{suffix}"
    top = _TOP.get(stem)
    return top and f"{top}.{suffix}"
