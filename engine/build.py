"""From a `Load` command to a serving core: find, read, check, measure, size the pool."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import torch

from . import kernel_choice
from .core import EngineCore
from .errors import SettingError
from .intake import Intake, Limits
from .models import resolve
from .models.memory import page_size_for
from .pages import PagePool
from .protocol import AnyEvent, Load, LoadProgress, ModelCard
from .runner import PagedRunner, Runner
from .scheduler import Scheduler
from .served import Cancelled, Progress, compile_kernels, make
from .takeover import Takeover, prefix_salt, spare_one
from .tokenizer import Tokenizer, load_tokenizer

Emit = Callable[[AnyEvent], None]

EVERYTHING = ("tokens", "candidates", "timeline", "lanes", "pause", "switches", "delivery", "abort")
PAGED_ONLY = ("pages", "prefix", "prefill", "fork", "samples")


def build(load: Load, emit: Emit, progress: Progress, cancelled: Cancelled) -> EngineCore:
    """Load a model and return its core, not yet announced.

    Raises `CutawayError` subclasses for everything a user can do something about.
    """
    began = time.monotonic_ns()
    check(load)
    device = pick_device(load.device)
    compiling = compile_kernels(load, device, progress)
    local = resolve(load.model, offline=load.offline, progress=progress, cancelled=cancelled)
    progress(LoadProgress("weights", note=local.name))
    load = msgspec.structs.replace(load, page_size=load.page_size or page_size_for(device.type))
    tokenizer = load_tokenizer(local.folder)
    served, precision = make(load, local, device, progress, cancelled)
    progress(LoadProgress("calibrate"))
    runner, paged = served.runner, not served.reason
    fallback = f"Served one request at a time through transformers' own cache: {served.reason}."
    takeover: Takeover | None = None
    if served.unpacked and compiling:
        pages = runner.cache if isinstance(runner, PagedRunner) else None
        takeover = Takeover(load.threads, lambda ended: make(load, local, device, lambda _: None, ended, pages)[0])
    count = load.threads or (spare_one() if takeover else kernel_choice.threads(runner, load.page_size, device))
    if not load.threads and isinstance(runner, PagedRunner) and device.type == "cpu":
        runner.use_threads(count)
        runner.watch_threads()
    card = ModelCard(
        name=local.name,
        identity=local.identity,
        architecture=served.architecture,
        parameters=served.parameters,
        weight_bytes=served.weight_bytes,
        precision=precision,
        device=str(device),
        threads=count,
        window=served.window,
        vocabulary=served.vocabulary,
        layers=served.layers,
        page_size=load.page_size,
        pages=served.pages,
        page_bytes=served.page_bytes,
        max_lanes=load.max_lanes if paged else 1,
        token_budget=load.token_budget if paged else served.window,
        attention="paged" if paged else "fallback",
        attention_note="" if paged else fallback,
        kernel=served.kernel,
        compiling=takeover is not None,
        deterministic=served.deterministic,
        step_bytes=served.step_bytes,
        end_ids=tuple(sorted(tokenizer.end_ids)),
        bos_id=tokenizer.bos_id,
        chat_template=bool(tokenizer.chat_template),
        license=local.license,
        source=local.source,
        selftest=served.test,
        load_ns=time.monotonic_ns() - began,
        capabilities=EVERYTHING + (PAGED_ONLY if paged else ()),
        missing={} if paged else dict.fromkeys(PAGED_ONLY, f"This model is not served from pages: {served.reason}."),
    )
    core = assemble(card, tokenizer, runner, emit, template=load.chat_template)
    core.takeover = takeover
    return core


def assemble(card: ModelCard, tokenizer: Tokenizer, runner: Runner, emit: Emit, template: str = "") -> EngineCore:
    """Put a core together from its parts, as the card describes them."""
    scheduler = Scheduler(
        PagePool(card.pages, card.page_size, prefix_salt(card)),
        max_lanes=card.max_lanes,
        token_budget=card.token_budget,
        prefix_cache=card.attention == "paged",
    )
    limits = Limits(card.window, card.pages * card.page_size)
    intake = Intake(tokenizer, limits, card.vocabulary, template)
    return EngineCore(card, tokenizer, intake, scheduler, runner, emit)


def check(load: Load) -> None:
    """Raise `SettingError` for engine settings out of range."""
    ranges = {
        "page_size": (0, 1024),
        "pages": (0, 2**24),
        "max_lanes": (1, 1024),
        "token_budget": (1, 65536),
        "window": (0, 2**24),
        "threads": (0, 1024),
    }
    for field, (low, high) in ranges.items():
        value = getattr(load, field)
        if not low <= value <= high:
            raise SettingError(field, f"{field} must be a whole number from {low} to {high}, not {value}.")


def pick_device(wanted: str) -> torch.device:
    """The device to compute on. Raises `SettingError` for one that is not there."""
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wanted)
    except RuntimeError:
        raise SettingError("device", f"device must be auto, cpu or cuda, not {wanted!r}.") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SettingError("device", "There is no CUDA device that torch can use.", "Use --device cpu.")
    return device
