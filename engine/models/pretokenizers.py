r"""How byte-level BPE tokenizers split text before merging, by the name a GGUF file gives in `tokenizer.ggml.pre`.

A GGUF file does not hold the split patterns, only a name for them. The names and their groups are llama.cpp's
(src/llama-vocab.cpp), the patterns are those of the models' own tokenizer.json files. A name that is not listed is
refused: with a wrong split the ids differ, and the model answers worse without any error. "default", which
llama.cpp gives to files without a name, is among the refused: it is a guess.

Patterns are applied one after the other, each to the pieces that the ones before left; what a pattern matches
becomes a piece of its own, and so does what lies between two matches.
"""

from __future__ import annotations

import dataclasses

_DIGIT = r"\p{N}"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"


def _words(digits: str, marks: str = r" ?[^\s\p{L}\p{N}]+[\r\n]*") -> str:
    """Contractions apart, words with one sign before them, digits, marks, line ends: as cl100k splits."""
    return rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}|{marks}|{_SPACES}"


def _cased_words(digits: str, contraction: str) -> str:
    """Like `_words`, but a word also ends where capitals begin, and a contraction stays on it: as o200k splits."""
    lead = r"[^\r\n\p{L}\p{N}]?"
    return (
        rf"{lead}{_UPPER}*{_LOWER}+{contraction}|{lead}{_UPPER}+{_LOWER}*{contraction}"
        rf"|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Split:
    """One way to split. `ignore_merges`: a piece that is a token as a whole is that token, whatever the merges say."""

    patterns: tuple[str, ...]
    ignore_merges: bool = False
    adds_bos: bool = False  # where the file does not say


_GPT2_WORDS = Split((_GPT2,))
_DIGITS_THEN_GPT2 = Split((_DIGIT, _GPT2))
_LLAMA3 = Split((_words(r"\p{N}{1,3}"),), ignore_merges=True, adds_bos=True)
_THREE_DIGITS = Split(_LLAMA3.patterns)
_QWEN2 = Split((_words(_DIGIT),))
_O200K = Split((_cased_words(r"\p{N}{1,3}", f"{_CONTRACTION}?"),))

SPLITS: dict[str, Split] = {
    **dict.fromkeys(("gpt-2", "phi-2", "mpt", "olmo", "jais", "exaone4", "gigachat", "a.x-4.0", "mellum"), _GPT2_WORDS),
    **dict.fromkeys(("trillion", "granite-docling"), _GPT2_WORDS),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell"), _DIGITS_THEN_GPT2),
    **dict.fromkeys(("exaone", "minerva-7b"), _DIGITS_THEN_GPT2),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "midm-2.0"), _LLAMA3),
    **dict.fromkeys(("dbrx", "smaug-bpe", "glm4", "chatglm-bpe"), _THREE_DIGITS),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "kormo"), _QWEN2),
    **dict.fromkeys(("gpt-4o", "llama4", "kanana2"), _O200K),
    "tekken": Split((_cased_words(_DIGIT, ""),), ignore_merges=True, adds_bos=True),
    "seed-coder": Split((_words(_DIGIT, r" ?[^\s\p{L}\p{N}\r\n]+"),)),
    "deepseek-coder": Split((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", _DIGIT)),
}
