"""Small random models of many families, built from their configurations and saved to a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

VOCABULARY = 320

COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

# model_type -> what its configuration has beyond the common part
PAGED: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {},
    "qwen3": {"head_dim": 16},
    "qwen3_moe": {"head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48},
    "mistral": {"sliding_window": 24, "head_dim": 16},
    "gemma2": {"head_dim": 16, "sliding_window": 24, "query_pre_attn_scalar": 16},
    "gemma3_text": {"head_dim": 16, "sliding_window": 24, "query_pre_attn_scalar": 16},
    "gpt_oss": {"head_dim": 16, "sliding_window": 24, "num_local_experts": 4, "num_experts_per_tok": 2},
    "phi3": {},
    "olmo": {},
    "olmo2": {},
    "granite": {"attention_multiplier": 0.2, "embedding_multiplier": 2.0, "residual_multiplier": 0.5},
    "cohere": {},
    "cohere2": {"sliding_window": 24, "head_dim": 16},
}

UNPAGED: dict[str, dict[str, Any]] = {
    "lfm2": {"layer_types": ["conv", "full_attention", "conv", "full_attention"], "block_ff_dim": 96},
    "qwen3_next": {
        "head_dim": 16,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 48,
        "shared_expert_intermediate_size": 48,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
    },
    "jamba": {
        "num_experts": 2,
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
        "mamba_d_state": 8,
        "mamba_dt_rank": 8,
        "use_mamba_kernels": False,
    },
    "llama4_text": {
        "head_dim": 16,
        "num_local_experts": 2,
        "intermediate_size_mlp": 96,
        "attention_chunk_size": 24,
        "interleave_moe_layer_step": 2,
    },
}


def build(model_type: str, folder: Path | None = None, **changes: Any) -> Any:
    """A random float32 model of a family; saved to `folder` if given."""
    from transformers import AutoModelForCausalLM
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    extra = {**PAGED, **UNPAGED}[model_type]
    config = CONFIG_MAPPING[model_type](**{**COMMON, **extra, **changes})
    torch.manual_seed(sum(map(ord, model_type)))
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    for name, parameter in model.named_parameters():
        # The default initialisation is so small that wrong attention would hardly show in the logits.
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.15)
        elif "sinks" in name:
            torch.nn.init.normal_(parameter, std=1.0)
    if folder is not None:
        model.save_pretrained(folder)
    return model
