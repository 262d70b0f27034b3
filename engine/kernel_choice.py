"""Which precision and which matrix products serve, and what the card says of them."""

from __future__ import annotations

from typing import Any

import torch

from . import kernels, linear
from .errors import SettingError
from .models.memory import auto_precision
from .plan import StepPlan, Work
from .runner import Runner
from .sequence import Sequence
from .threads import calibrate, usable_cores
from .weights import DTYPES

PRECISIONS = ("auto", *DTYPES, "int8")


def precision(wanted: str, device: torch.device) -> tuple[str, torch.dtype]:
    """Resolve "auto" and return the precision's name and the dtype that weights are loaded in.

    On a CPU that is int8 where our kernels serve, now or when they are compiled: the fastest, at a loss that can't be
    seen (mean KL below 0.01).
    Raises `SettingError` for a precision that is unknown or not for this device.
    """
    if wanted not in PRECISIONS:
        raise SettingError("precision", f"precision must be one of {', '.join(PRECISIONS)}, not {wanted!r}.")
    if wanted == "int8" and device.type != "cpu":
        raise SettingError("precision", f"precision int8 is for the CPU, not for {device.type}.", "Use bfloat16.")
    if wanted == "auto":
        wanted = auto_precision(device.type, device.type == "cpu" and kernels.expected())
    return wanted, DTYPES.get(wanted, torch.float32)


def prepare(model: Any, precision: str) -> str:
    """Quantise the model where the precision asks for it. Returns the name of what multiplies, for the card."""
    return linear.quantize_model(model) if precision == "int8" else f"torch {precision}"


def unpacked(model: Any) -> bool:
    """Whether there are int8 layers that our kernels do not multiply."""
    return any(isinstance(layer, linear.QuantLinear) and layer.library is None for layer in model.modules())


def kv_dtype(model: Any) -> torch.dtype:
    """What keys and values are kept in: half the bytes beside int8 weights, whose rounding is the larger one."""
    parameter = next(model.parameters())
    quantised = any(isinstance(layer, linear.QuantLinear) for layer in model.modules())
    return torch.bfloat16 if quantised else parameter.dtype


def weight_bytes(model: Any) -> int:
    """Bytes of everything a step may read: parameters and quantised layers, a tied tensor once."""
    tensors = {p.data_ptr(): p.numel() * p.element_size() for p in model.parameters()}
    total = sum(tensors.values())
    for layer in model.modules():
        if isinstance(layer, linear.QuantLinear):
            total += layer.data.numel() * layer.data.element_size()
            total += 0 if layer.bias is None else layer.bias.numel() * layer.bias.element_size()
            if layer.library is not None:
                total += layer.scales.numel() * layer.scales.element_size()
    return total


def threads(runner: Runner, page_size: int, device: torch.device) -> int:
    """How many threads decode fastest on this machine as it is now, measured on steps of one token.

    Page 0 must be nobody's: the measurement writes there.
    """
    most = usable_cores()
    if device.type != "cpu" or most == 1:
        return 1 if device.type == "cpu" else torch.get_num_threads()
    length = min(page_size, 8)
    sequence = Sequence("calibrate", 0, [0] * length, length, length + 1)
    work = Work(sequence, 0, "decode", length - 1, 1, (0,), (length - 1,), (0,), True)
    plan = StepPlan(0, "continuous", (work,))

    def step(count: int) -> None:
        runner.use_threads(count)
        runner.run(plan)

    chosen = calibrate(step, most).threads
    runner.release(sequence.key)
    return chosen
