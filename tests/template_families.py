"""Published chat templates, each with a tiny tokenizer that has the control tokens its model has.

The texts in `templates/` are those of the models' tokenizer_config.json (DeepSeek's without its tool calls).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from tokenizers import Tokenizer, processors

from . import tiny_tokenizers as tiny

TEMPLATES = Path(__file__).parent / "templates"


@dataclasses.dataclass(frozen=True)
class Family:
    name: str
    build: Callable[[], Tokenizer]
    named: dict[str, str]
    system: bool = True  # the template accepts a system message
    alternates: bool = False  # the template refuses two turns of one role in a row

    @property
    def template(self) -> str:
        return (TEMPLATES / f"{self.name}.jinja").read_text(encoding="utf-8")

    def save(self, folder: Path) -> Path:
        return tiny.save(folder, self.build(), template=self.template, **self.named)


def _llama3() -> Tokenizer:
    special = ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
    tokenizer = tiny.byte_level(special)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", 0)]
    )
    return tokenizer


def _gemma() -> Tokenizer:
    special = ("<unk>", "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>")
    return tiny.add(tiny.byte_fallback(special, prefix="never", bos="<bos>"), "\n\n", "<h1>")


def _phi3() -> Tokenizer:
    tokenizer = tiny.byte_fallback()
    turns = ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
    return tiny.add(tokenizer, "<|endoftext|>", *turns, special=True, rstrip=True)


def _qwen3() -> Tokenizer:
    return tiny.add(tiny.byte_level(), "<think>", "</think>", "<tool_call>", "<tool_response>", "</tool_response>")


def _deepseek() -> Tokenizer:
    special = ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>")
    return tiny.add(tiny.byte_level(special), "<think>", "</think>")


GEMMA = {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>"}
FAMILIES = [
    Family("smollm2", tiny.byte_level, {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}),
    Family("llama3", _llama3, {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}),
    Family("gemma2", _gemma, GEMMA, system=False, alternates=True),
    Family("gemma3", _gemma, GEMMA, alternates=True),
    Family(
        "mistral",
        lambda: tiny.byte_fallback(prefix="first"),
        {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
        alternates=True,
    ),
    Family("qwen3", _qwen3, {"eos_token": "<|im_end|>"}),
    Family("phi3", _phi3, {"bos_token": "<s>", "eos_token": "<|endoftext|>", "unk_token": "<unk>"}),
    Family("deepseek_r1", _deepseek, {"bos_token": "<｜begin▁of▁sentence｜>", "eos_token": "<｜end▁of▁sentence｜>"}),
]
