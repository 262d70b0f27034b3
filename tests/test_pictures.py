"""The README's pictures are what the screen draws today; after a wanted change, `make screenshots` draws them anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from screenshots import make


@pytest.mark.parametrize("name", make.PICTURES)
def test_a_picture_of_the_readme_is_what_the_screen_draws(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("CUTAWAY_CONFIG_DIR", "CUTAWAY_DATA_DIR", "CUTAWAY_STATE_DIR", "NO_COLOR"):
        monkeypatch.setenv(variable, "")  # which `make` sets: put back afterwards
    shown = make.FOLDER / f"{name}.svg"
    monkeypatch.setattr(make, "FOLDER", tmp_path)
    make.make([name])
    assert (tmp_path / f"{name}.svg").read_text(encoding="utf-8") == shown.read_text(encoding="utf-8")


def test_the_readme_shows_no_picture_that_is_not_made() -> None:
    assert {path.stem for path in make.FOLDER.glob("*.svg")} == set(make.PICTURES)
