r"""How byte-level BPE tokenizers split text before merging, by the name a GGUF file gives in `tokenizer.ggml.pre`.

A GGUF file does not hold the split patterns, only a name for them; the names are those of llama.cpp's
converter and vocabulary reader, the patterns are those of the models' own tokenizer.json files. A name that is
not listed is refused: with a wrong split the ids differ, and the model answers worse without any error.

Patterns are applied one after the other, each to the pieces that the ones before left; what a pattern matches
becomes a piece of its own, and so does what lies between two matches.
"""

from __future__ import annotations

import dataclasses

_DIGIT = r"\p{N}"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"


def _tiktoken(digits: str) -> str:
    """The cl100k family's pattern; `digits` is how many of them stay together."""
    return (
        rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{digits}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


_LLAMA3 = _tiktoken("{1,3}")
_QWEN2 = _tiktoken("")


@dataclasses.dataclass(frozen=True, slots=True)
class Split:
    """One way to split. `ignore_merges`: a piece that is a token as a whole is that token, whatever the merges say."""

    patterns: tuple[str, ...]
    ignore_merges: bool = False
    adds_bos: bool = False  # where the file does not say


_DIGITS_THEN_GPT2 = Split((_DIGIT, _GPT2))

SPLITS: dict[str, Split] = {
    "gpt-2": Split((_GPT2,)),
    "smollm": _DIGITS_THEN_GPT2,
    "llama-bpe": Split((_LLAMA3,), ignore_merges=True, adds_bos=True),
    "qwen2": Split((_QWEN2,)),
}
