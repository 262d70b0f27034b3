"""What a model will take of the memory, told from its configuration and its tensors' shapes before it is loaded.

Pure arithmetic over what `facts.py` reads; no torch. The engine sizes its page pool by `pages_that_fit`, so what is
said here before a load is what the load then takes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal

GROUP, BLOCK, LINE = 32, 16, 64  # int8: inputs that share a scale, outputs stored side by side, bytes of a cache line
WIDTHS = {"float32": 4, "bfloat16": 2, "float16": 2, "int8": 4}  # bytes of a value outside the quantised layers
KV_WIDTHS = {**WIDTHS, "int8": 2}  # bytes of a value in the cache
DEFAULT_PAGES = 1024
POOL_SHARE = 0.5  # of the memory that is free after the weights, at most
PAGE_SIZES = {"cpu": 16, "cuda": 256}  # tokens; FlashAttention takes pages of multiples of 256
LEAST_CONTEXT = 512  # tokens below which a chat is none
_EMBEDDINGS = ("embed_tokens", "token_embd", "wte", "wpe", "embed_in", "embed_positions", "word_embeddings")
_HEADS = ("lm_head", "embed_out")

Shapes = Mapping[str, tuple[int, ...]]
Fit = Literal["whole", "part", "no"]


@dataclasses.dataclass(frozen=True, slots=True)
class Memory:
    """What a model takes at one precision. Everything in bytes, but for `parameters`, `window` and `page_size`."""

    precision: str
    parameters: int
    weights: int  # while it serves
    loading: int  # at the peak of a load, before the cache is made
    page: int  # keys and values of one page over all layers
    page_size: int  # tokens
    window: int  # tokens

    @property
    def cache(self) -> int:
        """Keys and values of one whole window."""
        return -(-self.window // self.page_size) * self.page

    @property
    def needed(self) -> int:
        """With a whole window in the cache."""
        return max(self.loading, self.weights + self.cache)

    def context(self, free: int) -> int:
        """Tokens that one chat may have where `free` bytes are free before the load; 0: it can't be loaded."""
        if self.loading > free:
            return 0
        pages = pages_that_fit(self.page, self.window, self.page_size, free - self.weights)
        return min(self.window, pages * self.page_size)

    def fit(self, free: int) -> Fit:
        """Whether it fits `free` bytes: with its whole window, with a part of it, or not at all."""
        context = self.context(free)
        if context >= self.window:
            return "whole"
        return "part" if context >= min(LEAST_CONTEXT, self.window) else "no"


def estimate(config: Mapping[str, Any], shapes: Shapes, precision: str, window: int = 0, page_size: int = 16) -> Memory:
    """The memory of a model with this config.json and these tensors (GGUF's names or transformers').

    `precision` is one of `WIDTHS`; `window` 0 is the model's own. int8 counts our kernels' packed form, in which a
    head tied to the embedding is stored once more. Raises `KeyError` for a configuration without layers or heads.
    """
    text = text_config(config)
    width = WIDTHS[precision]
    tied = bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", True)))
    kept = {name: shape for name, shape in shapes.items() if not (tied and _is_head(name))}
    parameters = sum(math.prod(shape) for shape in kept.values())
    weights = parameters * width
    if precision == "int8":
        linear = [shape for name, shape in kept.items() if _is_linear(name, shape)]
        heads = [shape for name, shape in kept.items() if tied and _is_embedding(name) and shape[1] % GROUP == 0][:1]
        weights = (parameters - sum(map(math.prod, linear))) * width + sum(map(packed_bytes, linear + heads))
    own = int(text.get("max_position_embeddings") or 0) or 4096
    page = page_bytes(text, page_size, KV_WIDTHS[precision])
    return Memory(precision, parameters, weights, parameters * width, page, page_size, min(window or own, own))


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a configuration that is about text, where it is about images, too."""
    inner = config.get("text_config")
    return inner if isinstance(inner, dict) else config


def page_bytes(config: Mapping[str, Any], page_size: int, width: int) -> int:
    """Keys and values of one page over all layers, `width` bytes a value. Raises `KeyError`."""
    heads = config["num_attention_heads"]
    if config.get("kv_lora_rank"):
        both = config["qk_nope_head_dim"] + config["qk_rope_head_dim"] + config["v_head_dim"]
        return config["num_hidden_layers"] * heads * both * page_size * width
    head = config.get("head_dim") or config["hidden_size"] // heads
    return config["num_hidden_layers"] * (config.get("num_key_value_heads") or heads) * 2 * head * page_size * width


def packed_bytes(shape: tuple[int, ...]) -> int:
    """Bytes of an int8 layer [outputs, inputs] as our kernels keep it: values, and a bfloat16 scale a group."""
    padded = -(-shape[0] // BLOCK) * BLOCK * shape[1]
    return _lines(padded) + _lines(padded // GROUP * 2)


def pages_that_fit(page: int, window: int, page_size: int, free: int) -> int:
    """How many pages of `page` bytes the engine makes by itself: two whole windows, but 1,024 and half of the free
    bytes at most.

    One whole window comes first, if it fits.
    """
    fit = int(free * POOL_SHARE) // max(1, page)
    one_window = -(-window // page_size)
    return max(1, min(fit, max(one_window, min(DEFAULT_PAGES, 2 * one_window))))


def page_size_for(device: str) -> int:
    """Tokens a page where none is asked for, on a device ("cpu", "cuda:0")."""
    return PAGE_SIZES.get(device.split(":")[0], 16)


def auto_precision(device: str, kernels: bool) -> str:
    """What "auto" means on a device ("cpu", "cuda:0"), with our own kernels for the CPU there or not."""
    if device.split(":")[0] != "cpu":
        return "bfloat16"
    return "int8" if kernels else "float32"


def _is_linear(name: str, shape: tuple[int, ...]) -> bool:
    """Whether the engine quantises this tensor: a matrix whose inputs fall into groups, but no table of embeddings.

    Experts are one tensor a layer in transformers, and stay whole.
    """
    if len(shape) != 2 or not name.endswith("weight") or shape[1] % GROUP or ".experts." in name:
        return False
    return not _is_embedding(name)


def _is_embedding(name: str) -> bool:
    return _module(name) in _EMBEDDINGS


def _is_head(name: str) -> bool:
    return name == "output.weight" or _module(name) in _HEADS


def _module(name: str) -> str:
    """ "model.embed_tokens.weight" -> "embed_tokens" """
    return name.rpartition(".")[0].rpartition(".")[2]


def _lines(size: int) -> int:
    return -(-size // LINE) * LINE
