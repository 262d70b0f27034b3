"""What servers send, as far as it is read. Everything may be missing or null; what is not named here is ignored."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)


class Alternative(msgspec.Struct, frozen=True):
    """A token that could have come, in a `top_logprobs` list."""

    token: str | None = None
    logprob: float | None = None
    bytes: list[int] | None = None
    id: int | None = None  # llama.cpp


class TokenLogprob(msgspec.Struct, frozen=True):
    """One generated token with its log-probability."""

    token: str | None = None
    logprob: float | None = None
    bytes: list[int] | None = None
    top_logprobs: list[Alternative] | None = None
    id: int | None = None  # llama.cpp


class Logprobs(msgspec.Struct, frozen=True):
    content: list[TokenLogprob] | None = None  # of a chat completion; a plain one's are not asked for


class Delta(msgspec.Struct, frozen=True):
    """A piece of a message, or the whole one where a server does not stream."""

    content: Any = None
    reasoning_content: Any = None  # DeepSeek's name, taken over by most
    reasoning: Any = None  # vLLM's and OpenRouter's name
    refusal: Any = None
    tool_calls: Any = None


class Choice(msgspec.Struct, frozen=True):
    index: int | None = None
    delta: Delta | None = None
    message: Delta | None = None
    text: Any = None  # of a plain completion
    logprobs: Logprobs | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None  # vLLM: the stop string or token
    token_ids: list[int] | None = None  # vLLM, where `return_token_ids` asks for it


class CachedTokens(msgspec.Struct, frozen=True):
    cached_tokens: int | None = None


class Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: CachedTokens | None = None

    @property
    def cached(self) -> int:
        details = self.prompt_tokens_details
        return (details.cached_tokens or 0) if details is not None else 0


class Timings(msgspec.Struct, frozen=True):
    """llama.cpp's own measurements of one request."""

    cache_n: int | None = None
    prompt_n: int | None = None
    prompt_ms: float | None = None
    predicted_n: int | None = None
    predicted_ms: float | None = None


class Chunk(msgspec.Struct, frozen=True):
    """One event of a stream, or a whole answer."""

    choices: list[Choice] | None = None
    usage: Usage | None = None
    error: Any = None
    model: str | None = None
    timings: Timings | None = None
    prompt_token_ids: list[int] | None = None


class ModelMeta(msgspec.Struct, frozen=True):
    """llama.cpp's facts about its model."""

    n_ctx: int | None = None
    n_ctx_train: int | None = None
    n_vocab: int | None = None
    n_params: int | None = None
    size: int | None = None
    ftype: str | None = None


class Model(msgspec.Struct, frozen=True):
    id: str | None = None
    owned_by: str | None = None
    max_model_len: int | None = None  # vLLM, SGLang
    context_length: int | None = None  # OpenRouter and others
    root: str | None = None
    meta: ModelMeta | None = None


class ModelList(msgspec.Struct, frozen=True):
    data: list[Model] | None = None


class Version(msgspec.Struct, frozen=True):
    version: str | None = None


class Piece(msgspec.Struct, frozen=True):
    """llama.cpp's token with its piece: text, or bytes that are no whole character."""

    id: int
    piece: str | list[int] = ""


class Tokenized(msgspec.Struct, frozen=True):
    tokens: list[int | Piece] | None = None
    token_strs: list[str] | None = None


class Templated(msgspec.Struct, frozen=True):
    prompt: str | None = None


def read(kind: type[T], data: bytes) -> T | None:
    """`data` as a struct, or None for what is no JSON of that shape."""
    try:
        return msgspec.json.decode(data, type=kind, strict=False)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def error_text(error: Any) -> str:
    """The sentence in an error of any shape: a string, {"message": …}, {"error": …}, {"detail": …}; empty: none."""
    if isinstance(error, str):
        return " ".join(error.split())
    if isinstance(error, list):
        return "; ".join(filter(None, map(error_text, error)))
    if isinstance(error, dict):
        for name in ("message", "error", "detail", "msg"):
            if text := error_text(error.get(name)):
                return text
    return ""


def text_of(content: Any) -> str:
    """The text of a message's content: a string, or a list of parts of which the text counts."""
    if isinstance(content, list):
        texts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""
