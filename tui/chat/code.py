"""Code blocks to lines: plain while they are being written, highlighted once they are closed. No Textual."""

from __future__ import annotations

from collections.abc import Sequence

from .styled import Line, Styled

HIGHLIGHT_LIMIT = 40_000  # characters; longer blocks stay plain
_GUTTER = "│ "


def code_lines(code: str, origins: Sequence[int], width: int, language: str = "", closed: bool = True) -> list[Line]:
    """Lines of a code block: its language above it, a bar before each line; long lines are broken, not cut.

    `origins` are the source offsets of the code's characters.
    """
    lines: list[Line] = []
    if language:
        head = Styled()
        head.add("┌ ", "code-frame")
        head.foreign(language, "code-frame", [-1] * len(language))
        lines.extend(part.line() for part in head.chop(width))
    styles = highlight(code, language) if closed and language else {}
    offset = 0
    for text in code.split("\n"):
        lines.extend(code_line(text, origins[offset : offset + len(text)], width, styles, offset))
        offset += len(text) + 1
    return lines


def code_line(
    text: str, origins: Sequence[int], width: int, styles: dict[int, str] | None = None, offset: int = 0
) -> list[Line]:
    """One source line of code, `offset` characters into the block, broken into as many lines as it needs."""
    styled = Styled()
    run_start = 0
    names = styles or {}
    for index in range(1, len(text) + 1):
        if index == len(text) or names.get(offset + index) != names.get(offset + run_start):
            name = names.get(offset + run_start, "")
            styled.foreign(text[run_start:index], f"codeblock {name}".strip(), list(origins[run_start:index]))
            run_start = index
    prefix = Styled(_GUTTER if width > 8 else "", "code-frame")
    return [part.line(prefix) for part in styled.chop(width - len(prefix))]


def highlight(code: str, language: str) -> dict[int, str]:
    """Style name of each character of `code` that has one; empty where the language is not known."""
    if len(code) > HIGHLIGHT_LIMIT:
        return {}
    from pygments.lexers import get_lexer_by_name
    from pygments.token import Comment, Keyword, Name, Number, Operator, String
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name(language)
    except ClassNotFound:
        return {}
    families = (
        (Comment, "code-comment"),
        (Keyword, "code-keyword"),
        (String, "code-string"),
        (Number, "code-number"),
        (Operator.Word, "code-keyword"),
        (Name.Function, "code-name"),
        (Name.Class, "code-name"),
        (Name.Decorator, "code-name"),
    )
    styles: dict[int, str] = {}
    for start, kind, value in lexer.get_tokens_unprocessed(code):
        name = next((name for family, name in families if kind in family), "")
        if name:
            styles.update(dict.fromkeys(range(start, start + len(value)), name))
    return styles
