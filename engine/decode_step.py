"""The decode step of Llama-like models as a pure function of tensors, over the page pool.

The general path (runner.forward) calls the transformers model; in a step where every row is one token, Python and
small operators cost more than the arithmetic. Here the step is written once in torch, and once more, for int8
weights, as a single call into kernels.cpp. Models of any other build are refused with the reason.
"""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from . import kernels
from .kv_cache import KVCache
from .linear import GROUP, QuantLinear

FAMILIES = {"llama", "mistral", "qwen2", "qwen3"}
FIXED_ROPE = {"default", "linear", "llama3", "yarn"}  # angles depend on the position alone, not on the length
HEAD_DIMS = range(16, 257, 16)  # kernels_attention.h: blocks of 16, and room for 256
QUERIES = 64  # to a KV head at most, there


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """What a Llama-like model looks like beside its weights."""

    heads: int
    kv_heads: int
    head_dim: int
    scaling: float
    windows: tuple[int, ...]  # by layer: positions a query sees; 0: all

    @property
    def group(self) -> int:
        """Query heads that share one KV head."""
        return self.heads // self.kv_heads


def shape_of(model: nn.Module) -> Shape | str:
    """The shape of `model`, or one clause saying why it has no decode step of its own."""
    config: Any = model.config
    if config.model_type not in FAMILIES:
        return f"no fast decode step for {config.model_type} models"
    rope = (config.rope_parameters or {}).get("rope_type", "default")
    if rope not in FIXED_ROPE:
        return f"no fast decode step for rope type {rope}"
    if config.hidden_act != "silu":
        return f"no fast decode step for activation {config.hidden_act}"
    layers: Any = model.model.layers  # type: ignore[union-attr]
    first = layers[0].self_attn
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    if config.model_type == "mistral":
        windows = [config.sliding_window or 0] * len(layers)
    else:
        windows = [getattr(layer.self_attn, "sliding_window", None) or 0 for layer in layers]
    return Shape(heads, kv_heads, first.head_dim, float(first.scaling), tuple(windows))


class DecodeStep:
    """One token for each of B sequences. Build it with `build`; `kernel` names what multiplies, for the card.

    Called with ids [B], positions [B], slots [B] (all int64), page_table [B, P] int32 and lengths [B] (int64,
    the new position included), it writes keys and values of the new positions to `slots` and returns logits
    [B, vocabulary] float32. Entries of the page table beyond a row's length are never used.
    """

    kernel = ""

    @staticmethod
    def build(model: nn.Module, cache: KVCache) -> tuple[DecodeStep | None, str]:
        """The fastest decode step that serves `model` over `cache`, or None and the reason."""
        shape = shape_of(model)
        if isinstance(shape, str):
            return None, shape
        reason = NativeStep.unfit(model, shape, cache)
        return (TorchStep(model, cache, shape) if reason else NativeStep(model, cache, shape)), ""

    def __call__(self, ids: Tensor, positions: Tensor, slots: Tensor, page_table: Tensor, lengths: Tensor) -> Tensor:
        raise NotImplementedError


