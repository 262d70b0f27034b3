"""Inline markdown tokens to styled text, each character keeping its place in the source. No Textual."""

from __future__ import annotations

from collections.abc import Sequence

from markdown_it.token import Token

from .styled import DECORATION, Styled

_OPENS = {"strong_open": "strong", "em_open": "em", "s_open": "strike", "link_open": "link"}
_CLOSES = {"strong_close": "strong", "em_close": "em", "s_close": "strike", "link_close": "link"}
_REACH = 24  # characters of markup looked past to find the next one


class Aligner:
    """Finds where rendered characters stand in the source.

    Markdown keeps the order of what it shows, so the next shown character is the next equal one of the source,
    past some markup.
    """

    def __init__(self, source: str, start: int, end: int) -> None:
        self.source = source
        self.at = start
        self.end = end

    def take(self, text: str) -> list[int]:
        """Source offsets of `text`, one a character, -1 where it is not in the source (an entity's character)."""
        if not text:
            return []
        found = self.source.find(text, self.at, self.end)
        if found >= 0 and (len(text) > 3 or found - self.at <= _REACH):
            self.at = found + len(text)
            return list(range(found, self.at))
        origins: list[int] = []
        for character in text:
            found = self.source.find(character, self.at, min(self.end, self.at + _REACH))
            if found < 0:
                origins.append(DECORATION)
            else:
                origins.append(found)
                self.at = found + 1
        return origins

    def skip(self, text: str) -> None:
        """Pass over markup that is not shown, if it comes next."""
        found = self.source.find(text, self.at, min(self.end, self.at + len(text) + _REACH))
        if found >= 0:
            self.at = found + len(text)


def inline(tokens: Sequence[Token], aligner: Aligner, base: str = "") -> list[Styled]:
    """Render inline tokens; one `Styled` a line, broken where the writer broke it."""
    parts = [Styled()]
    active: list[str] = [base] if base else []
    links: list[str] = []
    for token in tokens:
        style = " ".join(active)
        if token.type in ("text", "text_special", "html_inline"):
            parts[-1].foreign(token.content, style, aligner.take(token.content))
        elif token.type == "code_inline":
            parts[-1].foreign(token.content, f"{style} code".strip(), aligner.take(token.content))
        elif token.type in ("softbreak", "hardbreak"):
            aligner.take("\n")
            parts.append(Styled())
        elif token.type in _OPENS:
            active.append(_OPENS[token.type])
            if token.type == "link_open":
                links.append(str(token.attrs.get("href", "")))
        elif token.type in _CLOSES:
            _drop(active, _CLOSES[token.type])
            if token.type == "link_close":
                _address(parts[-1], links.pop() if links else "", aligner)
        elif token.type == "image":
            address = str(token.attrs.get("src", ""))
            parts[-1].add("▣ ", style)
            parts[-1].foreign(token.content, f"{style} link".strip(), aligner.take(token.content))
            _address(parts[-1], address, aligner)
    return parts


def _drop(active: list[str], name: str) -> None:
    for index in range(len(active) - 1, -1, -1):
        if active[index] == name:
            del active[index]
            return


def _address(part: Styled, address: str, aligner: Aligner) -> None:
    """Show where a link leads, unless its text says so: nothing is hidden behind a label."""
    if not address or part.text.endswith(address):
        aligner.skip(")")
        return
    part.add(" (", "dim")
    part.foreign(address, "dim link", aligner.take(address))
    part.add(")", "dim")
    aligner.skip(")")
