"""How the servers differ: which settings each takes and under which name, and what else it offers.

From the servers' own documentation: vLLM 0.32's openapi.json, llama.cpp's tools/server/README.md, SGLang's
docs/basic_usage/sampling_params.md, Ollama's docs/openai.md, llama-cpp-python's server types, OpenAI's API reference.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

_OPENAI = {
    "temperature": "temperature",
    "top_p": "top_p",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "seed": "seed",
    "max_tokens": "max_tokens",
    "stop": "stop",
    "logit_bias": "logit_bias",
}
_VLLM = _OPENAI | {
    "top_k": "top_k",
    "min_p": "min_p",
    "repetition_penalty": "repetition_penalty",
    "min_tokens": "min_tokens",
    "stop_ids": "stop_token_ids",
    "ignore_eos": "ignore_eos",
    "allowed_ids": "allowed_token_ids",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Dialect:
    """One kind of server."""

    name: str
    settings: dict[str, str]  # ours -> its parameter; what is missing it does not take
    explicit: tuple[str, ...] = ()  # sent also at their defaults, where its own would be others
    off: dict[str, Any] = dataclasses.field(default_factory=dict)  # setting -> what stands for "off"
    candidates: int = 20  # most `top_logprobs` it gives
    samples: bool = True  # takes `n`; else each sample is a request of its own
    go_on: dict[str, Any] | None = None  # what makes it write on in the last message; None: it can't
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)  # always sent
    tokenizer: Literal["", "vllm", "llama.cpp"] = ""  # whose /tokenize it has
    schema: bool = True  # takes a JSON schema


_CHOSEN = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")  # models' own files and servers change these

VLLM = Dialect(
    "vLLM",
    _VLLM,
    explicit=_CHOSEN,
    go_on={"continue_final_message": True, "add_generation_prompt": False},
    extra={"return_token_ids": True},
    tokenizer="vllm",
)
SGLANG = Dialect(
    "SGLang",
    {name: to for name, to in _VLLM.items() if name != "allowed_ids"},
    explicit=_CHOSEN,
    off={"top_k": -1},
    go_on={"continue_final_message": True},
)
LLAMA_CPP = Dialect(
    "llama.cpp",
    _OPENAI | {"top_k": "top_k", "min_p": "min_p", "repetition_penalty": "repeat_penalty", "ignore_eos": "ignore_eos"},
    explicit=_CHOSEN,
    candidates=64,
    go_on={},  # it writes on by itself where the last message is the assistant's
    tokenizer="llama.cpp",
)
LLAMA_CPP_PYTHON = Dialect(
    "llama-cpp-python",
    _OPENAI | {"top_k": "top_k", "min_p": "min_p", "repetition_penalty": "repeat_penalty", "min_tokens": "min_tokens"},
    explicit=_CHOSEN,
    samples=False,
    schema=False,
)
OLLAMA = Dialect(
    "Ollama",
    {name: to for name, to in _OPENAI.items() if name != "logit_bias"},
    explicit=("temperature", "top_p"),
    samples=False,
)
OPENAI = Dialect("OpenAI", _OPENAI | {"max_tokens": "max_completion_tokens"}, explicit=("temperature",))
PLAIN = Dialect("OpenAI-compatible", _OPENAI, explicit=("temperature",))

BY_OWNER = {  # `owned_by` of the first model in /v1/models
    "vllm": VLLM,
    "sglang": SGLANG,
    "llamacpp": LLAMA_CPP,
    "me": LLAMA_CPP_PYTHON,
    "library": OLLAMA,
    "openai": OPENAI,
    "system": OPENAI,
}
