"""Builds tiny GGUF files for tests, following llama.cpp's converter from the outside: gguf's own names and writer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np

# A byte-level vocabulary: the 256 bytes as GPT-2 spells them, a few merges, three control tokens.
CONTROLS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "Ġwor l", "Ġworl d", "1 2", "12 3"]
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"


def byte_alphabet() -> list[str]:
    """GPT-2's spelling of the bytes 0 to 255."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    spare = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(spare)) for byte in range(256)]


def tokens() -> list[str]:
    return [*CONTROLS, *byte_alphabet(), *(merge.replace(" ", "") for merge in MERGES)]


def permute(weights: np.ndarray, heads: int) -> np.ndarray:
    """What llama.cpp's converter does to q and k of Llama-like models."""
    shape = weights.shape
    return weights.reshape(heads, 2, shape[0] // heads // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def add_tokenizer(writer: gguf.GGUFWriter, pre: str | None = "smollm") -> None:
    writer.add_tokenizer_model("gpt2")
    if pre is not None:
        writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens())
    writer.add_token_types([3] * len(CONTROLS) + [1] * (len(tokens()) - len(CONTROLS)))
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(0)
    writer.add_chat_template(TEMPLATE)


def finish(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


HIDDEN, HEADS, KV_HEADS, LAYERS, FEED = 32, 4, 2, 2, 64


def llama(
    path: Path,
    *,
    kind: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    architecture: str = "llama",
    pre: str | None = "smollm",
    skip: str = "",
    extra: Callable[[gguf.GGUFWriter], Any] = lambda _: None,
) -> dict[str, np.ndarray]:
    """Write a random two-layer Llama to `path`; returns the values under their GGUF names, dequantized."""
    random = np.random.default_rng(0)
    head = HIDDEN // HEADS
    shapes = {"token_embd": (len(tokens()), HIDDEN), "output_norm": (HIDDEN,)}
    for layer in range(LAYERS):
        shapes |= {
            f"blk.{layer}.attn_norm": (HIDDEN,),
            f"blk.{layer}.attn_q": (HEADS * head, HIDDEN),
            f"blk.{layer}.attn_k": (KV_HEADS * head, HIDDEN),
            f"blk.{layer}.attn_v": (KV_HEADS * head, HIDDEN),
            f"blk.{layer}.attn_output": (HIDDEN, HEADS * head),
            f"blk.{layer}.ffn_norm": (HIDDEN,),
            f"blk.{layer}.ffn_gate": (FEED, HIDDEN),
            f"blk.{layer}.ffn_up": (FEED, HIDDEN),
            f"blk.{layer}.ffn_down": (HIDDEN, FEED),
        }
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("Tiny")
    writer.add_license("mit")
    writer.add_context_length(128)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    add_tokenizer(writer, pre)
    extra(writer)
    written: dict[str, np.ndarray] = {}
    for name, shape in shapes.items():
        if name == skip:
            continue
        values = (random.standard_normal(shape) * 0.1).astype(np.float32)
        stored = gguf.GGMLQuantizationType.F32 if len(shape) == 1 else kind
        raw = gguf.quants.quantize(values, stored)
        written[f"{name}.weight"] = gguf.quants.dequantize(raw, stored).reshape(shape)
        writer.add_tensor(f"{name}.weight", raw, raw_dtype=stored)
    finish(writer)
    return written
