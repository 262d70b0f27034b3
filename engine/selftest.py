"""Fail closed: is this model one that our paged forward computes rightly?

Two checks at load. `learn_shapes` runs a dry forward and sees which layers attend, and with what head shapes; a
layer that does not (a convolution, a recurrence) rules pages out. `compare` runs one random prompt whole through
transformers' plain eager attention, and again in chunks and single tokens through pages.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import torch

from .attention import NAME, AttentionContext
from .decode_step import DecodeStep
from .kv_cache import KVCache, LayerShape
from .pages import PagePool
from .protocol import SelfTest
from .runner import PagedRunner
from .scheduler import Scheduler
from .sequence import Sequence

PROMPT = 40
DECODED = 4
CHUNKS = 13  # no divisor of the prompt or of a page, so that chunks end in the middle of pages
# Root mean square difference of a row of logits, in its standard deviations. A wrong mask gives 0.5 and more.
TOLERANCE = {torch.float32: 1e-3, torch.float16: 0.02, torch.bfloat16: 0.2}
QUANTISED_TOLERANCE = 0.2  # a rounding difference in attention moves activations to the next of their 8 bits


def unsupported_layers(config: object) -> str:
    """Why the configuration rules pages out; empty where it does not."""
    kinds = set(getattr(config, "layer_types", None) or [])
    strange = sorted(kinds - {"full_attention", "sliding_attention"})
    if strange:
        return f"it has layers of the kind {', '.join(strange)}"
    if getattr(config, "attention_chunk_size", None) and getattr(config, "model_type", "").startswith("llama4"):
        return "its layers attend in chunks"
    if getattr(config, "is_encoder_decoder", False):
        return "it has an encoder"
    return ""


@torch.inference_mode()
def learn_shapes(model: torch.nn.Module, layers: int) -> tuple[dict[int, LayerShape], str]:
    """Key and value shapes by layer from a dry forward, or why there are none."""
    shapes: dict[int, LayerShape] = {}
    device = next(model.parameters()).device
    ids = torch.arange(1, 5, device=device)[None]
    try:
        model(
            input_ids=ids,
            position_ids=torch.arange(4, device=device)[None],
            use_cache=False,
            cutaway=AttentionContext(None, None, shapes),
        )
    except Exception as error:
        return {}, f"the dry forward failed: {type(error).__name__}: {error}"
    if len(shapes) != layers:
        return {}, f"only {len(shapes)} of its {layers} layers attend through the attention interface"
    return shapes, ""


class Reference(msgspec.Struct, frozen=True):
    """The self-test's tokens, and the logits that plain eager attention gave them from some position on."""

    ids: list[int]
    first: int
    logits: bytes  # float32 [len(ids) - first, vocabulary]

    def row(self, position: int) -> torch.Tensor:
        """Logits [vocabulary] float32 of one position."""
        width = len(self.logits) // (len(self.ids) - self.first)
        start = (position - self.first) * width
        return torch.frombuffer(bytearray(self.logits[start : start + width]), dtype=torch.float32)


@torch.inference_mode()
def make_reference(model: torch.nn.Module) -> Reference:
    """Random tokens, whole through transformers' plain eager attention."""
    device = next(model.parameters()).device
    vocabulary = model.get_input_embeddings().weight.shape[0]  # type: ignore[operator]
    generator = torch.Generator().manual_seed(0)
    window = getattr(model.config, "sliding_window", None)  # type: ignore[union-attr]
    length = PROMPT if not isinstance(window, int) or window > 64 else PROMPT + window
    ids = torch.randint(0, vocabulary, (length + DECODED,), generator=generator).tolist()
    model.set_attn_implementation("eager")  # type: ignore[operator]
    try:
        logits = model(input_ids=torch.tensor([ids], device=device), use_cache=False).logits[0].float().cpu()
    finally:
        model.set_attn_implementation(NAME)  # type: ignore[operator]
    return Reference(ids, length - 1, logits[length - 1 :].contiguous().numpy().tobytes())


def compare(
    model: torch.nn.Module,
    shapes: dict[int, LayerShape],
    serving: KVCache,
    reference: Reference,
    quantised: bool,
    fast: bool,
    make_runner: Callable[[KVCache], PagedRunner] | None = None,
) -> SelfTest:
    """The reference against the same model through pages.

    `serving` tells the page size and dtype to test with; `fast` includes the model's fast decode step. `make_runner`
    replaces the usual runner.
    """
    tolerance = QUANTISED_TOLERANCE if quantised else TOLERANCE.get(next(model.parameters()).dtype, 0.05)

    def runner(cache: KVCache) -> PagedRunner:
        return PagedRunner(model, cache, DecodeStep.build(model, cache)[0] if fast else None)

    return through_pages(make_runner or runner, shapes, serving, reference, tolerance)


@torch.inference_mode()
def through_pages(
    make_runner: Callable[[KVCache], PagedRunner],
    shapes: dict[int, LayerShape],
    serving: KVCache,
    reference: Reference,
    tolerance: float,
) -> SelfTest:
    """The reference's tokens in chunks and one by one through pages like those of `serving`.

    Differences are measured in standard deviations of the reference's logits, so that one tolerance fits all models.
    """
    ids, page_size = reference.ids, serving.page_size
    pool = PagePool(-(-len(ids) // page_size) + 1, page_size)
    some = next(iter(serving.keys.values()))
    runner = make_runner(KVCache.zeros(shapes, pool.pages, page_size, some.dtype, some.device))
    scheduler = Scheduler(pool, max_lanes=1, token_budget=CHUNKS, prefix_cache=False)
    length = reference.first + 1
    sequence = Sequence("selftest", 0, ids[:length], length, len(ids))
    scheduler.add(sequence)
    worst = 0.0
    while len(sequence) < len(ids):
        plan = scheduler.schedule()
        if plan is None:
            raise RuntimeError("the scheduler stopped in the middle of the self-test")
        logits = runner.run(plan).float().cpu()
        scheduler.commit(plan)
        if plan.work[0].samples:
            wanted = reference.row(plan.work[0].end - 1)
            worst = max(worst, float((logits[-1] - wanted).pow(2).mean().sqrt() / wanted.std().clamp_min(1e-9)))
            sequence.tokens.append(ids[len(sequence)])
    passed = worst <= tolerance
    reason = "" if passed else f"logits differ by {worst:.3g} standard deviations, {tolerance:g} are allowed"
    return SelfTest(passed, worst, tolerance, reason)
