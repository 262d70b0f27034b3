"""Everything there is to choose from: the models on this machine, then recommended ones that could be fetched.

Each with its size, its license, and what it will take of the memory. No torch, no network.
"""

from __future__ import annotations

import dataclasses

from ..errors import ModelError
from . import catalogue, default
from .catalogue import CachedModel
from .child import bytes_below
from .facts import Facts, read_facts
from .folder import read_license
from .memory import Memory
from .recommended import Recommended, recommended
from .spec import HubId, read_spec

NO_WRITER = "it does not write text"
_DEFAULT = Recommended(
    default.DEFAULT.hub, "The default.", default.DEFAULT.license, default.DEFAULT.wheel_size, "llama",
    layers=30, heads=9, kv_heads=3, head_dim=64, hidden=576, inner=1536, vocabulary=49152, tied=True, window=8192,
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """A model that can be chosen. `spec` is what to give as `--model`; `size` is in bytes: on the disk where it is
    `kept`, else what has to be fetched (`about_size`: only about that).

    `problem` says why it can't be served as it is, or nothing.
    """

    spec: str
    name: str
    size: int
    license: str
    kept: bool
    about: str = ""
    about_size: bool = False
    gated: bool = False
    problem: str = ""
    incomplete: bool = False  # fetching it goes on where it stopped
    source: str = ""
    folder: str = ""
    architecture: str = ""
    memory: Memory | None = None


def shelf(precision: str, window: int = 0, page_size: int = 16) -> list[Entry]:
    """The models on this machine, by name, then the others, the default first and then smallest first.

    `precision`, `window` (0: the model's own) and `page_size` are what they would be loaded with.
    """
    by_id = {model.id.lower(): model for model in (_DEFAULT, *recommended())}
    found = [_kept(model, by_id, precision, window, page_size) for model in catalogue.list_cached()]
    here = {entry.spec.lower() for entry in found}
    if not here & {default.DEFAULT.name.lower(), _DEFAULT.id.lower()}:
        found.append(_default(precision, window, page_size))
    offered = (model for model in recommended() if model.id.lower() not in here)
    return found + [_offered(model, precision, window, page_size) for model in offered]


def entry(spec: str, precision: str, window: int = 0, page_size: int = 16) -> Entry:
    """The one that `spec` means: of the shelf, or a folder or GGUF file of the user's own.

    Raises `ModelError` for one that is neither here nor recommended: then nothing is known of it.
    """
    wanted = (spec or default.DEFAULT.name).lower()
    for item in shelf(precision, window, page_size):
        if wanted in (item.spec.lower(), item.name.lower()):
            return item
    meant = read_spec(spec)
    if isinstance(meant, HubId):
        raise ModelError(f"{spec} is not on this machine.", f"Fetch it: cutaway models pull {spec}.")
    facts = read_facts(meant)
    size, license = (bytes_below(meant), read_license(meant)) if meant.is_dir() else (meant.stat().st_size, "")
    return Entry(
        spec, meant.name, size, license, True, source=str(meant), folder=str(meant), architecture=facts.architecture,
        memory=facts.memory(precision, window, page_size), problem="" if facts.writes else NO_WRITER,
    )  # fmt: skip


def _kept(model: CachedModel, by_id: dict[str, Recommended], precision: str, window: int, page_size: int) -> Entry:
    known = _DEFAULT if model.spec == default.DEFAULT.name else by_id.get(model.spec.lower())
    about = known.about if known is not None else ""
    facts: Facts | None = None
    memory: Memory | None = None
    problem = ""
    try:
        facts = read_facts(model.file or model.folder)
        memory = facts.memory(precision, window, page_size)
        problem = "" if facts.writes else NO_WRITER
    except ModelError as error:
        problem = "" if not model.complete else error.message
        memory = _memory_of(known, precision, window, page_size)
    return Entry(
        model.spec, model.name, model.size, model.license or (known.license if known else ""), True, about,
        problem=problem, incomplete=not model.complete, source=model.source, folder=str(model.folder),
        architecture=facts.architecture if facts else "", memory=memory,
    )  # fmt: skip


def _default(precision: str, window: int, page_size: int) -> Entry:
    model = default.DEFAULT
    return Entry(
        model.name, model.name, model.wheel_size, model.license, False, _DEFAULT.about, source=model.source,
        architecture=_DEFAULT.architecture, memory=_memory_of(_DEFAULT, precision, window, page_size),
    )  # fmt: skip


def _offered(model: Recommended, precision: str, window: int, page_size: int) -> Entry:
    return Entry(
        model.id, model.id.split("/")[1], model.download, model.license, False, model.about, True, model.gated,
        source=f"hub {model.id}", architecture=model.architecture,
        memory=_memory_of(model, precision, window, page_size),
    )  # fmt: skip


def _memory_of(model: Recommended | None, precision: str, window: int, page_size: int) -> Memory | None:
    return model.facts().memory(precision, window, page_size) if model is not None else None
