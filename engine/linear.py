"""Int8 linear layers: weights in groups of 32 along k, one kernel whatever the number of rows."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from . import kernels

GROUP = 32  # inputs that share a scale
BLOCK = 16  # outputs stored side by side


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


def pack(values: Tensor, scales: Tensor) -> tuple[Tensor, Tensor]:
    """Lay int8 values [n, k] and scales [n, k / 32] out as kernels.cpp reads them.

    Returns bytes (value + 128) uint8 [n/16, k/32, 8, 16, 4] and scales bfloat16 [n/16, k/32, 16], with outputs padded
    to a multiple of 16.
    """
    n, k = values.shape
    missing = -n % BLOCK
    biased = F.pad((values.to(torch.int16) + 128).to(torch.uint8), (0, 0, 0, missing), value=128)
    blocks = biased.view(-1, BLOCK, k // GROUP, GROUP // 4, 4).permute(0, 2, 3, 1, 4).contiguous()
    padded = F.pad(scales, (0, 0, 0, missing))
    return blocks, padded.view(-1, BLOCK, k // GROUP).transpose(1, 2).contiguous()


class QuantLinear(nn.Module):
    """A linear layer with int8 weights, float in and out.

    With our kernels all rows go through one product whose result for a row does not depend on the other rows.
    Without them the same dequantised values, rounded to bfloat16, go through torch.
    """

    data: Tensor
    scales: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None, library: kernels.Library | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self.library = library
        self.bias = None if bias is None else bias.detach().float()
        values, scales = quantise(weight)
        if library is None:
            self.data = dequantise(values, scales).to(torch.bfloat16)
            return
        self.data, self.scales = pack(values, scales)
        self.native = kernels.Linear(
            self.data.data_ptr(),
            self.scales.data_ptr(),
            None if self.bias is None else self.bias.data_ptr(),
            self.out_features,
            self.in_features,
        )
        self.reference = ctypes.byref(self.native)

    def forward(self, x: Tensor) -> Tensor:
        """x [..., k] -> [..., n], in x's dtype."""
        if self.library is None:
            y = F.linear(x.to(torch.bfloat16), self.data).to(x.dtype)
            return y if self.bias is None else y + self.bias.to(x.dtype)
        rows = x.numel() // self.in_features
        source = x.float().contiguous()
        y = torch.empty(*x.shape[:-1], self.out_features)
        self.library.linear(self.reference, source.data_ptr(), y.data_ptr(), rows, torch.get_num_threads())
        return y.to(x.dtype)


def quantize_model(model: nn.Module) -> str:
    """Replace every `nn.Linear` of `model` by a `QuantLinear`, one by one, and return the kernel's name.

    Layers whose inputs are no multiple of 32 stay as they are. A head tied to the embedding is quantised, the
    embedding is not. The model must be float32 on the CPU.
    """
    library = kernels.load()
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear and child.in_features % GROUP == 0:
                setattr(parent, name, QuantLinear(child.weight, child.bias, library))
    return library.name if library else f"torch bfloat16 ({kernels.problem()})"
