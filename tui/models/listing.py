"""Models in words: size, whether it fits, what it will take. For `cutaway models` and for the picker on the screen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...engine.models.shelf import Entry


def size(entry: Entry) -> str:
    """ "98.4 MB"; "≈ 1.5 GB" where it is only known about."""
    return f"{'≈ ' if entry.about_size else ''}{amount(entry.size)}"


def amount(count: int) -> str:
    """Bytes for people: 98.4 MB."""
    from ...engine.models.storage import size as told

    return told(count)


def fits(entry: Entry, free: int) -> str:
    """ "yes", "15,984 tokens" (of a larger window), "no", or "?" where it can't be told."""
    if entry.memory is None:
        return "?"
    fit = entry.memory.fit(free)
    return "yes" if fit == "whole" else f"{entry.memory.context(free):,} tokens" if fit == "part" else "no"


def state(entry: Entry) -> str:
    """What must be known before it is chosen, in a few words, or nothing."""
    if entry.problem:
        return entry.problem
    if entry.incomplete:
        return "incomplete: pull it again"
    if not entry.kept:
        return "to fetch; its makers' leave is needed" if entry.gated else "to fetch"
    return ""


def details(entry: Entry, free: int) -> list[tuple[str, str]]:
    """Everything that is known of a model: (name, text)."""
    memory = entry.memory
    place = "on the disk" if entry.kept else "to fetch"
    told = [("model", entry.spec), ("about", entry.about), ("license", entry.license or "unknown")]
    told += [("size", f"{size(entry)} {place}"), ("source", entry.source), ("folder", entry.folder)]
    told += [("kind", entry.architecture), ("state", state(entry))]
    if memory is not None:
        millions = memory.parameters / 1e6
        many = f"{millions / 1000:.2f} billion" if millions >= 1000 else f"{millions:.0f} million"
        told += [
            ("parameters", many),
            ("window", f"{memory.window:,} tokens"),
            ("weights", f"{amount(memory.weights)} as {memory.precision}; {amount(memory.loading)} while loading"),
            ("cache", f"{amount(memory.cache)} for the window, {amount(memory.page)} for {memory.page_size} tokens"),
            ("free", amount(free)),
            ("fits", sentence(entry, free)),
        ]  # fmt: skip
    return [(name, text) for name, text in told if text]


def sentence(entry: Entry, free: int) -> str:
    """Whether it fits this machine, with the numbers."""
    memory = entry.memory
    if memory is None:
        return "can't be told: nothing of it is here"
    match memory.fit(free):
        case "whole":
            return f"yes, with its whole window of {memory.window:,} tokens"
        case "part":
            return f"yes, with {memory.context(free):,} of its {memory.window:,} tokens"
        case _:
            return f"no: it needs {amount(memory.loading)} to be loaded, and {amount(free)} are free"


def as_json(entry: Entry, free: int) -> dict[str, Any]:
    """One entry for scripts."""
    memory = entry.memory
    told: dict[str, Any] = {
        "spec": entry.spec, "name": entry.name, "bytes": entry.size, "approximate": entry.about_size,
        "license": entry.license, "source": entry.source, "folder": entry.folder, "kept": entry.kept,
        "complete": entry.kept and not entry.incomplete, "gated": entry.gated, "problem": entry.problem,
        "architecture": entry.architecture,
    }  # fmt: skip
    if memory is not None:
        told |= {
            "parameters": memory.parameters, "precision": memory.precision, "window": memory.window,
            "weight_bytes": memory.weights, "loading_bytes": memory.loading, "cache_bytes": memory.cache,
            "free_bytes": free, "fits": memory.fit(free), "context": memory.context(free),
        }  # fmt: skip
    return told


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines with the columns below each other."""
    every = [tuple(heads), *map(tuple, rows)]
    widths = [max(len(row[column]) for row in every) for column in range(len(heads))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in every]
