"""Builds a `tokenizers.Tokenizer` and a tokenizer_config.json from the vocabulary inside a GGUF file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import ModelError
from .gguf_header import Header
from .pretokenizers import SPLITS, Split
from .sentencepiece import sentencepiece

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Values of tokenizer.ggml.token_type.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)

_SPECIAL = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}


def build_tokenizer(header: Header) -> tuple[Tokenizer, dict[str, Any]]:
    """The tokenizer and its tokenizer_config.json, with token ids as the file numbers them.

    Control tokens become special added tokens, user-defined ones plain added tokens. Raises `ModelError` for a
    vocabulary kind or a pre-tokenizer that is not known here.
    """
    kind = header.require("tokenizer.ggml.model")
    tokens = header.require("tokenizer.ggml.tokens")
    if kind == "gpt2":
        tokenizer, adds_bos = _byte_level(header, _numbered(header, tokens))
    elif kind == "llama":
        tokenizer, adds_bos = sentencepiece(header, _numbered(header, tokens)), True
    else:
        raise ModelError(
            f"{header.path}: the tokenizer kind {kind} is not supported (supported: gpt2, llama).",
            "Take the model as a safetensors folder, with its tokenizer.json.",
        )
    _add_tokens(tokenizer, header, tokens)
    config = _config(header, tokens, header.get("tokenizer.ggml.add_bos_token", adds_bos))
    _add_template(tokenizer, config, tokens)
    return tokenizer, config


def _byte_level(header: Header, vocabulary: dict[str, int]) -> tuple[Tokenizer, bool]:
    """The tokenizer, and whether it begins a text with BOS where the file does not say."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    split = _split(header)
    merges = [_pair(header, vocabulary, merge) for merge in header.require("tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=split.ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in split.patterns]
        + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, split.adds_bos


def _split(header: Header) -> Split:
    name = header.get("tokenizer.ggml.pre")
    if name in SPLITS:
        return SPLITS[name]
    named = f"the pre-tokenizer {name!r} is not known here" if name else "the file does not name its pre-tokenizer"
    raise ModelError(
        f"{header.path}: {named}, so its token ids can't be trusted (known: {', '.join(SPLITS)}).",
        "Take a newer conversion of the model, or its safetensors folder with tokenizer.json.",
    )


def _pair(header: Header, vocabulary: dict[str, int], merge: str) -> tuple[str, str]:
    left, _, right = merge.partition(" ")
    for token in (left, right, left + right):
        if token not in vocabulary:
            raise ModelError(
                f"{header.path}: the merge {merge!r} needs the token {token!r}, which the vocabulary has not.",
                "Take another conversion of the model.",
            )
    return left, right


def _numbered(header: Header, tokens: list[str]) -> dict[str, int]:
    vocabulary = {token: number for number, token in enumerate(tokens)}
    if len(vocabulary) != len(tokens):
        seen: set[str] = set()
        twice = next(token for token in tokens if token in seen or seen.add(token))
        raise ModelError(f"{header.path}: the token {twice!r} appears twice in the vocabulary.", "Convert it again.")
    return vocabulary


def _add_tokens(tokenizer: Tokenizer, header: Header, tokens: list[str]) -> None:
    from tokenizers import AddedToken

    kinds = header.get("tokenizer.ggml.token_type") or (NORMAL,) * len(tokens)
    added = [
        AddedToken(token, special=kind == CONTROL, normalized=False)
        for token, kind in zip(tokens, kinds, strict=True)
        if kind in (CONTROL, USER_DEFINED)
    ]
    tokenizer.add_tokens(added)


def _config(header: Header, tokens: list[str], adds_bos: bool) -> dict[str, Any]:
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "add_bos_token": bool(adds_bos),
        "add_eos_token": bool(header.get("tokenizer.ggml.add_eos_token", False)),
        "model_max_length": header.require(".context_length"),
    }
    for name, key in _SPECIAL.items():
        number = header.get(f"tokenizer.ggml.{key}_token_id")
        if number is not None:
            config[name] = tokens[number]
    template = header.get("tokenizer.chat_template")
    if template:
        config["chat_template"] = template
    return config


def _add_template(tokenizer: Tokenizer, config: dict[str, Any], tokens: list[str]) -> None:
    from tokenizers import processors

    if config["add_bos_token"] and "bos_token" in config:
        bos = config["bos_token"]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, tokens.index(bos))]
        )
