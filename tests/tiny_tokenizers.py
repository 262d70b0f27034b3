"""Small tokenizers made on the spot, saved as model folders: byte-level, and like sentencepiece with byte fallback."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LINES = [
    "Why is the sky blue? Because light of short waves is scattered more than light of long waves.",
    "The answer is 42. It is what it is, said the user to the assistant; and the system agreed.",
    "def f(a, b):\n    return (a + b) * 2\n\nprint(f(1, 2))  # three and three",
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor.",
    "Grüße aus Köln! Ça va? Привет, мир. 你好，世界。 こんにちは 😀🎉",
    "hello hello hello world world LLMs. It works: yes, no, go on.",
]
CHATML = (
    "{% for m in messages %}{{'<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@functools.cache
def _trained(byte_level: bool) -> str:
    """The model section of a tokenizer.json, trained on `LINES`."""
    tokenizer = Tokenizer(models.BPE())
    if byte_level:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
        alphabet = list("▁abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,!?:;()'\"")
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=alphabet, limit_alphabet=len(alphabet), show_progress=False
    )
    tokenizer.train_from_iterator(LINES, trainer)
    return tokenizer.to_str()


def _numbered(byte_level: bool, first: Sequence[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Vocabulary with `first` at the lowest ids, and merges."""
    model = json.loads(_trained(byte_level))["model"]
    pieces = [piece for piece, _ in sorted(model["vocab"].items(), key=lambda item: item[1])]
    vocabulary = {piece: number for number, piece in enumerate([*first, *pieces])}
    return vocabulary, [tuple(merge) for merge in model["merges"]]


def byte_level(special: Sequence[str] = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")) -> Tokenizer:
    """As GPT-2, Llama 3, Qwen and SmolLM2: bytes as printable characters. `special` have ids 0, 1, 2 …"""
    vocabulary, merges = _numbered(True, special)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(special))
    return tokenizer


def byte_fallback(
    special: Sequence[str] = ("<unk>", "<s>", "</s>"), *, prefix: str = "always", bos: str | None = "<s>"
) -> Tokenizer:
    """As Llama 2, Mistral and Gemma: U+2581 for a space, <0xNN> for bytes without a piece.

    `prefix` says where a space is put before text: "always" before each stretch between control tokens (the old
    way, a normalizer), "first" at the start of the text only, "never". With `bos` the post-processor prepends it.
    """
    bytes_ = [f"<0x{number:02X}>" for number in range(256)]
    vocabulary, merges = _numbered(False, [*special, *bytes_])
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges, unk_token=special[0], fuse_unk=True, byte_fallback=True)
    )
    replace = normalizers.Replace(" ", "▁")
    if prefix == "always":
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), replace])
    elif prefix == "first":
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        tokenizer.normalizer = replace
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(steps if prefix == "never" else [*steps, decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens(list(special))
    if bos is not None:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, vocabulary[bos])]
        )
    return tokenizer


def add(tokenizer: Tokenizer, *texts: str, special: bool = False, **flags: bool) -> Tokenizer:
    """Add tokens to a tokenizer, after its vocabulary."""
    tokenizer.add_tokens([AddedToken(text, special=special, normalized=False, **flags) for text in texts])
    return tokenizer


def save(
    folder: Path,
    tokenizer: Tokenizer,
    *,
    template: Any = None,
    generation: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    **config: Any,
) -> Path:
    """Write a model folder without weights: tokenizer.json and the configs beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **config}
    if template is not None:
        config["chat_template"] = template
    files = {"tokenizer_config": config, "generation_config": generation, "config": model}
    for name, value in files.items():
        if value is not None:
            (folder / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    return folder
