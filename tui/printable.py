"""The one border for text that is not ours: whatever a model, a file or a peer wrote, a terminal may show the result.

Nothing is removed: controls become visible pictures, invisible directions and blanks are spelled out. What is dangerous
is translated character by character, so text may be cut anywhere, also in the middle of an escape sequence.
"""

from __future__ import annotations

import re
import unicodedata

KEPT = "\n\t"
PICTURES = 0x2400  # U+2400 and up are pictures of the controls, in their order

# What can reorder or hide text: Unicode Standard Annex 9 (bidirectional controls) and chapter 23.2 (format characters).
_HIDING: tuple[tuple[int, int], ...] = (
    (0x00AD, 0x00AD),  # soft hyphen
    (0x034F, 0x034F),  # combining grapheme joiner
    (0x061C, 0x061C),
    (0x115F, 0x1160),  # fillers, as the next two
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200B),
    (0x200E, 0x200F),
    (0x2028, 0x202E),  # line and paragraph separator among them
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF9, 0xFFFB),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),  # tags and supplementary variation selectors: text can be smuggled in them
)

# The zero-width joiner and non-joiner belong to the writing of Persian, Hindi and emoji families, hiding nothing there.
# After a plain character, or one after the other, they have no such reason.
IDLE_JOINER = re.compile("(?<=[\x00-\x7f\u200c\u200d])[\u200c\u200d]")

# What ASCII offers for the commonest characters beyond it.
_PLAIN = {
    "‘": "'", "’": "'", "‚": ",", "“": '"', "”": '"', "„": '"', "–": "-", "—": "--", "…": "...", "•": "*", "·": ".",
    "→": "->", "←": "<-", "↑": "^", "↓": "v", "✓": "v", "✔": "v", "✗": "x", "✘": "x", "×": "x", "−": "-", "≤": "<=",
    "≥": ">=", "≠": "!=", "\u00a0": " ", "▸": ">", "●": "*", "█": "#", "▓": "#", "▪": "-", "─": "-", "│": "|",
    "\ufffd": "?", "⟨": "<", "⟩": ">",
}  # fmt: skip


def printable(text: str) -> str:
    """`text` with nothing in it that a terminal would obey and nothing that hides.

    Newlines and tabs stay. ESC becomes ␛, DEL ␡, other C0 controls their pictures; C1 controls, bidirectional and
    zero-width controls are spelled out like ⟨U+202E⟩, but for joiners within a script that needs them; a lone surrogate
    becomes U+FFFD.
    """
    if "\u200c" in text or "\u200d" in text:
        text = IDLE_JOINER.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text)
    return text.translate(_TABLE)


def encodable(text: str, encoding: str) -> str:
    """`printable(text)` in what an output of `encoding` can show: others become plain signs or <U+2713>."""
    shown = printable(text)
    try:
        shown.encode(encoding)
    except UnicodeEncodeError:
        return "".join(_shown_in(char, encoding) for char in shown)
    except LookupError:
        return encodable(text, "ascii")
    return shown


def printable_ascii(text: str) -> str:
    """`printable(text)` for an output that knows ASCII only: ESC becomes ^[."""
    return encodable(text, "ascii")


def _shown_in(char: str, encoding: str) -> str:
    try:
        char.encode(encoding)
    except UnicodeEncodeError:
        code = ord(char)
        if PICTURES <= code < PICTURES + 32:
            return "^" + chr(code - PICTURES + 64)
        if char == "␡":
            return "^?"
        return _PLAIN.get(char) or _without_accents(char) or f"<U+{code:04X}>"
    return char


def _without_accents(char: str) -> str:
    base = unicodedata.normalize("NFD", char).encode("ascii", "ignore").decode()
    return base if base.isprintable() else ""


class _Table(dict[int, str]):
    """How a character is shown, worked out where it is first met: there are six thousand, and no start needs them."""

    def __missing__(self, code: int) -> str:
        shown = self[code] = _shown(code)
        return shown


def _shown(code: int) -> str:
    if code < 32:
        return chr(code) if chr(code) in KEPT else chr(PICTURES + code)
    if code == 0x7F:
        return "␡"
    if 0xD800 <= code < 0xE000:
        return "\ufffd"
    hiding = 0x80 <= code < 0xA0 or any(first <= code <= last for first, last in _HIDING)
    return f"⟨U+{code:04X}⟩" if hiding else chr(code)


_TABLE = _Table()
