"""What fits: weights and pages against the memory that is free, before anything is allocated."""

from __future__ import annotations

import psutil
import torch

from .errors import ModelError, OutOfMemory
from .kv_cache import KVCache, LayerShape
from .models import LocalModel
from .models.facts import read_facts
from .models.memory import POOL_SHARE, pages_that_fit
from .protocol import Load


def free_bytes(device: torch.device) -> int:
    """Memory that can still be taken on a device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return psutil.virtual_memory().available


def require(local: LocalModel, precision: str, device: torch.device, prepared: bool = False) -> None:
    """Raise `OutOfMemory` where the weights alone are more than what is free; what can't be told is tried.

    `prepared`: they are read straight into their places, without a copy of all of them before.
    """
    try:
        told = read_facts(local.folder).memory(precision)
    except ModelError:
        return
    needed, free = told.weights if prepared else told.loading, free_bytes(device)
    if needed > free:
        raise OutOfMemory(
            f"{local.name} needs {needed / 1e9:.1f} GB to be loaded as {precision} and {free / 1e9:.1f} GB are free.",
            "Choose a smaller model, or close what takes the memory.",
        )


def pool(
    shapes: dict[int, LayerShape],
    load: Load,
    window: int,
    dtype: torch.dtype,
    device: torch.device,
    spare: int = 0,
    kept: KVCache | None = None,
) -> tuple[KVCache, int]:
    """The pages that a load asks for and `spare` ones, zeroed, and how many bytes one takes.

    `kept` are the pages of the same model served in another way, which then are the ones. Raises `OutOfMemory`, and
    `ModelError` where it does not fit those pages.
    """
    page_bytes = KVCache.page_bytes(shapes, load.page_size, dtype)
    if kept is not None:
        if kept.shapes != shapes or any(store.dtype != dtype for store in kept.keys.values()):
            raise ModelError("The model would keep other keys and values than those in its pages.")
        return kept, page_bytes
    free = free_bytes(device)
    pages = load.pages or pages_that_fit(page_bytes, window, load.page_size, free)
    advice = f"Use --pages {max(1, int(free * POOL_SHARE) // max(1, page_bytes))} or fewer."
    if pages * page_bytes > free:
        raise OutOfMemory(
            f"{pages} pages need {pages * page_bytes / 1e9:.1f} GB and {free / 1e9:.1f} GB are free.", advice
        )
    try:
        return KVCache.zeros(shapes, pages + spare, load.page_size, dtype, device), page_bytes
    except (RuntimeError, MemoryError) as error:
        raise OutOfMemory(f"{pages} pages of {page_bytes} bytes do not fit the device.", advice) from error
