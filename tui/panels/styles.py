"""The named styles of all panels, made from the theme's variables.

They are no component classes of each panel: Textual would style every one of them anew, panel by panel, before the
first paint and after every change of a class.
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.style import Style
from textual.color import Color, ColorParseError

STYLES = {  # name: the variable with its colour, and how it is written
    "dim": ("text-muted", ""),
    "strong": ("", "bold"),
    "accent": ("text-accent", ""),
    "good": ("text-success", ""),
    "warn": ("text-warning", ""),
    "bad": ("text-error", ""),
    "cursor": ("", "reverse bold"),
    "mark": ("", "underline"),
    "system": ("text-warning", ""),
    "user": ("text-primary", ""),
    "assistant": ("text-success", ""),
    "tool": ("text-accent", ""),
    "control": ("text-secondary", "italic"),
    "raw": ("foreground", ""),
}
PALETTE = 8
FALLBACK_PALETTE = ("text-primary", "text-success", "text-warning", "text-error", "text-secondary", "text-accent")


def named(name: str, variables: Mapping[str, str]) -> Style:
    """The style called `name`, or "request:N" for the colour of the Nth request. Raises `KeyError`."""
    if name.startswith("request:"):
        return _of_request(int(name[8:]), variables)
    variable, written = STYLES[name]
    return _colour(variables.get(variable, ""), variables) + Style.parse(written or "none")


def _of_request(number: int, variables: Mapping[str, str]) -> Style:
    own = [variables[name] for i in range(1, PALETTE + 1) if (name := f"request-{i}") in variables]
    palette = own or [variables[name] for name in FALLBACK_PALETTE if name in variables]
    return _colour(palette[number % len(palette)], variables) if palette else Style()


def _colour(value: str, variables: Mapping[str, str]) -> Style:
    """A foreground; "auto 60%", as Textual's own themes have it, is that far from the background to the foreground."""
    try:
        if value.startswith("auto"):
            share = float(value.removeprefix("auto").strip().removesuffix("%") or 100) / 100
            colour = Color.parse(variables["background"]).blend(Color.parse(variables["foreground"]), share)
        else:
            colour = Color.parse(value)
    except (ColorParseError, KeyError, ValueError):
        return Style()
    return Style.from_color(colour.rich_color)
