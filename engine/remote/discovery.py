"""What stands behind an address: which API, which server, which model, which of its endpoints are of use."""

from __future__ import annotations

import dataclasses
import difflib

import msgspec

from ..errors import ModelError
from .address import root_of
from .answers import Model, ModelList, Tokenized, Version, error_text, read
from .connection import Answer, Connection
from .dialects import BY_OWNER, LLAMA_CPP, OLLAMA, OPENAI, PLAIN, VLLM, Dialect
from .prometheus import PREFIXES
from .tokens import probe
from .troubles import ServerTrouble, Unreachable, refusal

LISTED = 12  # names in a sentence


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A server that can be talked to. `models` is empty where it does not list them."""

    base: str
    dialect: Dialect
    model: str
    version: str = ""
    models: tuple[str, ...] = ()
    entry: Model = dataclasses.field(default_factory=Model)
    tokenizes: bool = False
    metrics: bool = False

    @property
    def chat(self) -> str:
        return f"{self.base}/chat/completions"

    @property
    def completions(self) -> str:
        """For prompts that are text or tokens, not messages."""
        return f"{self.base}/completions"

    @property
    def root(self) -> str:
        return root_of(self.base)

    @property
    def window(self) -> int:
        """Tokens; 0: not told."""
        meta = self.entry.meta
        told = (self.entry.max_model_len, meta.n_ctx if meta else None, self.entry.context_length)
        return next((number for number in told if number), 0)


async def discover(connection: Connection, model: str, variable: str = "") -> Found:
    """Find the API and the model called `model` (empty: the only one there is).

    Raises `Unreachable` while no server answers or it is still loading, `KeyMissing` for a refused key, `ModelError`
    for a model it does not have, `ServerTrouble` for something else than such a server.
    """
    base, models, answer = await _find_api(connection, variable)
    named = tuple(entry.id for entry in models if entry.id)
    chosen = _choose(model, named, base)
    entry = next((entry for entry in models if entry.id == chosen), Model())
    dialect = await _kind(connection, base, entry, answer)
    found = Found(base, dialect, chosen, models=named, entry=entry)
    return dataclasses.replace(
        found,
        version=await _version(connection, found),
        tokenizes=await _tokenizes(connection, found),
        metrics=await _shows_metrics(connection, found),
    )


async def _find_api(connection: Connection, variable: str) -> tuple[str, list[Model], Answer]:
    """The base whose list of models answers, else the one that knows chat completions."""
    answers: list[tuple[str, Answer]] = []
    for base in connection.address.bases:
        answer = await connection.get(f"{base}/models", aside=False)
        if answer.status in (401, 403):
            raise refusal(answer.status, answer.body, connection.key, variable)
        if answer.status == 503:
            told = connection.key.redact(error_text(_loose(answer.body))) or "it answers 503"
            raise Unreachable(f"The server at {base} is not ready: {told.rstrip('.')}.", "Wait until it is.")
        listed = read(ModelList, answer.body) if answer.good else None
        if listed is not None and listed.data is not None:
            return base, listed.data, answer
        answers.append((base, answer))
    for base, answer in answers:
        # An empty request is refused where chat completions are known, and not found where they are not.
        known = await connection.post(f"{base}/chat/completions", b"{}")
        if known.status in (401, 403):
            raise refusal(known.status, known.body, connection.key, variable)
        if known.status in (400, 415, 422) or (known.status == 500 and b"error" in known.body.lower()):
            return base, [], answer
    raise _no_api(answers)


def _no_api(answers: list[tuple[str, Answer]]) -> ServerTrouble:
    tried = " and ".join(f"{base}/models" for base, _ in answers)
    _, first = answers[0]
    if first.location:
        return ServerTrouble(f"The server redirects {tried} to {first.location[:200]}.", "Give that address instead.")
    what = "answers with a web page" if first.body.lstrip()[:1] == b"<" and first.good else f"answers {first.status}"
    return ServerTrouble(
        f"There is no OpenAI-compatible API at {tried}: it {what}.",
        "Check --server; the address often ends in /v1, after the path of a proxy if there is one.",
    )


def _choose(model: str, named: tuple[str, ...], base: str) -> str:
    if model in named or (model and not named):
        return model
    listed = ", ".join(named[:LISTED]) + (f" and {len(named) - LISTED} more" if len(named) > LISTED else "")
    if not model:
        if len(named) == 1:
            return named[0]
        if not named:
            raise ModelError(f"The server at {base} does not list its models.", "Name one by --model.")
        raise ModelError(f"The server has {len(named)} models: {listed}.", "Choose one by --model.")
    near = difflib.get_close_matches(model, named, n=1, cutoff=0.4)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise ModelError(f"The server has no model {model!r}.", f"{hint}It has {listed}.")


async def _kind(connection: Connection, base: str, entry: Model, answer: Answer) -> Dialect:
    if connection.address.host == "api.openai.com":
        return OPENAI
    if (found := BY_OWNER.get((entry.owned_by or "").lower())) is not None:
        return found
    if answer.server.lower().startswith("llama.cpp"):
        return LLAMA_CPP
    if connection.address.loopback or connection.address.origin.endswith(":11434"):
        told = read(Version, (await _aside(connection, f"{root_of(base)}/api/version")).body)
        if told is not None and told.version:
            return OLLAMA
    return PLAIN


async def _version(connection: Connection, found: Found) -> str:
    paths = {VLLM.name: "/version", OLLAMA.name: "/api/version", "SGLang": "/get_server_info", "llama.cpp": "/props"}
    path = paths.get(found.dialect.name)
    if path is None:
        return ""
    answer = await _aside(connection, found.root + path)
    decoded = _loose(answer.body) if answer.good else None
    if not isinstance(decoded, dict):
        return ""
    told = decoded.get("version") or decoded.get("build_info")
    return told[:40] if isinstance(told, str) else ""


async def _tokenizes(connection: Connection, found: Found) -> bool:
    request = probe(found.dialect, found.model)
    if request is None:
        return False
    try:
        answer = await connection.post(f"{found.root}/tokenize", request)
    except Unreachable:
        return False
    told = read(Tokenized, answer.body) if answer.good else None
    if told is None or not told.tokens:
        return False
    return bool(told.token_strs) if found.dialect.tokenizer == "vllm" else not isinstance(told.tokens[0], int)


async def _shows_metrics(connection: Connection, found: Found) -> bool:
    answer = await _aside(connection, f"{found.root}/metrics")
    return answer.good and any(prefix.encode() in answer.body for prefix in PREFIXES)


async def _aside(connection: Connection, url: str) -> Answer:
    """What is only nice to know: no answer is one, too."""
    try:
        return await connection.get(url)
    except Unreachable:
        return Answer(0, b"")


def _loose(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
