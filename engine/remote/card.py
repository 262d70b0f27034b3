"""The model card of a server: what it can show, and for the rest the reason why not."""

from __future__ import annotations

import hashlib
from urllib.parse import urlsplit

from ..protocol import ModelCard
from .discovery import LISTED, Found

OFFERED = 500  # models that a card names
ALWAYS = ("timeline", "samples", "delivery")


def make(found: Found, load_ns: int, *, logprobs: bool = True, exposed: bool = False) -> ModelCard:
    """The card. `logprobs` False: the server has shown that it gives none; `exposed`: its key travels unencrypted."""
    meta = found.entry.meta
    name = server_name(found)
    capabilities = [*ALWAYS]
    missing = _missing(name)
    if found.metrics:
        capabilities.append("metrics")
    else:
        missing["metrics"] = f"{name} shows no totals at {found.root}/metrics."
        if found.dialect.name == "llama.cpp":
            missing["metrics"] += " Started with --metrics, it does."
    if logprobs:
        capabilities.append("candidates")
    else:
        missing["candidates"] = f"Log-probabilities are not given by this server ({name})."
    if logprobs or found.tokenizes:
        capabilities.append("tokens")
    else:
        missing["tokens"] = f"{name} tells no tokens: it has no /tokenize with pieces and gives no log-probabilities."
    if found.dialect.go_on is not None:
        capabilities.append("go_on")
    return ModelCard(
        name=found.model,
        identity=hashlib.sha256(f"{found.base}\n{found.model}".encode()).hexdigest()[:32],
        architecture="",
        parameters=(meta.n_params or 0) if meta else 0,
        weight_bytes=(meta.size or 0) if meta else 0,
        precision=(meta.ftype or "") if meta else "",
        device=f"{name} at {urlsplit(found.base).netloc}",
        threads=0,
        window=found.window,
        vocabulary=(meta.n_vocab or 0) if meta else 0,
        layers=0,
        page_size=0,
        pages=0,
        page_bytes=0,
        max_lanes=0,
        token_budget=0,
        attention="remote",
        attention_note=_note(found) + ("; ITS KEY TRAVELS UNENCRYPTED: use https" if exposed else ""),
        source=found.base,
        load_ns=load_ns,
        capabilities=tuple(capabilities),
        missing=missing,
        models=found.models[:OFFERED],
    )


def server_name(found: Found) -> str:
    """ "vLLM 0.32.0"."""
    return f"{found.dialect.name} {found.version}".strip()


def _note(found: Found) -> str:
    others = [name for name in found.models if name != found.model]
    shown = ", ".join(others[:LISTED]) + (" …" if len(others) > LISTED else "")
    aside = [name for name, there in (("/tokenize", found.tokenizes), ("/metrics", found.metrics)) if there]
    window = f"{found.window:,} tokens of context" if found.window else "the context length is not told"
    also = f"; it also has {shown}" if others else ""
    return f"{server_name(found)} at {found.base}: {window}, {', '.join(['/chat/completions', *aside])}{also}"


def _missing(name: str) -> dict[str, str]:
    return {
        "lanes": f"{name} does not tell which request is computed in which lane.",
        "pages": f"{name} does not tell which page holds what, and whose it is.",
        "prefill": f"{name} does not tell in which chunks it reads a prompt.",
        "pause": f"{name} can't be paused from here.",
        "fork": f"{name} can't branch off inside a reply; r asks for another one.",
        "switches": f"How {name} batches and caches is set where it is started.",
    }
