"""What fits: weights and pages against the memory that is free, before anything is allocated."""

from __future__ import annotations

import psutil
import torch

from .errors import OutOfMemory
from .kv_cache import KVCache, LayerShape
from .models import LocalModel
from .protocol import Load

DEFAULT_PAGES = 1024
POOL_SHARE = 0.5  # of the memory that is free after the weights, at most


def free_bytes(device: torch.device) -> int:
    """Memory that can still be taken on a device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return psutil.virtual_memory().available


def require(local: LocalModel, device: torch.device) -> None:
    """Raise `OutOfMemory` where the weights alone are more than what is free."""
    stored = sum(path.stat().st_size for path in local.folder.glob("*.safetensors"))
    free = free_bytes(device)
    if stored > free:
        raise OutOfMemory(
            f"{local.name} needs about {stored / 1e9:.1f} GB for its weights and {free / 1e9:.1f} GB are free.",
            "Choose a smaller model.",
        )


def pool(
    shapes: dict[int, LayerShape], load: Load, window: int, dtype: torch.dtype, device: torch.device
) -> tuple[KVCache, int]:
    """The pages that a load asks for, zeroed, and how many bytes one takes. Raises `OutOfMemory`."""
    page_bytes = KVCache.page_bytes(shapes, load.page_size, dtype)
    free = free_bytes(device)
    pages = load.pages or _pages_that_fit(page_bytes, window, load.page_size, free)
    advice = f"Use --pages {max(1, int(free * POOL_SHARE) // max(1, page_bytes))} or fewer."
    if pages * page_bytes > free:
        raise OutOfMemory(
            f"{pages} pages need {pages * page_bytes / 1e9:.1f} GB and {free / 1e9:.1f} GB are free.", advice
        )
    try:
        return KVCache.zeros(shapes, pages, load.page_size, dtype, device), page_bytes
    except (RuntimeError, MemoryError) as error:
        raise OutOfMemory(f"{pages} pages of {page_bytes} bytes do not fit the device.", advice) from error


def _pages_that_fit(page_bytes: int, window: int, page_size: int, free: int) -> int:
    """Pages by default: two whole windows, but 1,024 pages and half of the free memory at most.

    One whole window comes first, if it fits.
    """
    fit = int(free * POOL_SHARE) // max(1, page_bytes)
    one_window = -(-window // page_size)
    return max(1, min(fit, max(one_window, min(DEFAULT_PAGES, 2 * one_window))))
