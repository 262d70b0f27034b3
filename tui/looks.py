"""Themes read from files, and a screen without any colour. No theme is made in code.

A theme file is TOML: `name`, `dark`, `[colours]` with Textual's colour names, and `[variables]`. The user's own
folder comes last, so that a file there replaces a theme of the same name.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from rich.segment import Segment
from rich.style import Style
from textual.color import Color, ColorParseError
from textual.css.constants import VALID_STYLE_FLAGS
from textual.filter import LineFilter
from textual.theme import Theme

DEFAULT = "cutaway-dark"
_OURS = Path(__file__).parent.parent / "themes"
MUTED, DISABLED = 0.62, 0.45  # of the way from the background to the foreground
_AUTO = re.compile(r"auto( \d{1,3}%)?")  # a colour that Textual chooses by the ground
_ON_ANY_GROUND = ("text", "text-muted", "text-disabled", "block-cursor-foreground", "link-color", "link-color-hover",
                  "button-color-foreground")  # fmt: skip
_WORDS = "|".join(sorted(VALID_STYLE_FLAGS - {"none", "not"}, key=len, reverse=True))
_STYLE = re.compile(rf"(not )?({_WORDS})( (not )?({_WORDS}))*")
_NAME = re.compile(r"[a-z][a-z0-9-]*")
_COLOURS = frozenset(
    {"primary", "secondary", "accent", "warning", "error", "success"}
    | {"foreground", "background", "surface", "panel", "boost"}
)


class ThemeError(Exception):
    """A theme file that can't be used; the message names the file and what is wrong."""


def read_theme(name: str, text: str) -> Theme:
    """Make a theme from the TOML `text` of the file called `name`. Raises `ThemeError`."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ThemeError(f"Theme file {name} is not TOML: {error}.") from None
    unknown = sorted(set(values) - {"name", "dark", "colours", "variables"})
    if unknown:
        raise ThemeError(
            f"Theme file {name} has the unknown key {unknown[0]!r}; it knows name, dark, colours, variables."
        )
    colours, variables = values.get("colours", {}), values.get("variables", {})
    for table, given in (("colours", colours), ("variables", variables)):
        if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
            raise ThemeError(f"Theme file {name}: [{table}] must hold strings only.")
    if "primary" not in colours:
        raise ThemeError(f"Theme file {name} lacks the colour primary.")
    for key, value in colours.items():
        if key not in _COLOURS:
            raise ThemeError(
                f"Theme file {name} has the unknown colour {key!r}; it knows {', '.join(sorted(_COLOURS))}."
            )
        try:
            Color.parse(value)
        except ColorParseError:
            raise ThemeError(f"Theme file {name}: {key} = {value!r} is no colour.") from None
    for key, value in variables.items():
        _check_variable(name, key, value)
    title, dark = values.get("name", Path(name).stem), values.get("dark", True)
    if not isinstance(title, str) or not title or not isinstance(dark, bool):
        raise ThemeError(f"Theme file {name}: name must be a string and dark true or false.")
    return Theme(name=title, dark=dark, variables=_derived(colours) | variables, **colours)


def _check_variable(file: str, name: str, value: str) -> None:
    """A wrong value would end the program where it is put into the rules. Raises `ThemeError`."""
    if name.endswith("-style"):
        if value != "none" and not _STYLE.fullmatch(value):
            raise ThemeError(f"Theme file {file}: {name} = {value!r} is no style of text, such as bold or none.")
        return
    usual = name in _ON_ANY_GROUND and _AUTO.fullmatch(value)
    if not usual:
        try:
            Color.parse(value)
        except ColorParseError:
            raise ThemeError(f"Theme file {file}: {name} = {value!r} is no colour.") from None
    if not _NAME.fullmatch(name):
        raise ThemeError(f"Theme file {file}: {name!r} is no variable's name.")


def _derived(colours: Mapping[str, str]) -> dict[str, str]:
    """What a theme need not say. Textual mixes muted text when it knows the ground; our lines know it too late."""
    if "foreground" not in colours or "background" not in colours:
        return {}
    ground, text = Color.parse(colours["background"]), Color.parse(colours["foreground"])
    track = {f"scrollbar-background{state}": ground.hex for state in ("", "-hover", "-active")}
    return track | {"text-muted": ground.blend(text, MUTED).hex, "text-disabled": ground.blend(text, DISABLED).hex}


def load_themes(user_folder: Path | None = None) -> tuple[dict[str, Theme], list[str]]:
    """Every theme by name, the user's last; and a sentence for each file that could not be used."""
    problems: list[str] = []
    texts = [(file.name, file.read_text(encoding="utf-8")) for file in sorted(_OURS.glob("*.toml"))]
    for path in sorted(user_folder.glob("*.toml")) if user_folder is not None and user_folder.is_dir() else []:
        try:
            texts.append((str(path), path.read_text(encoding="utf-8")))
        except (OSError, UnicodeError) as error:
            problems.append(f"Theme file {path} can't be read: {error}.")
    themes: dict[str, Theme] = {}
    for name, text in texts:
        try:
            theme = read_theme(name, text)
        except ThemeError as error:
            problems.append(str(error))
        else:
            themes[theme.name] = theme
    return themes, problems


def no_colour(env: Mapping[str, str] | None = None) -> bool:
    """NO_COLOR is set and not empty (https://no-color.org)."""
    return bool((os.environ if env is None else env).get("NO_COLOR"))


class Colourless(LineFilter):
    """Takes every colour out of what is written; bold, underline and reverse stay."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            Segment(text, _without_colour(style) if style is not None else None, control)
            for text, style, control in segments
        ]


_kept: dict[Style, Style] = {}


def _without_colour(style: Style) -> Style:
    found = _kept.get(style)
    if found is None:
        if len(_kept) > 4096:
            _kept.clear()
        found = _kept[style] = style.without_color
    return found
