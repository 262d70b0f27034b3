"""What every test gets: one computing thread, and folders of its own for everything but models."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .scenes import Scene

# Before torch is imported anywhere: threads that spin while others test ruin every timing.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's settings, chats or logs; engine processes inherit this."""
    folder = tmp_path_factory.mktemp("folders")
    for kind in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"CUTAWAY_{kind}_DIR", str(folder / kind.lower()))


@pytest.fixture
def snapped(snap_compare: Callable[..., bool], monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Compare a scene (`scenes.Scene`) in a look ("dark", "light", "no-colour") with its picture."""

    def compare(scene: Scene, look: str = "dark") -> bool:
        monkeypatch.delenv("NO_COLOR", raising=False)
        if look == "no-colour":
            monkeypatch.setenv("NO_COLOR", "1")
        else:
            scene = dataclasses.replace(scene, theme=look)
        return snap_compare(scene.app(), terminal_size=scene.size, run_before=scene.play)

    return compare
