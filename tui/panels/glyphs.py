"""Ramps, bars and marks: the shapes carry the meaning, colour only repeats it."""

from __future__ import annotations

import math
from collections.abc import Sequence

RAMP = "▁▂▃▄▅▆▇█"
SHADES = "░▒▓█"
EIGHTHS = " ▏▎▍▌▋▊▉█"
SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"


def ramp(share: float) -> str:
    """One of eight heights for 0 to 1."""
    return RAMP[min(7, max(0, math.ceil(share * 8) - 1))] if math.isfinite(share) else RAMP[7]


def shade(share: float) -> str:
    """One of four densities for 0 to 1."""
    return SHADES[min(3, max(0, math.ceil(share * 4) - 1))]


def bar(share: float, width: int) -> str:
    """A bar of at most `width` cells, in eighths of a cell; something above nothing always shows."""
    if width <= 0 or not math.isfinite(share) or share <= 0:
        return ""
    eighths = min(width * 8, max(1, round(share * width * 8)))
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def superscript(count: int) -> str:
    """A one-cell count; "⁺" stands for ten and more."""
    return SUPERSCRIPTS[count] if 0 <= count <= 9 else "⁺"


def sparkline(values: Sequence[float], width: int, top: float | None = None) -> str:
    """The newest `width` values as heights, scaled to `top` or to the largest of those shown."""
    shown = values[-width:] if width > 0 else []
    highest = max(shown, default=0.0) if top is None else top
    if highest <= 0:
        return RAMP[0] * len(shown)
    return "".join(ramp(value / highest) for value in shown)
