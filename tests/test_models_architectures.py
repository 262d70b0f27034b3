"""Every supported GGUF architecture, there and back: a random transformers model, written as llama.cpp writes it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from cutaway.engine.errors import ModelError
from cutaway.engine.models.architectures import ARCHITECTURES
from cutaway.engine.models.convert import convert
from cutaway.engine.models.local import Watch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from . import tiny_gguf

VOCABULARY = len(tiny_gguf.tokens())
SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "vocab_size": VOCABULARY,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def write(model: Any, path: Path, architecture: str, keys: dict[str, Any], permuted: bool, shift: float) -> None:
    """Write a transformers model as a GGUF file, the way llama.cpp's converter does."""
    config = model.config
    names = gguf.get_tensor_name_map(
        next(a for a, n in gguf.MODEL_ARCH_NAMES.items() if n == architecture), config.num_hidden_layers
    )
    writer = gguf.GGUFWriter(path, architecture)
    tiny_gguf.add_tokenizer(writer)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_file_type(0)
    for key, value in keys.items():
        add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}[type(value)]
        add(f"{architecture}.{key}", value)
    tied = config.tie_word_embeddings
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and tied:
            continue
        values = tensor.float().numpy()
        if permuted and ".q_proj." in name:
            values = tiny_gguf.permute(values, config.num_attention_heads)
        if permuted and ".k_proj." in name:
            values = tiny_gguf.permute(values, config.num_key_value_heads)
        if name.endswith("norm.weight"):
            values = values + np.float32(shift)
        found = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert found, name
        writer.add_tensor(found, np.ascontiguousarray(values))
    for name, values in getattr(model, "extra_tensors", {}).items():
        writer.add_tensor(name, np.asarray(values, np.float32))
    tiny_gguf.finish(writer)


def random_model(model_type: str, **settings: Any) -> Any:
    torch.manual_seed(0)
    config = AutoConfig.for_model(model_type, **{**SIZES, **settings})
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    for name, tensor in model.state_dict().items():
        if name.endswith("norm.weight") or name.endswith(".bias"):
            tensor += torch.rand_like(tensor) * 0.1
    return model


ROPE = {"rope.freq_base": 20000.0, "rope.dimension_count": 8}
THETA = {"rope_parameters": {"rope_type": "default", "rope_theta": 20000.0}}
YARN_KEYS = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 64,
}
YARN = {
    "rope_parameters": {
        "rope_type": "yarn",
        "rope_theta": 20000.0,
        "factor": 4.0,
        "original_max_position_embeddings": 64,
    }
}
LONG = [1.0, 1.5, 2.0, 4.0]
LONGROPE = {
    "rope_parameters": {
        "rope_type": "longrope",
        "rope_theta": 20000.0,
        "long_factor": LONG,
        "short_factor": [1.0] * 4,
        "original_max_position_embeddings": 64,
        "partial_rotary_factor": 1.0,
    },
    "original_max_position_embeddings": 64,
}
GEMMA3_ROPE = {
    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    "full_attention": {"rope_type": "linear", "rope_theta": 20000.0, "factor": 8.0},
}
WIDE = {"attention.key_length": 16, "attention.value_length": 16, "rope.freq_base": 20000.0}
CASES: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "llama": ("llama", "llama", {"tie_word_embeddings": False, **THETA}, ROPE),
    "llama-tied-biased": (
        "llama",
        "llama",
        {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True, **THETA},
        ROPE,
    ),
    "llama-yarn": ("llama", "llama", YARN, {**ROPE, **YARN_KEYS}),
    "mistral": (
        "llama",
        "mistral",
        {"sliding_window": 8, "head_dim": 8, **THETA},
        {**ROPE, "attention.sliding_window": 8},
    ),
    "qwen2": ("qwen2", "qwen2", {"tie_word_embeddings": True, **THETA}, {"rope.freq_base": 20000.0}),
    "qwen3": ("qwen3", "qwen3", {"head_dim": 16, **THETA}, WIDE),
    "granite": (
        "granite",
        "granite",
        {
            "attention_multiplier": 0.25,
            "embedding_multiplier": 12.0,
            "residual_multiplier": 0.5,
            "logits_scaling": 4.0,
            "tie_word_embeddings": True,
            **THETA,
        },
        {**ROPE, "attention.scale": 0.25, "embedding_scale": 12.0, "residual_scale": 0.5, "logit_scale": 4.0},
    ),
    "smollm3": ("smollm3", "smollm3", {"tie_word_embeddings": True, **THETA}, ROPE),
    "olmo2": ("olmo2", "olmo2", {"tie_word_embeddings": False, **THETA}, {"rope.freq_base": 20000.0}),
    "phi3": (
        "phi3",
        "phi3",
        {"sliding_window": 16, "rope_parameters": {**THETA["rope_parameters"], "partial_rotary_factor": 0.5}},
        {"rope.freq_base": 20000.0, "rope.dimension_count": 4, "attention.sliding_window": 16},
    ),
    "phi3-longrope": (
        "phi3",
        "phi3",
        LONGROPE,
        {
            **ROPE,
            "attention.sliding_window": 0,
            "rope.scaling.original_context_length": 64,
            "rope.scaling.attn_factor": math.sqrt(1 + math.log(4) / math.log(64)),
        },
    ),
    "gemma": ("gemma", "gemma", {"head_dim": 16, **THETA}, WIDE),
    "gemma2": (
        "gemma2",
        "gemma2",
        {
            "head_dim": 16,
            "query_pre_attn_scalar": 16,
            "sliding_window": 8,
            "attn_logit_softcapping": 40.0,
            "final_logit_softcapping": 20.0,
            **THETA,
        },
        {
            **WIDE,
            "attention.sliding_window": 8,
            "attn_logit_softcapping": 40.0,
            "final_logit_softcapping": 20.0,
        },
    ),
    "gemma3": (
        "gemma3",
        "gemma3_text",
        {
            "num_hidden_layers": 7,
            "head_dim": 16,
            "query_pre_attn_scalar": 16,
            "sliding_window": 8,
            "rope_parameters": GEMMA3_ROPE,
        },
        {**WIDE, "attention.sliding_window": 8, "rope.scaling.type": "linear", "rope.scaling.factor": 8.0},
    ),
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUTAWAY_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def round_trip(case: str, tmp_path: Path) -> tuple[Any, Path, Any]:
    architecture, model_type, settings, keys = CASES[case]
    model = random_model(model_type, **settings)
    if case == "phi3-longrope":
        model.extra_tensors = {"rope_factors_long.weight": LONG, "rope_factors_short.weight": [1.0] * 4}
    known = ARCHITECTURES[architecture]
    path = tmp_path / f"{case}.gguf"
    write(model, path, architecture, keys, known.permuted, known.norm_shift)
    found = convert(path, "0" * 64, Watch())
    ours = AutoModelForCausalLM.from_pretrained(found.folder, dtype=torch.float32).eval()
    return model, path, ours


