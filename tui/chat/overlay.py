"""What lies over the lines of a conversation: the names of their styles, and spans lit up."""

from __future__ import annotations

from collections.abc import Iterable

from rich.style import Style
from textual.strip import Strip

STYLES = {
    *("strong", "em", "strike", "code", "link", "dim", "bullet", "quote", "frame", "token", "match"),
    "match-current",
    *("h1", "h2", "h3", "h4", "h5", "h6"),
    *("codeblock", "code-frame", "code-comment", "code-keyword", "code-string", "code-number", "code-name"),
    *("head-user", "head-assistant", "head-current"),
    *("state-busy", "state-end", "state-cut", "state-failed", "state-note"),
}


def lit(strip: Strip, spans: Iterable[tuple[int, int, Style]]) -> Strip:
    """The strip with a style laid over spans [start, end) of its characters."""
    for start, end, style in spans:
        if start < end:
            cuts = [strip.index_to_cell_position(start), strip.index_to_cell_position(end), strip.cell_length]
            before, inside, *after = strip.divide(cuts)
            strip = Strip.join([before, inside.apply_style(style), *after])
    return strip
