"""What every test gets: one computing thread, folders of its own for everything but models, and no clock to lose to."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from .patience import PATIENCE

if TYPE_CHECKING:
    from .scenes import Scene

# Before torch is imported anywhere: threads that spin while others test ruin every timing.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples everywhere, and no deadline: what passes on one machine passes on a slower one. To look for new
# counterexamples: pytest --hypothesis-profile=search
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("steady", settings.get_profile("search"), derandomize=True)
settings.load_profile("steady")


@pytest.fixture(autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's settings, chats or logs; engine processes inherit this."""
    folder = tmp_path_factory.mktemp("folders")
    for kind in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"CUTAWAY_{kind}_DIR", str(folder / kind.lower()))


@pytest.fixture(autouse=True)
def the_same_numbers_everywhere() -> None:
    """What a test draws without a seed of its own is what it drew on every other machine."""
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


@pytest.fixture(autouse=True)
def disks_take_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program goes on after a moment when a disk is slow; a test waits for what it has saved."""
    if "cutaway.tui.store.chats" in sys.modules:
        for name in ("READ_S", "PATIENCE_S"):
            monkeypatch.setattr(f"cutaway.tui.store.chats.{name}", PATIENCE)


@pytest.fixture(autouse=True)
def screens_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A `Pilot` waits until what it has sent is handled."""
    if "textual.app" in sys.modules:
        from . import quiet

        quiet.install(monkeypatch)


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
