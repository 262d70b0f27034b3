"""The two ways from a model folder to something that runs plans: by transformers, and by a blueprint without it."""

from __future__ import annotations

import dataclasses
import functools
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from . import attention, blueprint, cuda_runner, kernel_choice, kernels, memory, memory_speed, selftest, weights
from .decode_step import DecodeStep, NativeStep, TorchStep
from .errors import LoadCancelled
from .fallback import FallbackRunner
from .invariant import ROWS, InvariantRunner, fix_rows
from .kv_cache import KVCache
from .models import LocalModel
from .protocol import Load, LoadProgress, SelfTest
from .runner import PagedRunner, Runner

logger = logging.getLogger(__name__)

Progress = Callable[[LoadProgress], None]
Cancelled = Callable[[], bool]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Served:
    """A model that is ready to run plans, and what its card says of it."""

    runner: Runner
    architecture: str
    parameters: int
    weight_bytes: int
    step_bytes: int  # of weights, read by a decode step of one sequence
    window: int  # positions
    vocabulary: int
    layers: int
    kernel: str
    pages: int
    page_bytes: int
    test: SelfTest | None
    deterministic: bool = False  # a request's bits depend on no other
    reason: str = ""  # why it is not served from pages
    unpacked: bool = False  # int8 values multiplied by torch, where our kernels could


def compile_kernels(load: Load, device: torch.device, progress: Progress) -> bool:
    """Have our kernels compiled where this load can use them and that is still to be done.

    Returns whether that goes on beside the load and the first replies (takeover.py). The load waits for it where no bit
    may change later on, and where the last process ended before its compiler did: somebody who only ever asks short
    questions would never get them.
    """
    if device.type != "cpu" or not (load.deterministic or load.precision in ("auto", "int8")):
        return False
    waits = load.deterministic or kernels.ended_early()
    compilation = kernels.begin(gently=not waits)
    if compilation is None or not waits:
        return compilation is not None
    why = ", before the first reply: no bit may change later" if load.deterministic else ""
    while not compilation.over:
        took = time.monotonic() - compilation.began
        progress(LoadProgress("compile", note=f"our C++ kernels{why} ({took:.0f} s)"))
        compilation.wait(0.5)
    return False


def make(
    load: Load,
    local: LocalModel,
    device: torch.device,
    progress: Progress,
    cancelled: Cancelled,
    pages: KVCache | None = None,
) -> tuple[Served, str]:
    """The model and its precision. Raises `CutawayError` subclasses for what a user can do something about.

    `pages` are those of the same model as it is served now, if this is to take over from that.
    """
    precision, dtype = kernel_choice.precision(load.precision, device)
    library = kernels.at_hand() if precision == "int8" else None
    sketch = blueprint.place(local, kernels.target()) if precision == "int8" and kernels.expected() else None
    known = blueprint.find(sketch) if sketch is not None else None
    memory.require(local, precision, device, prepared=library is not None and known is not None)
    served = None
    if library is not None and known is not None:
        served = _by_blueprint(known, load, local, library, progress, pages)
    if cancelled():
        raise LoadCancelled("Loading was cancelled.")
    if served is None:
        served = _by_transformers(load, local, device, precision, dtype, sketch, progress, cancelled, pages)
    return served, precision


def _by_blueprint(
    known: blueprint.Blueprint,
    load: Load,
    local: LocalModel,
    library: kernels.Library,
    progress: Progress,
    pages: KVCache | None,
) -> Served | None:
    """The short way; None where it does not lead to the reference's logits."""
    try:
        model = blueprint.read(known, local.folder, library)
    except (KeyError, ValueError, OSError) as error:
        logger.warning("the blueprint of %s does not fit its files: %s", local.name, error)
        return None
    shapes = dict.fromkeys(range(known.layers), known.layer_shape)
    window = min(load.window or 2**31, known.window)
    dtype = kernel_choice.kv_dtype(model)
    cache, page_bytes = memory.pool(shapes, load, window, dtype, torch.device("cpu"), kept=pages)
    step = NativeStep(model, cache, known.shape)
    progress(LoadProgress("selftest"))

    def runner(pages: KVCache) -> PagedRunner:
        return PagedRunner(model, pages, NativeStep(model, pages, known.shape))

    test = selftest.through_pages(runner, shapes, cache, known.reference, selftest.QUANTISED_TOLERANCE)
    if not test.passed:
        logger.warning("%s by its blueprint: %s", local.name, test.reason)
        return None
    return Served(
        runner=PagedRunner(model, cache, step),
        architecture=known.architecture,
        parameters=known.parameters,
        weight_bytes=kernel_choice.weight_bytes(model),
        step_bytes=memory_speed.step_bytes(model),
        window=window,
        vocabulary=known.vocabulary,
        layers=known.layers,
        kernel=step.kernel,
        pages=len(cache.keys[0]) // load.page_size,
        page_bytes=page_bytes,
        test=test,
        deterministic=True,
    )


