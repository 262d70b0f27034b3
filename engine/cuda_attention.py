"""Attention over pages in one call for all rows of a ragged batch: torch's FlashAttention with block tables.

`varlen` reads keys and values where they lie (`torch.nn.attention.varlen`, FlashAttention 2 with paged keys and
values); `gathered` computes the same in plain torch on any device: the reference, and with `padded`, which graphs can
record, the fallback where the kernel does not take this device, torch, head size, data type or page size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from .kv_cache import KVCache

PAGE_SIZE = 256  # FlashAttention 2 takes pages of multiples of this many tokens
CLOSE = 0.02  # relative error that bfloat16 outputs of two right kernels stay below


@dataclasses.dataclass(frozen=True, slots=True)
class Ragged:
    """N sequences' rows, packed. Rows [starts[i], starts[i + 1]) are the last positions of sequence i's context.

    The longest queries and contexts are bounds, not exact: a captured graph has to live with them.
    """

    starts: Tensor  # [N + 1] int32
    used: Tensor  # [N] int32: positions of each context, the new ones included
    table: Tensor  # [N, P] int32: pages; what lies beyond a context is never read
    longest_query: int
    longest_context: int
    ends: Tensor | None = None  # [N + 1] int32: sums of `used` from 0 on, made once a step

    def summed(self) -> Ragged:
        """The same with its `ends`, so that not every layer has to sum."""
        return dataclasses.replace(self, ends=F.pad(self.used.cumsum(0, dtype=torch.int32), (1, 0)))


Attend: TypeAlias = Callable[[Tensor, KVCache, int, Ragged, float, int | None], Tensor]


def varlen(q: Tensor, cache: KVCache, layer: int, ragged: Ragged, scale: float, window: int | None) -> Tensor:
    """q [T, H, D] of a layer over its pages, causal, `window` positions back if given: [T, H, D]."""
    from torch.nn.attention.varlen import varlen_attn

    out = varlen_attn(
        q,
        _paged(cache.keys[layer], cache.page_size),
        _paged(cache.values[layer], cache.page_size),
        ragged.starts,
        ragged.ends if ragged.ends is not None else ragged.summed().ends,
        ragged.longest_query,
        ragged.longest_context,
        scale=scale,
        window_size=(-1 if window is None else window - 1, 0),
        enable_gqa=q.shape[1] != cache.keys[layer].shape[1],
        seqused_k=ragged.used,
        block_table=ragged.table,
    )
    assert isinstance(out, Tensor)
    return out


def _paged(store: Tensor, page_size: int) -> Tensor:
    """[slots, kv_heads, width] as [pages, page_size, kv_heads, width], without a copy."""
    return store.view(-1, page_size, *store.shape[1:])


def gathered(q: Tensor, cache: KVCache, layer: int, ragged: Ragged, scale: float, window: int | None) -> Tensor:
    """As `varlen`, one sequence after the other, its pages copied together. Waits for the device; not for graphs."""
    keys, values = (_paged(store[layer], cache.page_size) for store in (cache.keys, cache.values))
    out = torch.empty(*q.shape[:2], values.shape[-1], dtype=q.dtype, device=q.device)
    starts, lengths = ragged.starts.tolist(), ragged.used.tolist()
    for number, length in enumerate(lengths):
        begin, end = starts[number], starts[number + 1]
        pages = ragged.table[number, : -(-length // cache.page_size)].long()
        k, v = (store[pages].flatten(0, 1)[:length].transpose(0, 1).to(q.dtype) for store in (keys, values))
        columns = torch.arange(length, device=q.device)
        rows = torch.arange(length - (end - begin), length, device=q.device)[:, None]
        mask = columns <= rows
        if window is not None:
            mask &= columns > rows - window
        group = q.shape[1] // k.shape[0]
        attended = F.scaled_dot_product_attention(
            q[begin:end].transpose(0, 1)[None],
            k.repeat_interleave(group, 0)[None],
            v.repeat_interleave(group, 0)[None],
            attn_mask=mask,
            scale=scale,
        )
        out[begin:end] = attended[0].transpose(0, 1)
    return out


def padded(q: Tensor, cache: KVCache, layer: int, ragged: Ragged, scale: float, window: int | None) -> Tensor:
    """As `varlen` where each sequence has one row, over whole tables copied together: graphs can record it.

    It costs what the tables' width costs, however short the contexts are.
    """
    keys, values = (_paged(store[layer], cache.page_size) for store in (cache.keys, cache.values))
    rows, pages = len(q), ragged.table.flatten().long()
    k, v = (store[pages].view(rows, -1, *store.shape[2:]).transpose(1, 2).to(q.dtype) for store in (keys, values))
    columns = torch.arange(k.shape[2], device=q.device)
    mask = columns < ragged.used[:, None]  # [N, C]
    if window is not None:
        mask &= columns >= ragged.used[:, None] - window
    folded = q.view(rows, k.shape[1], -1, q.shape[2])  # [N, Hkv, G, D]
    out = F.scaled_dot_product_attention(folded, k, v, attn_mask=mask[:, None, None], scale=scale)
    return out.reshape(rows, q.shape[1], -1)


def plain(q: Tensor, cache: KVCache, layer: int, ragged: Ragged, scale: float, window: int | None) -> Tensor:
    """As `varlen`, in plain torch."""
    attend = padded if ragged.longest_query == 1 else gathered
    return attend(q, cache, layer, ragged, scale, window)


def first_line(error: BaseException) -> str:
    """The beginning of what torch says, which can go on for a page; its type where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:120]


@torch.inference_mode()
def problem(cache: KVCache, heads: int) -> str:
    """Why `varlen` can't serve this cache; empty where it can: tried on a prompt and a decode, against `gathered`.

    The trial writes random keys and values to the first pages and clears them afterwards, so nothing may be in them.
    """
    layer, store = next(iter(cache.keys.items()))
    device, size = store.device, cache.page_size
    if len({x.shape[1:] for x in (*cache.keys.values(), *cache.values.values())}) > 1:
        return "its layers' keys and values differ in shape"
    if len(store) < 2 * size:
        return "there are fewer than two pages"
    generator = torch.Generator().manual_seed(0)
    for kept in (cache.keys[layer], cache.values[layer]):
        kept[: 2 * size] = torch.randn(2 * size, *kept.shape[1:], generator=generator).to(device, kept.dtype)
    query = torch.randn(6, heads, store.shape[2], generator=generator).to(device, store.dtype)
    ragged = Ragged(
        starts=torch.tensor([0, 5, 6], dtype=torch.int32, device=device),
        used=torch.tensor([size + 1, 3], dtype=torch.int32, device=device),
        table=torch.tensor([[1, 0], [0, 0]], dtype=torch.int32, device=device),
        longest_query=5,
        longest_context=2 * size,
    )
    try:
        wanted = gathered(query, cache, layer, ragged, 0.1, None).float()
        difference = (varlen(query, cache, layer, ragged, 0.1, None).float() - wanted).norm() / wanted.norm()
        return "" if float(difference) < CLOSE else f"torch's varlen_attn is off by {float(difference):.2g}"
    except TypeError:
        return f"varlen_attn of torch {torch.__version__} takes no block tables, from 2.12 on it does"
    except (RuntimeError, NotImplementedError, ValueError, ImportError) as error:
        return f"torch's varlen_attn can't: {first_line(error)}"
    finally:
        for kept in (cache.keys[layer], cache.values[layer]):
            kept[: 2 * size] = 0
