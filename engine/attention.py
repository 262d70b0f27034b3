"""Attention over pages, plugged into any transformers model through `AttentionInterface`.

The model calls `paged_attention` with the rows of a packed, ragged batch. Their keys and values are written to the
cache's slots first, then each row attends to its own sequence's pages: PagedAttention (Kwon et al., 2023) in plain
torch. No mask of the whole batch is ever made. `scaling`, `sliding_window`, `softcap` and sinks are honoured.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
import torch.nn.functional as F

from . import cuda_attention
from .batch import Batch, Span
from .cuda_attention import Attend, Ragged
from .kv_cache import KVCache, LayerShape

NAME = "cutaway_paged"


@dataclasses.dataclass(slots=True)
class AttentionContext:
    """What `paged_attention` needs beyond its tensors; handed through the model as one keyword argument.

    With `cache` None it is a dry forward: plain causal attention over the rows, and `shapes` learns each layer's.
    """

    batch: Batch | None
    cache: KVCache | None
    shapes: dict[int, LayerShape]
    by_row: bool = False  # every row by itself, so that its bits depend on no other
    ragged: Ragged | None = None  # instead of `batch`: all rows in one call (cuda_attention.py)
    slots: torch.Tensor | None = None  # [T] int64, with `ragged`
    attend: Attend = cuda_attention.varlen  # likewise


def paged_attention(
    module: torch.nn.Module,
    query: torch.Tensor,  # [1, heads, T, key_width]
    key: torch.Tensor,  # [1, kv_heads, T, key_width]
    value: torch.Tensor,  # [1, kv_heads, T, value_width]
    attention_mask: torch.Tensor | None = None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    cutaway: AttentionContext | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attend every row to its own sequence's context. Returns [1, T, heads, value_width] and no weights."""
    if cutaway is None:
        raise RuntimeError("paged attention was called without its context; the model drops keyword arguments")
    layer = int(module.layer_idx)  # type: ignore[arg-type]
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))  # [T, heads or kv_heads, width]
    rule = Rule(scaling if scaling is not None else q.shape[-1] ** -0.5, sliding_window, softcap, s_aux)
    if cutaway.cache is not None and cutaway.ragged is not None and cutaway.slots is not None:
        if not rule.plain:
            raise RuntimeError("attention in one call knows neither a soft cap nor sinks")
        cutaway.cache.write(layer, cutaway.slots, k, v)
        return cutaway.attend(q, cutaway.cache, layer, cutaway.ragged, rule.scale, rule.window)[None], None
    if cutaway.cache is None or cutaway.batch is None:
        cutaway.shapes[layer] = (k.shape[1], k.shape[2], v.shape[2])
        return _attend_span(q, k, v, 0, rule)[None], None

    cache, batch = cutaway.cache, cutaway.batch
    cache.write(layer, batch.slots, k, v)
    out = torch.empty(*q.shape[:2], v.shape[2], dtype=q.dtype, device=q.device)
    if cutaway.by_row:
        _attend_by_row(out, q, layer, cache, batch, rule)
        return out[None], None
    if batch.decodes:
        out[: batch.decodes] = _attend_decodes(q[: batch.decodes], layer, cache, batch, rule)
    for span in batch.spans:
        rows = slice(span.row, span.row + span.count)
        ks, vs = _context(cache, layer, span, q.dtype)
        out[rows] = _attend_span(q[rows], ks, vs, span.start, rule)
    return out[None], None


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """How one layer scores: scale, sliding window, logit soft cap (Gemma 2), sinks (GPT-OSS)."""

    scale: float
    window: int | None
    softcap: float | None
    sinks: torch.Tensor | None  # [heads]

    @property
    def plain(self) -> bool:
        return self.softcap is None and self.sinks is None


