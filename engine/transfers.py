"""Copies between the host and a device that nobody waits for until the numbers are wanted.

A plain copy stops the host until everything launched before has run; from and to pinned memory it does not. torch
gives pinned memory out again only when the copies that were started from or to it have ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


def to_device(values: Sequence[object] | NDArray[Any], dtype: torch.dtype, device: torch.device) -> Tensor:
    """`values`, numbers or lists of them, as a tensor on `device`."""
    return torch.tensor(values, dtype=dtype, pin_memory=device.type == "cuda").to(device, non_blocking=True)


class Passed:
    """A point in a device's stream that the host may have to wait for; on a CPU everything has passed."""

    def __init__(self, device: torch.device) -> None:
        self._event: torch.cuda.Event | None = None
        if device.type == "cuda":
            self._event = torch.cuda.Event()
            self._event.record(torch.cuda.current_stream(device))

    def wait(self) -> None:
        """Until everything that was launched before has run."""
        if self._event is not None:
            self._event.synchronize()


class Fetched:
    """A tensor on its way to the host."""

    def __init__(self, tensor: Tensor) -> None:
        self._here = tensor
        if tensor.device.type == "cuda":
            self._here = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            self._here.copy_(tensor, non_blocking=True)
        self._copied = Passed(tensor.device)

    def wait(self) -> NDArray[Any]:
        """The numbers, once they are here."""
        self._copied.wait()
        return self._here.numpy()