class TorchStep(DecodeStep):
    """The step in torch operators, with the model's own layers: any device, any precision."""

    def __init__(self, model: nn.Module, cache: KVCache, shape: Shape) -> None:
        self.model: Any = model
        self.cache = cache
        self.shape = shape
        self.kernel = f"torch {str(next(model.parameters()).dtype).removeprefix('torch.')}"

    @torch.inference_mode()
    def __call__(self, ids: Tensor, positions: Tensor, slots: Tensor, page_table: Tensor, lengths: Tensor) -> Tensor:
        size = self.cache.page_size
        offsets = torch.arange(size, device=ids.device)
        where = (page_table.long().unsqueeze(-1) * size + offsets).flatten()  # [B * C], C = P * size
        place = torch.arange(page_table.shape[1] * size, device=ids.device)
        masks = {window: self._mask(place, lengths, window) for window in set(self.shape.windows)}

        x = self.model.model.embed_tokens(ids)  # [B, hidden]
        cos, sin = self.model.model.rotary_emb(x, positions.unsqueeze(0))  # [1, B, head_dim]
        rotation = cos.transpose(0, 1), sin.transpose(0, 1)
        for index, layer in enumerate(self.model.model.layers):
            mask = masks[self.shape.windows[index]]
            x = x + self._attend(index, layer.self_attn, layer.input_layernorm(x), rotation, slots, where, mask)
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.model.lm_head(self.model.model.norm(x)).float()

    @staticmethod
    def _mask(place: Tensor, lengths: Tensor, window: int) -> Tensor:
        """True where a query looks: [B, 1, 1, C]."""
        seen = place < lengths.unsqueeze(1)
        if window:
            seen &= place >= lengths.unsqueeze(1) - window
        return seen[:, None, None]

    def _attend(
        self,
        index: int,
        layer: Any,
        h: Tensor,  # [B, hidden], normalised
        rotation: tuple[Tensor, Tensor],  # cosines and sines, [B, 1, head_dim] each
        slots: Tensor,  # [B]
        where: Tensor,  # [B * C]
        mask: Tensor,  # [B, 1, 1, C]
    ) -> Tensor:
        shape, rows = self.shape, len(h)
        query = layer.q_proj(h).view(rows, shape.heads, shape.head_dim)
        key = layer.k_proj(h).view(rows, shape.kv_heads, shape.head_dim)
        value = layer.v_proj(h).view(rows, shape.kv_heads, shape.head_dim)
        if hasattr(layer, "q_norm"):
            query, key = layer.q_norm(query), layer.k_norm(key)
        query, key = _rotate(query, *rotation), _rotate(key, *rotation)
        self.cache.write(index, slots, key, value)
        keys = self.cache.keys[index].index_select(0, where).view(rows, -1, shape.kv_heads, shape.head_dim)
        values = self.cache.values[index].index_select(0, where).view(rows, -1, shape.kv_heads, shape.head_dim)
        # The queries of one KV head become the query dimension: enable_gqa is many times slower on a CPU.
        out = F.scaled_dot_product_attention(
            query.view(rows, shape.kv_heads, shape.group, shape.head_dim),
            keys.transpose(1, 2).to(query.dtype),
            values.transpose(1, 2).to(query.dtype),
            attn_mask=mask,
            scale=shape.scaling,
        )  # [B, kv_heads, group, head_dim]
        return layer.o_proj(out.reshape(rows, -1))


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of x [B, heads, head_dim] in halves (arXiv:2104.09864, as Llama lays it out)."""
    low, high = x.chunk(2, -1)
    return x * cos + torch.cat((-high, low), -1) * sin


class NativeStep(DecodeStep):
    """The step as one call into kernels.cpp: int8 weights, float32 everywhere between the products."""

    def __init__(self, model: nn.Module, cache: KVCache, shape: Shape) -> None:
        inner: Any = model.model
        head: Any = model.lm_head
        library: kernels.Library = head.library
        self.library = library
        self.shape = shape
        self.kernel = library.name
        self.threads = torch.get_num_threads()
        self.vocabulary: int = head.out_features
        # Everything whose address the structs hold; it must live as long as they do.
        self.held: list[object] = [model, cache]
        weakref.finalize(self, library.settle)  # a late helper may still read what is freed with this
        positions = torch.arange(min(model.config.max_position_embeddings, len(cache.keys[0])))  # type: ignore[union-attr]
        with torch.inference_mode():
            cos, sin = inner.rotary_emb(torch.zeros(1), positions.unsqueeze(0))  # [1, positions, head_dim]
        half = shape.head_dim // 2
        layers = [self._layer(layer, cache, i, shape.windows[i]) for i, layer in enumerate(inner.layers)]
        self.layers = (kernels.Layer * len(layers))(*layers)
        self.native = kernels.Model(
            layers=self.layers,
            head=head.native,
            embedding=self._address(inner.embed_tokens.weight),
            norm=self._address(inner.norm.weight),
            cos=self._address(cos[0, :, :half]),
            sin=self._address(sin[0, :, :half]),
            layer_count=len(layers),
            hidden=inner.embed_tokens.weight.shape[1],
            heads=shape.heads,
            kv_heads=shape.kv_heads,
            head_dim=shape.head_dim,
            inner=inner.layers[0].mlp.gate_proj.out_features,
            page_size=cache.page_size,
            kv_bfloat16=cache.keys[0].dtype == torch.bfloat16,
            vocabulary=len(inner.embed_tokens.weight),
            positions=len(positions),
            slots=len(cache.keys[0]),
            epsilon=inner.norm.variance_epsilon,
            scaling=shape.scaling,
        )

    @staticmethod
    def unfit(model: nn.Module, shape: Shape, cache: KVCache, packed: bool = True) -> str:
        """Why kernels.cpp can't run this model; empty if it can. `packed` False: it could, once they are compiled."""
        inner: Any = model.model
        linears = [
            getattr(part, name)
            for layer in inner.layers
            for part, names in (
                (layer.self_attn, ("q_proj", "k_proj", "v_proj", "o_proj")),
                (layer.mlp, ("gate_proj", "up_proj", "down_proj")),
            )
            for name in names
        ]
        if not all(isinstance(one, QuantLinear) and (one.library or not packed) for one in (*linears, model.lm_head)):
            return "its layers are not all int8 with our kernels"
        if shape.head_dim not in HEAD_DIMS or shape.group > QUERIES:
            return f"heads of {shape.head_dim}, {shape.group} to a KV head"
        if inner.layers[0].mlp.gate_proj.out_features % GROUP or inner.embed_tokens.weight.dtype != torch.float32:
            return "its inner width or embedding type"
        stores = (
            *(cache.keys[i] for i in range(len(inner.layers))),
            *(cache.values[i] for i in range(len(inner.layers))),
        )
        if any(store.dtype not in (torch.float32, torch.bfloat16) or store.device.type != "cpu" for store in stores):
            return "keys and values are not float32 or bfloat16 in this machine's memory"
        return ""

    def _address(self, tensor: Tensor | None) -> int | None:
        if tensor is None:
            return None
        kept = tensor.detach().float().contiguous()
        self.held.append(kept)
        return kept.data_ptr()

    def _layer(self, layer: Any, cache: KVCache, index: int, window: int) -> kernels.Layer:
        attention, mlp = layer.self_attn, layer.mlp
        return kernels.Layer(
            q=attention.q_proj.native,
            k=attention.k_proj.native,
            v=attention.v_proj.native,
            o=attention.o_proj.native,
            gate=mlp.gate_proj.native,
            up=mlp.up_proj.native,
            down=mlp.down_proj.native,
            attention_norm=self._address(layer.input_layernorm.weight),
            mlp_norm=self._address(layer.post_attention_layernorm.weight),
            q_norm=self._address(attention.q_norm.weight) if hasattr(attention, "q_norm") else None,
            k_norm=self._address(attention.k_norm.weight) if hasattr(attention, "k_norm") else None,
            keys=cache.keys[index].data_ptr(),
            values=cache.values[index].data_ptr(),
            window=window,
        )

    @torch.inference_mode()
    def __call__(self, ids: Tensor, positions: Tensor, slots: Tensor, page_table: Tensor, lengths: Tensor) -> Tensor:
        return self.rows(ids, positions, slots, page_table, lengths, torch.arange(len(ids)))

    def rows(
        self, ids: Tensor, positions: Tensor, slots: Tensor, page_table: Tensor, lengths: Tensor, outputs: Tensor
    ) -> Tensor:
        """As a call, but rows may be positions of one prompt too: logits [R, vocabulary] of the rows `outputs` [R].

        A row's result has the same bits whatever rows stand beside it, and however a prompt is cut into calls.
        """
        wide = [t.to(torch.int64).contiguous() for t in (ids, positions, slots, lengths, outputs)]
        table = page_table.to(torch.int32).contiguous()
        *given, wanted = [t.data_ptr() for t in wide]
        batch = kernels.Batch(*given, table.data_ptr(), wanted, None, len(ids), table.shape[1], len(outputs))
        return self.run(batch)

    def run(self, batch: kernels.Batch) -> Tensor:
        """As `rows`, of a batch that still lacks the place where its logits go."""
        logits = torch.empty(batch.output_count, self.vocabulary)
        batch.logits = logits.data_ptr()
        bad = self.library.step(self.native, batch, self.threads)
        if bad:
            raise ValueError(f"row {bad - 1} has a token, position, slot, length or page outside the model or the pool")
        return logits
