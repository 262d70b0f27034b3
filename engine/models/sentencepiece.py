"""Rebuilds a SentencePiece BPE tokenizer (GGUF's tokenizer kind "llama") from its pieces and scores.

SentencePiece joins, again and again, the two neighbours whose union is the piece with the best score. tokenizers
wants that as a list of merges, so every way to cut a piece in two becomes one, best piece first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ModelError
from .gguf_header import Header

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPACE = "▁"
_NORMAL, _UNUSED = 1, 5


def sentencepiece(header: Header, vocabulary: dict[str, int]) -> Tokenizer:
    """The tokenizer for `vocabulary` (piece -> id), without its added tokens. Raises `ModelError` without scores.

    With `add_space_prefix` every stretch of text between added tokens gets a space in front, even where it begins
    with one: SentencePiece's dummy prefix, and llama.cpp's reading of the flag.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers

    unknown = header.get("tokenizer.ggml.unknown_token_id")
    tokens = header.require("tokenizer.ggml.tokens")
    model = models.BPE(
        vocab=vocabulary,
        merges=_merges(header, vocabulary),
        unk_token=None if unknown is None else tokens[unknown],
        fuse_unk=True,
        byte_fallback=all(f"<0x{byte:02X}>" in vocabulary for byte in range(256)),
    )
    tokenizer = Tokenizer(model)
    prefixed = header.get("tokenizer.ggml.add_space_prefix", True)
    prefix = [normalizers.Prepend(SPACE)] if prefixed else []
    tokenizer.normalizer = normalizers.Sequence([*prefix, normalizers.Replace(" ", SPACE)])
    strip = [decoders.Strip(" ", 1, 0)] if prefixed else []
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    return tokenizer


def _merges(header: Header, vocabulary: dict[str, int]) -> list[tuple[str, str]]:
    """Every cut of every ordinary piece into two pieces, by falling score.

    Control tokens, bytes and the unknown token are never made by merging: what a user types must not turn into one.
    """
    scores = header.require("tokenizer.ggml.scores")
    kinds = header.get("tokenizer.ggml.token_type") or (_NORMAL,) * len(scores)
    if not len(scores) == len(kinds) == len(vocabulary):
        raise ModelError(
            f"{header.path}: the vocabulary has {len(vocabulary)} tokens, {len(scores)} scores and {len(kinds)} types.",
            "Take another conversion of the model.",
        )
    ordinary = {piece for piece, number in vocabulary.items() if kinds[number] in (_NORMAL, _UNUSED)}
    found: list[tuple[float, int, int, str, str]] = []
    for piece in ordinary:
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in ordinary and right in ordinary:
                rank = -scores[vocabulary[piece]]
                found.append((rank, vocabulary[left], vocabulary[right], left, right))
    found.sort()
    return [(left, right) for *_, left, right in found]
