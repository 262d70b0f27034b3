"""Where keys and values live: two tensors a layer, addressed by slot."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import torch

from .plan import PageCopy

LayerShape = tuple[int, int, int]  # kv heads, key width, value width


@dataclasses.dataclass(frozen=True, slots=True)
class KVCache:
    """Keys and values of every page, by layer.

    `keys[layer]` is [pages * page_size, kv_heads, key_width], `values[layer]` the same with value_width; slot
    `page * page_size + offset` holds one position. Zeroed at the start, so that nothing is ever read that nobody
    wrote. Layers may differ in shape.
    """

    keys: dict[int, torch.Tensor]
    values: dict[int, torch.Tensor]
    page_size: int

    @classmethod
    def zeros(
        cls, shapes: dict[int, LayerShape], pages: int, page_size: int, dtype: torch.dtype, device: torch.device
    ) -> KVCache:
        slots = pages * page_size
        return cls(
            {n: torch.zeros(slots, heads, k, dtype=dtype, device=device) for n, (heads, k, _) in shapes.items()},
            {n: torch.zeros(slots, heads, v, dtype=dtype, device=device) for n, (heads, _, v) in shapes.items()},
            page_size,
        )

    @property
    def shapes(self) -> dict[int, LayerShape]:
        """By layer."""
        return {n: (k.shape[1], k.shape[2], self.values[n].shape[2]) for n, k in self.keys.items()}

    def write(self, layer: int, slots: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        """Store key and value [T, kv_heads, width] of the positions whose slots [T] are given."""
        self.keys[layer].index_copy_(0, slots, key.to(self.keys[layer].dtype))
        self.values[layer].index_copy_(0, slots, value.to(self.values[layer].dtype))

    def read(self, layer: int, pages: torch.Tensor, first: int | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of `pages` [P] in order: [P * page_size, kv_heads, width] each.

        `first` is the first page where the pages follow each other in memory: then nothing is copied.
        """
        out = []
        for store in (self.keys[layer], self.values[layer]):
            if first is not None:
                out.append(store[first * self.page_size : (first + len(pages)) * self.page_size])
            else:
                paged = store.view(-1, self.page_size, *store.shape[1:])
                out.append(paged.index_select(0, pages).flatten(0, 1))
        return out[0], out[1]

    def copy_pages(self, copies: Iterable[PageCopy]) -> None:
        """Copy the first slots of some pages to others: the copy in copy-on-write."""
        for copy in copies:
            source, target = copy.source * self.page_size, copy.target * self.page_size
            for store in (*self.keys.values(), *self.values.values()):
                store[target : target + copy.fill] = store[source : source + copy.fill]

    @staticmethod
    def page_bytes(shapes: dict[int, LayerShape], page_size: int, dtype: torch.dtype) -> int:
        """Bytes that one page takes over all layers."""
        return sum(heads * (k + v) for heads, k, v in shapes.values()) * page_size * dtype.itemsize
