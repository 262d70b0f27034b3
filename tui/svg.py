"""Rows of the screen as an SVG picture."""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.segment import Segment, Segments
from textual.strip import Strip


def svg(strips: Iterable[Strip], width: int, title: str, name: str) -> str:
    """SVG text of rows that are `width` cells wide; `name` keeps its styles apart from another picture's."""
    rows = list(strips)
    console = Console(
        width=width,
        height=len(rows),
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        record=True,
        legacy_windows=False,
    )
    for row in rows:
        console.print(Segments([*row, Segment.line()]), end="", soft_wrap=True)
    # The cells are the terminal's: no font may join "<|" and "|>" into one sign.
    style = CONSOLE_SVG_FORMAT.replace("-matrix {{", "-matrix {{\n        font-variant-ligatures: none;", 1)
    return console.export_svg(title=title, unique_id=f"cutaway-{name}", code_format=style)
