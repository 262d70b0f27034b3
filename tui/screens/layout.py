"""What is shown at which size. No Textual.

From 120 columns on the chat stands left and the panels right, as many as have room for something; below, the chat
takes the screen and one panel at a time takes its place; under 20 by 6 a line says that this is too small.
"""

from __future__ import annotations

WIDE = 120  # columns
LEAST = (20, 6)  # columns, rows
PANEL_ROWS = 5  # with its border, that show something of use
TWO_COLUMNS = 160
PANELS = ("tokens", "lanes", "triangle", "pages", "candidates", "timeline")
_FIRST = ("candidates", "tokens", "lanes", "pages", "triangle", "timeline")  # what stays when room is short


def too_small(width: int, height: int) -> str:
    """The sentence to show instead of everything, or nothing."""
    if width >= LEAST[0] and height >= LEAST[1]:
        return ""
    return f"too small: {width}x{height}, at least {LEAST[0]}x{LEAST[1]}"


def shown_panels(width: int, rows: int, chosen: str) -> tuple[str, ...]:
    """The panels with a place, in screen order; `rows` is the height for them, `chosen` is always among them."""
    if width < WIDE:
        return (chosen,) if chosen else ()
    columns = 2 if width >= TWO_COLUMNS else 1
    room = max(1, min(len(PANELS), columns * max(1, rows // PANEL_ROWS)))
    order = [chosen, *_FIRST] if chosen else list(_FIRST)
    kept = list(dict.fromkeys(order))[:room]
    return tuple(panel for panel in PANELS if panel in kept)


def size_classes(width: int, height: int, chosen: bool) -> dict[str, bool]:
    """The classes that main.tcss asks for, and whether they hold; `chosen`: the reader went to a panel."""
    narrow = width < WIDE
    return {
        "tiny": bool(too_small(width, height)),
        "narrow": narrow,
        "panel": narrow and chosen,
        "two-columns": width >= TWO_COLUMNS,
        "short": height < 18,
        "shortest": height < 12,
    }
