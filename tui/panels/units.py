"""Numbers as people read them."""

from __future__ import annotations


def milliseconds(ns: float) -> str:
    """A duration in milliseconds with as many digits as are of use, no unit: "0.4", "41", "1,204"."""
    value = ns / 1e6
    if value == 0:
        return "0"
    return f"{value:.2g}" if value < 0.995 else f"{value:.1f}" if value < 9.95 else f"{value:,.0f}"


def duration(ns: float) -> str:
    """A duration with its unit: "41 ms", "1.2 s", "2 min 03 s"."""
    seconds = ns / 1e9
    if seconds < 1:
        return f"{milliseconds(ns)} ms"
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    return f"{int(seconds // 60):,} min {int(seconds % 60):02d} s"


def size(count: float) -> str:
    """Bytes with a binary unit: "512 B", "1.5 MiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"


def percent(share: float) -> str:
    """A share as "71.2%"; small ones keep two digits."""
    value = share * 100
    return f"{value:.1f}%" if value >= 0.1 or value == 0 else "<0.1%"


def count(number: float) -> str:
    """A count with thousands separated."""
    return f"{number:,.0f}"


def rate(per_second: float) -> str:
    """Tokens a second: "182", "10.0", "9.4"."""
    return f"{per_second:,.0f}" if per_second >= 99.95 else f"{per_second:.1f}"