def _context(cache: KVCache, layer: int, span: Span, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    k, v = cache.read(layer, span.pages, span.first)
    return k[: span.length].to(dtype), v[: span.length].to(dtype)


def _attend_span(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, start: int, rule: Rule) -> torch.Tensor:
    """q [n, H, D] at positions start.., k and v [start + n, Hkv, .]: causal, within the window. Returns [n, H, Dv]."""
    n, length, group = q.shape[0], k.shape[0], q.shape[1] // k.shape[1]
    low = 0 if rule.window is None else max(0, start - rule.window + 1)
    k, v = k[low:], v[low:]
    seen = rule.window is None or length <= rule.window
    whole = start == 0 and seen
    mask = None
    if not whole or not rule.plain:
        rows = torch.arange(start, length, device=q.device)[:, None]
        columns = torch.arange(low, length, device=q.device)[None, :]
        mask = columns <= rows
        if rule.window is not None:
            mask &= columns > rows - rule.window
    qh = q.transpose(0, 1)[None]  # [1, H, n, D]
    kh = k.transpose(0, 1).repeat_interleave(group, 0)[None]  # [1, H, length - low, D]
    vh = v.transpose(0, 1).repeat_interleave(group, 0)[None]
    if rule.plain:
        causal = mask is None and n > 1
        out = F.scaled_dot_product_attention(qh, kh, vh, attn_mask=mask, is_causal=causal, scale=rule.scale)
    else:
        sinks = None if rule.sinks is None else rule.sinks.view(1, -1, 1, 1)
        out = _spelled_out(qh, kh, vh, mask, sinks, rule)
    return out[0].transpose(0, 1)


def _attend_decodes(q: torch.Tensor, layer: int, cache: KVCache, batch: Batch, rule: Rule) -> torch.Tensor:
    """q [B, H, D], one row a sequence. The query heads of a KV head become the query dimension."""
    rows, heads, width = q.shape
    k, v = cache.read(layer, batch.page_table.flatten(), None)
    k = k.view(rows, -1, *k.shape[1:])[:, : batch.longest].transpose(1, 2).to(q.dtype)  # [B, Hkv, C, D]
    v = v.view(rows, -1, *v.shape[1:])[:, : batch.longest].transpose(1, 2).to(q.dtype)
    folded = q.view(rows, k.shape[1], heads // k.shape[1], width)  # [B, Hkv, G, D]
    mask = batch.decode_mask(cache.page_size, rule.window)[..., : batch.longest]
    if rule.plain:
        out = F.scaled_dot_product_attention(folded, k, v, attn_mask=mask, scale=rule.scale)
    else:
        sinks = None if rule.sinks is None else rule.sinks.view(1, k.shape[1], -1, 1)
        out = _spelled_out(folded, k, v, mask, sinks, rule)
    return out.reshape(rows, heads, v.shape[-1])


def _attend_by_row(out: torch.Tensor, q: torch.Tensor, layer: int, cache: KVCache, batch: Batch, rule: Rule) -> None:
    """Fill out [T, H, Dv] from q [T, H, D], each row over exactly the context that it sees."""
    for row in range(batch.decodes):
        length = int(batch.lengths[row])
        pages = batch.page_table[row, : -(-length // cache.page_size)]
        k, v = cache.read(layer, pages, None)
        out[row] = _attend_row(q[row], k[:length], v[:length], rule)
    for span in batch.spans:
        k, v = cache.read(layer, span.pages, span.first)
        for offset in range(span.count):
            length = span.start + offset + 1
            out[span.row + offset] = _attend_row(q[span.row + offset], k[:length], v[:length], rule)


def _attend_row(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, rule: Rule) -> torch.Tensor:
    """q [H, D], the last of the positions that k and v [length, Hkv, .] hold. Returns [H, Dv]."""
    low = 0 if rule.window is None else max(0, len(k) - rule.window)
    kh = k[low:].transpose(0, 1)[None].to(q.dtype)  # [1, Hkv, C, D]
    vh = v[low:].transpose(0, 1)[None].to(q.dtype)
    folded = q.view(1, k.shape[1], -1, q.shape[-1])  # [1, Hkv, G, D]
    if rule.plain:
        out = F.scaled_dot_product_attention(folded, kh, vh, scale=rule.scale)
    else:
        sinks = None if rule.sinks is None else rule.sinks.view(1, k.shape[1], -1, 1)
        out = _spelled_out(folded, kh, vh, None, sinks, rule)
    return out.reshape(q.shape[0], -1)


def _spelled_out(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    sinks: torch.Tensor | None,
    rule: Rule,
) -> torch.Tensor:
    """Attention with a soft cap or sinks, which no fused kernel offers on every device. Scores in float32."""
    scores = (q @ k.transpose(-1, -2)).float() * rule.scale
    if rule.softcap is not None:
        scores = torch.tanh(scores / rule.softcap) * rule.softcap
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    if sinks is None:
        return torch.softmax(scores, -1).to(v.dtype) @ v
    # A sink is a column that takes probability and gives no value (Xiao et al., 2023).
    column = sinks.float().expand(*scores.shape[:-1], 1)
    return torch.softmax(torch.cat([scores, column], -1), -1)[..., :-1].to(v.dtype) @ v


def register() -> None:
    """Make `attn_implementation=NAME` known to transformers. No mask function is registered on purpose."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, paged_attention)
