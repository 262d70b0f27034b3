"""Prompt templates: texts with {fields} to fill in. Doubled braces stand for braces; others mean nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...engine.errors import SettingError
from .values import nearest

_PIECE = re.compile(r"\{\{|\}\}|\{([^\W\d]\w*)\}")
_BRACES = {"{{": "{", "}}": "}"}


def fields(text: str) -> list[str]:
    """The names of the fields, in order, each once."""
    return list(dict.fromkeys(match[1] for match in _PIECE.finditer(text) if match[1]))


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with every field replaced by its value. Raises `SettingError` naming what is missing or too much."""
    names = fields(text)
    if missing := [name for name in names if name not in values]:
        many = "s" if len(missing) > 1 else ""
        raise SettingError(
            missing[0], f"the template needs the field{many} {', '.join(missing)}.", f"Give -f {missing[0]}=VALUE."
        )
    for name in values:
        if name not in names:
            near = nearest(name, names)
            known = f"It has {', '.join(names)}." if names else "It has none."
            raise SettingError(name, f"the template has no field {name!r}.", f"Did you mean {near}?" if near else known)
    return _PIECE.sub(lambda match: values[match[1]] if match[1] else _BRACES[match[0]], text)


def escaped(text: str) -> str:
    """A template that is `text` and nothing else."""
    return text.replace("{", "{{").replace("}", "}}")
