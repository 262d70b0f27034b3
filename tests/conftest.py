"""What every test gets: one computing thread, and folders of its own for everything but models."""

from __future__ import annotations

import os

import pytest

# Before torch is imported anywhere: threads that spin while others test ruin every timing.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's settings, chats or logs; engine processes inherit this."""
    folder = tmp_path_factory.mktemp("folders")
    for kind in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"CUTAWAY_{kind}_DIR", str(folder / kind.lower()))
