"""From a `Load` command to a serving core: find, read, check, measure, size the pool."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil
import torch

from . import attention, kernel_choice, memory_speed, selftest, weights
from .core import EngineCore
from .decode_step import DecodeStep
from .errors import LoadCancelled, OutOfMemory, SettingError
from .fallback import FallbackRunner
from .intake import Intake, Limits
from .kv_cache import KVCache, LayerShape
from .models import LocalModel, resolve
from .pages import PagePool
from .protocol import AnyEvent, Load, LoadProgress, ModelCard, SelfTest
from .runner import PagedRunner, Runner
from .scheduler import Scheduler
from .threads import usable_cores
from .tokenizer import Tokenizer, load_tokenizer

Emit = Callable[[AnyEvent], None]
Progress = Callable[[LoadProgress], None]
Cancelled = Callable[[], bool]

DEFAULT_PAGES = 1024
POOL_SHARE = 0.5  # of the memory that is free after the weights, at most
EVERYTHING = ("tokens", "candidates", "timeline", "lanes", "pause", "switches", "delivery", "abort")
PAGED_ONLY = ("pages", "prefix", "prefill", "fork", "samples")


def build(load: Load, emit: Emit, progress: Progress, cancelled: Cancelled) -> EngineCore:
    """Load a model and return its core, not yet announced.

    Raises `CutawayError` subclasses for everything a user can do something about.
    """
    began = time.monotonic_ns()
    check(load)
    local = resolve(load.model, offline=load.offline, progress=progress, cancelled=cancelled)
    progress(LoadProgress("weights", note=local.name))
    device = pick_device(load.device)
    config = weights.read_config(local.folder)
    text_config = config.get_text_config()
    _require_memory(local, load, device)
    tokenizer = load_tokenizer(local.folder)
    precision, dtype = kernel_choice.precision(load.precision, device)
    attention.register()
    model = weights.load(local.folder, config, dtype, device, cancelled)
    parameters = sum(p.numel() for p in model.parameters())
    kernel = kernel_choice.prepare(model, precision)
    if cancelled():
        raise LoadCancelled("Loading was cancelled.")

    window = min(load.window or 2**31, int(getattr(text_config, "max_position_embeddings", 0) or 4096))
    reason = selftest.unsupported_layers(text_config)
    shapes: dict[int, LayerShape] = {}
    layers = int(text_config.num_hidden_layers)
    if not reason:
        model.set_attn_implementation(attention.NAME)
        shapes, reason = selftest.learn_shapes(model, layers)
    page_bytes = KVCache.page_bytes(shapes, load.page_size, dtype) if shapes else 0
    test: SelfTest | None = None
    runner: Runner | None = None
    pages = 0
    if shapes:
        progress(LoadProgress("selftest"))
        pages = load.pages or _pages_that_fit(page_bytes, window, load.page_size, device)
        cache = _zeros(shapes, pages, load.page_size, dtype, device, page_bytes)
        decode, note = DecodeStep.build(model, cache)
        test = selftest.compare(model, shapes, cache, precision == "int8", decode is not None)
        if not test.passed and decode is not None:
            decode, note = None, "the fast decode step failed its self-test"
            test = selftest.compare(model, shapes, cache, precision == "int8", False)
        kernel = decode.kernel if decode is not None else f"{kernel}; {note}"
        reason = "" if test.passed else test.reason
        runner = PagedRunner(model, cache, decode)
    if reason or runner is None:
        model.set_attn_implementation("eager")
        runner = FallbackRunner(model)
        pages, page_bytes = -(-window // load.page_size), 0
    progress(LoadProgress("calibrate"))
    count = load.threads or kernel_choice.threads(runner, load.page_size, device)
    if not load.threads and isinstance(runner, PagedRunner) and device.type == "cpu":
        runner.use_threads(count)
        runner.watch_threads(usable_cores() if count == 1 else 1)
    paged = not reason
    card = ModelCard(
        name=local.name,
        identity=local.identity,
        architecture=str(config.model_type),
        parameters=parameters,
        weight_bytes=kernel_choice.weight_bytes(model),
        precision=precision,
        device=str(device),
        threads=count,
        window=window,
        vocabulary=int(model.get_input_embeddings().weight.shape[0]),
        layers=layers,
        page_size=load.page_size,
        pages=pages,
        page_bytes=page_bytes,
        max_lanes=load.max_lanes if paged else 1,
        token_budget=load.token_budget if paged else window,
        attention="paged" if paged else "fallback",
        attention_note="" if paged else f"Served one request at a time through transformers' own cache: {reason}.",
        kernel=kernel,
        step_bytes=memory_speed.step_bytes(model),
        end_ids=tuple(sorted(tokenizer.end_ids)),
        bos_id=tokenizer.bos_id,
        chat_template=bool(tokenizer.chat_template),
        license=local.license,
        source=local.source,
        selftest=test,
        load_ns=time.monotonic_ns() - began,
        capabilities=EVERYTHING + (PAGED_ONLY if paged else ()),
        missing={} if paged else dict.fromkeys(PAGED_ONLY, f"This model is not served from pages: {reason}."),
    )
    return assemble(card, tokenizer, runner, emit, template=load.chat_template)


def assemble(card: ModelCard, tokenizer: Tokenizer, runner: Runner, emit: Emit, template: str = "") -> EngineCore:
    """Put a core together from its parts, as the card describes them."""
    salt = f"{card.identity}:{card.precision}".encode()
    scheduler = Scheduler(
        PagePool(card.pages, card.page_size, salt),
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
        "page_size": (1, 1024),
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


def free_bytes(device: torch.device) -> int:
    """Memory that can still be taken on a device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return psutil.virtual_memory().available


def _require_memory(local: LocalModel, load: Load, device: torch.device) -> None:
    stored = sum(path.stat().st_size for path in local.folder.glob("*.safetensors"))
    free = free_bytes(device)
    if stored > free:
        raise OutOfMemory(
            f"{local.name} needs about {stored / 1e9:.1f} GB for its weights and {free / 1e9:.1f} GB are free.",
            "Choose a smaller model.",
        )


def _pages_that_fit(page_bytes: int, window: int, page_size: int, device: torch.device) -> int:
    """Pages by default: two whole windows, but 1,024 pages and half of the free memory at most.

    One whole window comes first, if it fits.
    """
    fit = int(free_bytes(device) * POOL_SHARE) // max(1, page_bytes)
    one_window = -(-window // page_size)
    return max(1, min(fit, max(one_window, min(DEFAULT_PAGES, 2 * one_window))))


def _zeros(
    shapes: dict[int, LayerShape], pages: int, page_size: int, dtype: torch.dtype, device: torch.device, page_bytes: int
) -> KVCache:
    need, free = pages * page_bytes, free_bytes(device)
    advice = f"Use --pages {max(1, int(free * POOL_SHARE) // max(1, page_bytes))} or fewer."
    if need > free:
        raise OutOfMemory(f"{pages} pages need {need / 1e9:.1f} GB and {free / 1e9:.1f} GB are free.", advice)
    try:
        return KVCache.zeros(shapes, pages, page_size, dtype, device)
    except (RuntimeError, MemoryError) as error:
        raise OutOfMemory(f"{pages} pages of {page_bytes} bytes do not fit the device.", advice) from error
