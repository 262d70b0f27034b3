"""One visible character for one invisible one, where text is edited and its columns must stay. No Textual."""

from __future__ import annotations

from ..printable import IDLE_JOINER, printable


def visible(text: str) -> str:
    """`text` with every character that `printable` would change shown as one character. Tabs stay."""
    if printable(text) == text:
        return text
    text = IDLE_JOINER.sub("\ufffd", text)  # here, because a joiner is idle by what stands before it
    return "".join(shown if len(shown := printable(character)) == 1 else "\ufffd" for character in text)
