"""A picture of every run, kept in the state folder so that the tour can be saved at its end, also on another day."""

from __future__ import annotations

import contextlib
from pathlib import Path

from ..panels.line import Line
from ..panels.panel import Panel
from ..svg import svg

WIDTH, HEIGHT = 96, 20  # cells of a picture at most


def picture(panel: Panel, title: str, name: str) -> str:
    """SVG of a mounted panel as it would be drawn in an area of our size; `name` is its id."""
    return svg([row.strip(WIDTH, panel.look) for row in _rows(panel)], WIDTH, title, name)


def _rows(panel: Panel) -> list[Line]:
    sentence = (panel.state.lacks(panel.CAPABILITY) if panel.CAPABILITY else "") or panel.waiting()
    if sentence:
        return [Line(sentence, "dim")]
    many = panel.measure(WIDTH, HEIGHT)
    pinned = panel.pinned(WIDTH, HEIGHT)
    rows = [panel.row(y, WIDTH) for y in range(min(many, HEIGHT - len(pinned)))] + pinned
    panel.repaint()  # back to its own size
    return rows or [Line()]


def keep_picture(folder: Path | None, name: str, title: str, panel: Panel) -> None:
    """Write a run's picture. Raises `OSError`."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.svg").write_text(picture(panel, title, name), encoding="utf-8")


def forget_pictures(folder: Path | None) -> None:
    """Pictures of another question or model tell nothing of this one."""
    for file in folder.glob("*.svg") if folder is not None and folder.is_dir() else ():
        with contextlib.suppress(OSError):
            file.unlink()
