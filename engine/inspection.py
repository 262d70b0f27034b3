"""What the core tells when it is asked: totals, one page, and which pages a command has changed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec
import torch

from .errors import SettingError
from .memory_speed import bytes_per_second
from .protocol import Metrics, PageDetail, Step

if TYPE_CHECKING:
    from .core import EngineCore


def metrics(core: EngineCore, memory: bool) -> Metrics:
    """The totals; with `memory`, how fast the device reads as many bytes as a step does."""
    running = sum(s.sequence.lane >= 0 for r in core.requests.values() for s in r.samples)
    alive = sum(s.reason is None for r in core.requests.values() for s in r.samples)
    totals = core.totals.event(core.scheduler.pool.totals(), running, max(0, alive - running))
    speed = bytes_per_second(core.card.step_bytes, torch.device(core.card.device)) if memory else 0
    return msgspec.structs.replace(totals, memory_bytes_per_s=speed)


def page_detail(core: EngineCore, page: int) -> PageDetail:
    """What one page holds. Raises `SettingError` for a page that is not there."""
    pool = core.scheduler.pool
    if not 0 <= page < pool.pages:
        raise SettingError("page", f"page must be from 0 to {pool.pages - 1}, not {page}.")
    detail = pool.detail(page)
    pieces = tuple(core.tokenizer.piece(token) for token in detail.token_ids)
    return msgspec.structs.replace(detail, pieces=pieces)


def page_changes(core: EngineCore, iteration: int) -> Step | None:
    """Pages that a command freed or forgot, as an iteration without lanes: nothing ran. None where none changed."""
    changes = core.scheduler.pool.drain_changes() if core.switches.inspect else ()
    if not changes:
        return None
    return Step(
        iteration=iteration,
        started_ns=time.monotonic_ns(),
        pages=changes,
        pool=core.scheduler.pool.totals(),
        policy=core.scheduler.policy,
    )