@pytest.mark.parametrize("case", CASES)
def test_architecture_comes_back_with_every_weight_and_the_same_logits(case: str, tmp_path: Path) -> None:
    model, _, ours = round_trip(case, tmp_path)
    before, after = model.state_dict(), ours.state_dict()
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor, rtol=0, atol=2e-7, msg=name)
    ids = torch.randint(0, VOCABULARY, (2, 100), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        torch.testing.assert_close(ours(ids).logits, model(ids).logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", ["llama", "qwen2", "qwen3", "phi3", "gemma2", "gemma3"])
def test_weights_equal_those_that_transformers_reads_from_the_same_file(case: str, tmp_path: Path) -> None:
    _, path, ours = round_trip(case, tmp_path)
    theirs = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=ours)["tensors"]
    after = ours.state_dict()
    assert set(theirs) == {name for name in after if name != "lm_head.weight"} | (set(theirs) & {"lm_head.weight"})
    for name, tensor in theirs.items():
        assert torch.equal(after[name], tensor), name


def test_llama3_scaling_is_recognised_from_its_divisors(tmp_path: Path) -> None:
    parameters = {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    model = random_model(
        "llama", head_dim=64, rope_parameters=parameters, max_position_embeddings=131072, num_hidden_layers=1
    )
    plain = 1.0 / (500000.0 ** (torch.arange(0, 64, 2).float() / 64))
    model.extra_tensors = {"rope_freqs.weight": (plain / model.model.rotary_emb.inv_freq).numpy()}
    path = tmp_path / "llama3.gguf"
    keys = {"rope.freq_base": 500000.0, "attention.key_length": 64, "attention.value_length": 64}
    write(model, path, "llama", keys, True, 0.0)
    found = convert(path, "1" * 64, Watch())
    assert json.loads((found.folder / "config.json").read_text())["rope_parameters"] == parameters
    ours = AutoModelForCausalLM.from_pretrained(found.folder, dtype=torch.float32)
    assert torch.equal(ours.model.rotary_emb.inv_freq, model.model.rotary_emb.inv_freq)


def test_other_rotary_divisors_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "odd.gguf"
    tiny_gguf.llama(path, extra=lambda w: w.add_tensor("rope_freqs.weight", np.array([1, 3, 2, 8], np.float32)))
    with pytest.raises(ModelError, match=r"rope_freqs\.weight holds a rotary scaling that is not Llama 3's"):
        convert(path, "2" * 64, Watch())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("attention.clamp_kqv", 8.0),
        ("expert_count", 8),
        ("logit_scale", 0.5),
        ("rope.scaling.type", "dynamic"),
        ("attention.value_length", 4),
        ("attention.key_length_swa", 4),
    ],
)
def test_a_key_that_changes_the_model_is_refused_by_name(key: str, value: float | str, tmp_path: Path) -> None:
    def add(writer: gguf.GGUFWriter) -> None:
        method = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}[type(value)]
        method(f"llama.{key}", value)

    path = tmp_path / "keyed.gguf"
    tiny_gguf.llama(path, extra=add)
    with pytest.raises(ModelError, match=f"llama.{key}"):
        convert(path, "3" * 64, Watch())


def test_yarn_with_an_unknown_knob_is_refused(tmp_path: Path) -> None:
    def add(writer: gguf.GGUFWriter) -> None:
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(4.0)
        writer.add_rope_scaling_orig_ctx_len(32)
        writer.add_rope_scaling_yarn_log_mul(0.1)

    path = tmp_path / "yarn.gguf"
    tiny_gguf.llama(path, extra=add)
    with pytest.raises(ModelError, match="yarn_log_multiplier"):
        convert(path, "4" * 64, Watch())


def test_a_missing_tensor_and_one_without_a_place_are_named(tmp_path: Path) -> None:
    path = tmp_path / "less.gguf"
    tiny_gguf.llama(path, skip="blk.1.ffn_up")
    with pytest.raises(ModelError, match=r"blk\.1\.ffn_up\.weight"):
        convert(path, "5" * 64, Watch())
    path = tmp_path / "more.gguf"
    tiny_gguf.llama(path, extra=lambda w: w.add_tensor("blk.0.attn_sinks.weight", np.zeros(4, np.float32)))
    with pytest.raises(ModelError, match=r"blk\.0\.attn_sinks\.weight has no place"):
        convert(path, "6" * 64, Watch())
