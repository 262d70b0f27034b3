"""Our engine's core in the process that measures it, served as it will be."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cutaway.engine.core import EngineCore
    from cutaway.engine.protocol import AnyEvent


def loaded(model: str = "", threads: int = 0, wanted: int = 0) -> tuple[EngineCore, list[AnyEvent]]:
    """A started core, its own kernels compiled, and everything that it says.

    `threads` are prepared for, 0 as many as there are cores; `wanted` are used, 0 as many as it chooses.
    """
    from cutaway.engine.threads import prepare_environment

    prepare_environment(threads=threads)  # before torch is imported
    from cutaway.engine.build import build
    from cutaway.engine.protocol import Load
    from cutaway.engine.takeover import settle

    events: list[AnyEvent] = []
    core = build(Load(model=model, threads=wanted), events.append, lambda _: None, lambda: False)
    core.start()
    settle(core)
    return core, events
