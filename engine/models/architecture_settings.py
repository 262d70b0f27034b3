"""config.json of each GGUF architecture: one function each, from the file's keys to transformers' names.

Where a file does not hold a setting, the comment says whose constant stands in.
"""

from __future__ import annotations

import math
from typing import Any

from .gguf_keys import Keys
from .gguf_rope import rope

_GELU = "gelu_pytorch_tanh"


def llama(keys: Keys) -> dict[str, Any]:
    """Llama, and Mistral, which llama.cpp files under the same name: told apart by the sliding window."""
    settings = _common(keys)
    window = keys.get("attention.sliding_window")
    if window:
        return {**settings, **_named("mistral", "MistralForCausalLM"), "sliding_window": window}
    return {**settings, **_named("llama", "LlamaForCausalLM"), **_biases(keys)}


def qwen2(keys: Keys) -> dict[str, Any]:
    return {**_common(keys), **_named("qwen2", "Qwen2ForCausalLM")}


def qwen3(keys: Keys) -> dict[str, Any]:
    return {**_common(keys), **_named("qwen3", "Qwen3ForCausalLM"), "attention_bias": False}


def granite(keys: Keys) -> dict[str, Any]:
    settings = _common(keys)
    return {
        **settings,
        **_named("granite", "GraniteForCausalLM"),
        **_biases(keys),
        "attention_multiplier": keys.number("attention.scale", 1 / math.sqrt(settings["head_dim"])),
        "embedding_multiplier": keys.number("embedding_scale", 1.0),
        "residual_multiplier": keys.number("residual_scale", 1.0),
        "logits_scaling": keys.number("logit_scale", 1.0),
    }


def smollm3(keys: Keys) -> dict[str, Any]:
    """Every fourth layer without rotation, a constant in llama.cpp too."""
    named = _named("smollm3", "SmolLM3ForCausalLM")
    return {**_common(keys), **named, **_biases(keys), "no_rope_layer_interval": 4, "use_sliding_window": False}


def olmo2(keys: Keys) -> dict[str, Any]:
    """OLMo 2; OLMo 3 goes by the same name, and its sliding window is refused."""
    return {**_common(keys), **_named("olmo2", "Olmo2ForCausalLM"), "attention_bias": False}


def phi3(keys: Keys) -> dict[str, Any]:
    settings = _common(keys, partial=True)
    window = keys.get("attention.sliding_window")  # 0 stands for none
    original = keys.whole("rope.scaling.original_context_length", settings["max_position_embeddings"])
    return {
        **settings,
        **_named("phi3", "Phi3ForCausalLM"),
        "sliding_window": window or None,
        "original_max_position_embeddings": original,
    }


def gemma(keys: Keys) -> dict[str, Any]:
    return {**_common(keys), **_named("gemma", "GemmaForCausalLM"), "hidden_act": _GELU, "attention_bias": False}


def gemma2(keys: Keys) -> dict[str, Any]:
    settings = _common(keys)
    return {
        **settings,
        **_named("gemma2", "Gemma2ForCausalLM"),
        "hidden_activation": _GELU,
        "attention_bias": False,
        "attn_logit_softcapping": keys.number("attn_logit_softcapping", 50.0),
        "final_logit_softcapping": keys.number("final_logit_softcapping", 30.0),
        "sliding_window": keys.whole("attention.sliding_window", 4096),
        "layer_types": _layers(settings, 2),
        "query_pre_attn_scalar": _query_scalar(settings, wide=46),
    }


def gemma3(keys: Keys) -> dict[str, Any]:
    settings = _common(keys)
    window = keys.get("attention.sliding_window")
    keys.only("attention.sliding_window_pattern", 6)
    local = {"rope_type": "default", "rope_theta": keys.number("rope.freq_base_swa", 10000.0)}
    return {
        **settings,
        **_named("gemma3_text", "Gemma3ForCausalLM"),
        "hidden_activation": _GELU,
        "attention_bias": False,
        "final_logit_softcapping": keys.get("final_logit_softcapping"),
        "sliding_window": window or 4096,
        "layer_types": _layers(settings, 6 if window else 1),
        "query_pre_attn_scalar": _query_scalar(settings, wide=62),
        "rope_parameters": {"sliding_attention": local, "full_attention": settings["rope_parameters"]},
    }


def _common(keys: Keys, *, partial: bool = False) -> dict[str, Any]:
    heads = keys.whole("attention.head_count")
    hidden = keys.whole("embedding_length")
    head_dim = keys.whole("attention.key_length", hidden // heads)
    keys.only("attention.value_length", head_dim)
    return {
        "hidden_size": hidden,
        "intermediate_size": keys.whole("feed_forward_length"),
        "num_hidden_layers": keys.whole("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": keys.whole("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": keys.whole("context_length"),
        "rms_norm_eps": keys.number("attention.layer_norm_rms_epsilon"),
        "rope_parameters": rope(keys, head_dim, partial=partial),
    }


def _named(model_type: str, class_name: str) -> dict[str, Any]:
    return {"model_type": model_type, "architectures": [class_name]}


def _biases(keys: Keys) -> dict[str, bool]:
    tensors = keys.header.tensors
    return {"attention_bias": "blk.0.attn_q.bias" in tensors, "mlp_bias": "blk.0.ffn_up.bias" in tensors}


def _layers(settings: dict[str, Any], every: int) -> list[str]:
    """Full attention in every so many-th layer, a sliding window in the others."""
    count = settings["num_hidden_layers"]
    return ["full_attention" if (layer + 1) % every == 0 else "sliding_attention" for layer in range(count)]


def _query_scalar(settings: dict[str, Any], *, wide: int) -> int:
    """Not in the file. llama.cpp goes by the number of layers: the 27B models scale by hidden size over heads."""
    if settings["num_hidden_layers"] == wide:
        return settings["hidden_size"] // settings["num_attention_heads"]
    return settings["head_dim"]
