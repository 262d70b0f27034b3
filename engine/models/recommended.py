"""A short list of good small chat models on the hub (`recommended.toml`). Data only: nothing is asked of the hub."""

from __future__ import annotations

import functools
import tomllib
from importlib import resources

import msgspec

from .facts import Facts


class Recommended(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One model of the list. `download` is in bytes and approximate; `gated` models need their makers' leave."""

    id: str
    about: str
    license: str
    download: int
    architecture: str
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    inner: int
    vocabulary: int
    tied: bool
    window: int  # tokens
    gated: bool = False

    def facts(self) -> Facts:
        """What its files will say, but for norms and biases, which take next to nothing."""
        config = {
            "model_type": self.architecture,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "hidden_size": self.hidden,
            "max_position_embeddings": self.window,
            "tie_word_embeddings": self.tied,
        }
        wide, narrow = self.heads * self.head_dim, self.kv_heads * self.head_dim
        layer = {
            "q_proj": (wide, self.hidden),
            "k_proj": (narrow, self.hidden),
            "v_proj": (narrow, self.hidden),
            "o_proj": (self.hidden, wide),
            "gate_proj": (self.inner, self.hidden),
            "up_proj": (self.inner, self.hidden),
            "down_proj": (self.hidden, self.inner),
        }
        shapes = {f"layers.{n}.{name}.weight": shape for n in range(self.layers) for name, shape in layer.items()}
        shapes["embed_tokens.weight"] = (self.vocabulary, self.hidden)
        if not self.tied:
            shapes["lm_head.weight"] = (self.vocabulary, self.hidden)
        return Facts(config, shapes)


@functools.cache
def recommended() -> tuple[Recommended, ...]:
    """The list, smallest first."""
    text = resources.files("cutaway.engine.models").joinpath("recommended.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text)["model"], tuple[Recommended, ...])
