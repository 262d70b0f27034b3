"""What bounds decoding: how many bytes of weights a token needs, and how fast this machine reads that many."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor, nn

from . import linear
from .threads import usable_cores

LEAST, MOST = 32 * 2**20, 2**30  # bytes of the buffer that is read
ROUNDS = 5
WIDTH = 4096  # of the matrix that the buffer is seen as


def step_bytes(model: nn.Module) -> int:
    """Bytes of weights that a decode step of one sequence reads.

    The embedding is only looked up, so it counts where it serves as the head too. Of the experts of a mixture, those
    that a token is sent to count.
    """
    looked_up = {id(layer.weight) for layer in model.modules() if isinstance(layer, nn.Embedding)}
    multiplied = {id(layer.weight) for layer in model.modules() if isinstance(layer, nn.Linear)}
    share = _active_share(model.config)
    total = 0.0
    for name, parameter in model.named_parameters():  # a tied one is named once
        if id(parameter) not in looked_up or id(parameter) in multiplied:
            total += _size(parameter) * (share if ".experts." in name else 1.0)
    for name, layer in model.named_modules():
        if isinstance(layer, linear.QuantLinear):
            size = _size(layer.data) + (_size(layer.scales) if layer.library is not None else 0)
            total += size * (share if ".experts." in name else 1.0)
    return round(total)


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _active_share(config: Any) -> float:
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    experts = next((n for key in ("num_experts", "num_local_experts") if (n := getattr(text, key, None))), None)
    chosen = getattr(text, "num_experts_per_tok", None)
    return chosen / experts if experts and chosen else 1.0


@torch.inference_mode()
def bytes_per_second(size: int, device: torch.device) -> int:
    """How fast `device` reads `size` bytes again and again, as decoding reads its weights.

    The best of some rounds of a dot product and of a matrix times a vector, with one thread and with one a core. The
    size matters: what a large cache still holds is read faster than memory. Takes a part of a second. The number of
    torch's threads is as before afterwards.
    """
    size = min(MOST, max(LEAST, size))
    row = WIDTH * 4
    buffer = (
        linear.Arena(size).take(size) if device.type == "cpu" else torch.empty(size, dtype=torch.uint8, device=device)
    )
    matrix = buffer[: size // row * row].view(torch.float32).view(-1, WIDTH)
    matrix.zero_()
    vector = torch.zeros(WIDTH, device=device)
    flat = matrix.view(-1)
    threads = torch.get_num_threads()
    best = float("inf")
    try:
        for count in sorted({1, usable_cores()}) if device.type == "cpu" else [threads]:
            torch.set_num_threads(count)
            for _ in range(ROUNDS):
                best = min(best, _seconds(lambda: torch.dot(flat, flat), device))
                best = min(best, _seconds(lambda: torch.mv(matrix, vector), device))
    finally:
        torch.set_num_threads(threads)
    return round(matrix.numel() * 4 / best)


def _seconds(work: Any, device: torch.device) -> float:
    began = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - began