def _by_transformers(
    load: Load,
    local: LocalModel,
    device: torch.device,
    precision: str,
    dtype: torch.dtype,
    sketch: Path | None,
    progress: Progress,
    cancelled: Cancelled,
    pages: KVCache | None,
) -> Served:
    config = weights.read_config(local.folder)
    attention.register()
    model = weights.load(local.folder, config, dtype, device, cancelled)
    if cancelled():
        raise LoadCancelled("Loading was cancelled.")
    return of_model(model, load, device, precision, sketch, progress, pages)


def of_model(
    model: Any,
    load: Load,
    device: torch.device,
    precision: str,
    sketch: Path | None,
    progress: Progress,
    kept: KVCache | None = None,
) -> Served:
    """A transformers model on its device, made ready to run plans; `sketch` is where its blueprint goes, if it fits.

    `kept`: as `make` has `pages`.
    """
    config = model.config
    text_config = config.get_text_config()
    parameters = sum(p.numel() for p in model.parameters())
    kernel = kernel_choice.prepare(model, precision)
    trained = int(getattr(text_config, "max_position_embeddings", 0) or 4096)
    window = min(load.window or 2**31, trained)
    layers = int(text_config.num_hidden_layers)
    reason = selftest.unsupported_layers(text_config)
    shapes = {}
    if not reason:
        model.set_attn_implementation(attention.NAME)
        shapes, reason = selftest.learn_shapes(model, layers)
    test: SelfTest | None = None
    runner: Runner | None = None
    pages = page_bytes = 0
    if shapes:
        progress(LoadProgress("selftest"))
        spare = 1 if device.type == "cuda" else 0  # where the rows beyond a batch write
        cache, page_bytes = memory.pool(shapes, load, window, kernel_choice.kv_dtype(model), device, spare, kept)
        pages = len(cache.keys[0]) // load.page_size - spare
        step, note = DecodeStep.build(model, cache)
        reference = selftest.make_reference(model)
        test = selftest.compare(model, shapes, cache, reference, precision == "int8", step is not None)
        if not test.passed and step is not None:
            step, note = None, "the fast decode step failed its self-test"
            test = selftest.compare(model, shapes, cache, reference, precision == "int8", False)
        kernel += f"; {note}" if step is None else ""
        runner = PagedRunner(model, cache, step)
        if load.deterministic and not isinstance(step, NativeStep):
            made = functools.partial(InvariantRunner, model, together=fix_rows(model))
            test = selftest.compare(model, shapes, cache, reference, precision == "int8", False, made)
            runner, kernel = made(cache), f"torch {precision}, in blocks of {ROWS} rows"
        elif device.type == "cuda":
            lanes, heads = load.max_lanes, int(text_config.num_attention_heads)
            chosen = cuda_runner.choose(model, shapes, cache, reference, heads, lanes, window)
            runner, test, kernel = chosen.runner or runner, chosen.test or test, f"torch {precision}, {chosen.note}"
        reason = "" if test.passed else test.reason
        if sketch is not None and test.passed and isinstance(step, NativeStep | TorchStep):
            unfit = NativeStep.unfit(model, step.shape, cache, packed=False)
            drawn = None if unfit else blueprint.of(model, step.shape, parameters, trained, shapes, reference)
            if drawn is not None:
                blueprint.keep(drawn, sketch)
    if reason or runner is None:
        model.set_attn_implementation("eager")
        runner = FallbackRunner(model)
        pages, page_bytes = -(-window // load.page_size), 0
    return Served(
        runner=runner,
        architecture=str(config.model_type),
        parameters=parameters,
        weight_bytes=kernel_choice.weight_bytes(model),
        step_bytes=memory_speed.step_bytes(model),
        window=window,
        vocabulary=int(model.get_input_embeddings().weight.shape[0]),
        layers=layers,
        kernel=kernel,
        pages=pages,
        page_bytes=page_bytes,
        test=test,
        deterministic=load.deterministic or (isinstance(runner, PagedRunner) and isinstance(runner.decode, NativeStep)),
        reason=reason,
        unpacked=kernel_choice.unpacked(model),
    )
