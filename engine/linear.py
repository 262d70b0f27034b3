"""Int8 linear layers: weights in groups of 32 along k, one kernel whatever the number of rows."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from . import kernels

GROUP = 32  # inputs that share a scale
BLOCK = 16  # outputs stored side by side
PAGE = 2**21  # bytes of a huge page


def quantise(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Split `weight` [n, k] into int8 values [n, k] and bfloat16 scales [n, k / 32], so that value * scale is near it.

    Symmetric, in groups of 32 along k, as in GGUF's Q8_0, but with a scale that is rounded up to bfloat16 first: the
    values are chosen for the scale they will be multiplied by. `k` must be a multiple of 32.
    """
    n, k = weight.shape
    groups = weight.detach().float().view(n, k // GROUP, GROUP)
    exact = groups.abs().amax(-1) / 127
    scales = exact.to(torch.bfloat16)
    low = scales.float() < exact
    scales = torch.where(low, torch.nextafter(scales, torch.full_like(scales, torch.inf)), scales)
    inverse = torch.where(scales > 0, 1 / scales.float(), 0.0)
    values = (groups * inverse.unsqueeze(-1)).round_().clamp_(-127, 127)
    return values.to(torch.int8).view(n, k), scales


def dequantise(values: Tensor, scales: Tensor) -> Tensor:
    """The float32 weight [n, k] that `values` and `scales` stand for."""
    n, k = values.shape
    return (values.view(n, k // GROUP, GROUP).float() * scales.float().unsqueeze(-1)).view(n, k)


class Arena:
    """One piece of memory for all the weights of a model, in huge pages where the system has them.

    Every step reads all of it once, and a tenth of the time went to looking up small pages.
    """

    def __init__(self, size: int) -> None:
        if not hasattr(mmap, "MADV_HUGEPAGE"):
            self.left = torch.empty(size, dtype=torch.uint8)
            return
        held = mmap.mmap(-1, -(-size // PAGE) * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        held.madvise(mmap.MADV_HUGEPAGE)
        self.left = torch.frombuffer(held, dtype=torch.uint8)  # keeps `held` alive, and so do its slices

    def take(self, size: int) -> Tensor:
        """The next `size` bytes, on a cache line of their own: uint8 [size]."""
        taken, self.left = self.left[:size], self.left[packed_size(size) :]
        return taken


def packed_size(size: int) -> int:
    """`size` bytes, rounded up to whole cache lines."""
    return -(-size // 64) * 64


class QuantLinear(nn.Module):
    """A linear layer with int8 weights, float in and out.

    With our kernels all rows go through one product whose result for a row does not depend on the other rows.
    Without them (`library` None) the same dequantised values, rounded to bfloat16, go through torch.
    """

    data: Tensor
    scales: Tensor
    bias: Tensor | None

    def __init__(
        self, weight: Tensor, bias: Tensor | None, library: kernels.Library | None, arena: Arena | None = None
    ) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.library = library
        self.bias = None if bias is None else bias.detach().float().contiguous()
        if library is None:
            self.data = dequantise(*quantise(weight)).to(torch.bfloat16)
            return
        arena = arena or Arena(self.storage(weight))
        blocks, groups = -(-self.out_features // BLOCK), self.in_features // GROUP
        self.data = arena.take(blocks * BLOCK * self.in_features).view(blocks, groups, GROUP // 4, BLOCK, 4)
        self.scales = arena.take(blocks * BLOCK * groups * 2).view(torch.bfloat16).view(blocks, groups, BLOCK)
        self.native = kernels.Linear(
            self.data.data_ptr(),
            self.scales.data_ptr(),
            None if self.bias is None else self.bias.data_ptr(),
            self.out_features,
            self.in_features,
        )
        self.reference = ctypes.byref(self.native)
        source = weight.detach().float().contiguous()
        library.pack(self.reference, source.data_ptr(), torch.get_num_threads())

    @staticmethod
    def storage(weight: Tensor) -> int:
        """Bytes that the packed form of `weight` [n, k] takes."""
        padded = -(-weight.shape[0] // BLOCK) * BLOCK * weight.shape[1]
        return packed_size(padded) + packed_size(padded // GROUP * 2)

    def forward(self, x: Tensor) -> Tensor:
        """x [..., k] -> [..., n], in x's dtype."""
        if self.library is None:
            y = F.linear(x.to(torch.bfloat16), self.data).to(x.dtype)
            return y if self.bias is None else y + self.bias.to(x.dtype)
        source = x.float().contiguous()
        y = torch.empty(*x.shape[:-1], self.out_features)
        rows = x.numel() // self.in_features
        self.library.linear(self.reference, source.data_ptr(), y.data_ptr(), rows, torch.get_num_threads())
        return y.to(x.dtype)


def quantize_model(model: nn.Module) -> str:
    """Replace every `nn.Linear` of `model` by a `QuantLinear`, one by one, and return the kernel's name for the card.

    Layers whose inputs are no multiple of 32 stay as they are. A head tied to the embedding is quantised, the
    embedding is not. The model must be on the CPU.
    """
    library = kernels.at_hand()
    places: list[tuple[Any, str, nn.Linear]] = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if type(child) is nn.Linear and child.in_features % GROUP == 0
    ]
    arena = Arena(sum(QuantLinear.storage(child.weight) for *_, child in places)) if library and places else None
    while places:
        parent, name, child = places.pop(0)
        setattr(parent, name, QuantLinear(child.weight, child.bias, library, arena))
        del child  # the float weights go before the next ones are packed
    if library is not None:
        return library.name
    return f"torch bfloat16 ({kernels.problem()})" if kernels.problem() else "torch bfloat16"
