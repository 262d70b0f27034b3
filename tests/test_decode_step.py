"""The decode step against transformers' own forward: families, head shapes, ragged batches, scattered pages."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from cutaway.engine import kernels
from cutaway.engine.decode_step import DecodeStep, NativeStep, TorchStep
from cutaway.engine.kv_cache import KVCache
from cutaway.engine.linear import QuantLinear, dequantise, quantise, quantize_model
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

VOCABULARY = 203
PAGE = 4
library = kernels.load()
needs_kernels = pytest.mark.skipif(library is None, reason=f"no kernels here: {kernels.problem()}")

# name -> model type and what its configuration has beyond the common part
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama-many-heads": ("llama", {"num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16}),
    "llama-wide-heads": ("llama", {"head_dim": 64, "tie_word_embeddings": True}),
    "llama-biases": ("llama", {"attention_bias": True, "mlp_bias": True, "rms_norm_eps": 0.2}),
    "llama3-rope": (
        "llama",
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 10000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32,
            }
        },
    ),
    "mistral-sliding": ("mistral", {"sliding_window": 7}),
    "qwen2": ("qwen2", {}),
    "qwen2-sliding": ("qwen2", {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1}),
    "qwen3": ("qwen3", {"head_dim": 48, "tie_word_embeddings": True, "rms_norm_eps": 0.2}),
}


def make(name: str, **changes: Any) -> Any:
    """A random float32 model whose weights are large enough for a wrong step to show."""
    from transformers import AutoModelForCausalLM
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    model_type, extra = MODELS[name]
    common = {
        "vocab_size": VOCABULARY,
        "hidden_size": 96,
        "intermediate_size": 160,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 2048,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "tie_word_embeddings": False,
    }
    config = CONFIG_MAPPING[model_type](**{**common, **extra, **changes})
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.12)
        else:
            parameter.data.add_(torch.randn_like(parameter) * 0.2)
    return model


def cache_for(model: Any, pages: int, dtype: torch.dtype = torch.float32) -> KVCache:
    attention = model.model.layers[0].self_attn
    shape = (model.config.num_key_value_heads, attention.head_dim, attention.head_dim)
    return KVCache.zeros(dict.fromkeys(range(len(model.model.layers)), shape), pages, PAGE, dtype, torch.device("cpu"))


class Rows:
    """Sequences decoded side by side from their first token on, each over pages of its own in random order."""

    def __init__(self, step: DecodeStep, cache: KVCache, lengths: list[int], seed: int = 0) -> None:
        self.step = step
        draw = torch.Generator().manual_seed(seed)
        self.ids = [torch.randint(VOCABULARY, (n,), generator=draw) for n in lengths]
        widths = [-(-n // PAGE) for n in lengths]
        order = torch.randperm(len(cache.keys[0]) // PAGE, generator=draw).to(torch.int32)
        self.tables = torch.zeros(len(lengths), max(widths), dtype=torch.int32)
        for row, width in enumerate(widths):
            self.tables[row, :width] = order[sum(widths[:row]) :][:width]
        self.done = [0] * len(lengths)

    def advance(self, rows: list[int]) -> torch.Tensor:
        """One token for each of `rows`: logits [B, vocabulary]."""
        positions = torch.tensor([self.done[r] for r in rows])
        table = self.tables[rows]
        pages = table.gather(1, (positions // PAGE).unsqueeze(1)).squeeze(1)
        logits = self.step(
            torch.stack([self.ids[r][self.done[r]] for r in rows]),
            positions,
            pages.long() * PAGE + positions % PAGE,
            table,
            positions + 1,
        )
        for r in rows:
            self.done[r] += 1
        return logits

    def run(self, seed: int = 1) -> list[torch.Tensor]:
        """Decode everything in random groups: the logits [n, vocabulary] of each sequence."""
        draw = torch.Generator().manual_seed(seed)
        out: list[list[torch.Tensor]] = [[] for _ in self.ids]
        while open_rows := [r for r, ids in enumerate(self.ids) if self.done[r] < len(ids)]:
            count = int(torch.randint(1, len(open_rows) + 1, (1,), generator=draw))
            rows = [open_rows[i] for i in torch.randperm(len(open_rows), generator=draw)[:count].tolist()]
            for row, logits in zip(rows, self.advance(rows), strict=True):
                out[row].append(logits)
        return [torch.stack(one) for one in out]


@torch.inference_mode()
def reference(model: Any, ids: torch.Tensor) -> torch.Tensor:
    return model(ids.unsqueeze(0), use_cache=False).logits[0].float()


@pytest.mark.parametrize("name", MODELS)
def test_float32_step_equals_transformers_over_ragged_rows_and_scattered_pages(name: str) -> None:
    model = make(name)
    cache = cache_for(model, 40)
    step, reason = DecodeStep.build(model, cache)
    assert isinstance(step, TorchStep), reason
    rows = Rows(step, cache, [1, 5, 13, 30])
    for ids, logits in zip(rows.ids, rows.run(), strict=True):
        want = reference(model, ids)
        assert torch.allclose(logits, want, atol=2e-4), float((logits - want).abs().max())
        assert torch.equal(logits.argmax(-1), want.argmax(-1))


def test_bfloat16_step_is_as_near_to_float32_as_transformers_is() -> None:
    exact = make("qwen3")
    model = copy.deepcopy(exact).to(torch.bfloat16)
    cache = cache_for(model, 40, torch.bfloat16)
    step, _ = DecodeStep.build(model, cache)
    assert step is not None
    rows = Rows(step, cache, [20, 17])
    for ids, logits in zip(rows.ids, rows.run(), strict=True):
        want = reference(exact, ids)
        assert (logits - want).std() <= 1.3 * (reference(model, ids) - want).std() + 0.01


def replace_weights(model: Any) -> Any:
    """`model` with the values that its int8 weights stand for, in float32."""
    out = copy.deepcopy(model)
    for part in out.modules():
        if isinstance(part, nn.Linear):
            part.weight = nn.Parameter(dequantise(*quantise(part.weight)))
    return out


@needs_kernels
@pytest.mark.parametrize("kv", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", MODELS)
def test_int8_step_equals_the_quantised_model_to_the_rounding_of_activations(name: str, kv: torch.dtype) -> None:
    exact = make(name)
    want_model, model = replace_weights(exact), copy.deepcopy(exact)
    quantize_model(model)
    cache = cache_for(model, 40, kv)
    step, reason = DecodeStep.build(model, cache)
    assert isinstance(step, NativeStep), reason
    rows = Rows(step, cache, [1, 5, 13, 30])
    for ids, logits in zip(rows.ids, rows.run(), strict=True):
        want = reference(want_model, ids)
        assert (logits - want).std() < 0.05 * want.std()
        # The transformers model around the same int8 layers rounds the same activations, but for a few near ties.
        again = reference(model, ids)
        assert (logits - again).std() < (0.05 if kv == torch.bfloat16 else 0.02) * want.std()


@needs_kernels
@given(lengths=st.lists(st.integers(1, 24), min_size=2, max_size=18), seed=st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_int8_logits_have_the_same_bits_alone_and_in_any_batch(lengths: list[int], seed: int) -> None:
    model = make("llama")
    quantize_model(model)
    cache = cache_for(model, sum(lengths))
    step, _ = DecodeStep.build(model, cache)
    assert step is not None
    first = Rows(step, cache, lengths, seed).run(seed)
    second = Rows(step, cache, lengths, seed).run(seed + 1)
    rows = Rows(step, cache, lengths, seed)
    alone = [torch.cat([rows.advance([r]) for _ in range(n)]) for r, n in enumerate(lengths)]
    for a, b, c in zip(first, second, alone, strict=True):
        assert torch.equal(a, b)
        assert torch.equal(a, c)


@needs_kernels
@pytest.mark.parametrize("cuts", [(45,), (17, 28), (1, 40, 4)])
def test_a_prompt_cut_into_any_calls_has_the_bits_of_single_tokens(cuts: tuple[int, ...]) -> None:
    model = make("qwen3")
    quantize_model(model)
    cache = cache_for(model, 12)
    step, _ = DecodeStep.build(model, cache)
    assert isinstance(step, NativeStep)
    single = Rows(step, cache, [45])
    want = torch.cat([single.advance([0]) for _ in range(45)])
    for store in (*cache.keys.values(), *cache.values.values()):
        store.zero_()
    start, got = 0, []
    for count in cuts:
        positions = torch.arange(start, start + count)
        slots = single.tables[0].long()[positions // PAGE] * PAGE + positions % PAGE
        outputs = torch.arange(count).flip(0)  # any rows, in any order
        ids, table = single.ids[0][start : start + count], single.tables.expand(count, -1)
        got.append(step.rows(ids, positions, slots, table, positions + 1, outputs).flip(0))
        start += count
    assert torch.equal(torch.cat(got), want)
    none = step.rows(ids, positions, slots, table, positions + 1, torch.tensor([], dtype=torch.int64))
    assert none.shape == (0, VOCABULARY)


@needs_kernels
@pytest.mark.parametrize("window", [0, 300])
def test_int8_attention_joins_the_parts_of_a_long_context(window: int) -> None:
    model = make("mistral-sliding", sliding_window=window or None, num_hidden_layers=1)
    exact = replace_weights(model)
    quantize_model(model)
    cache = cache_for(model, 200)
    step, _ = DecodeStep.build(model, cache)
    assert isinstance(step, NativeStep)
    rows = Rows(step, cache, [700, 30])
    logits = rows.run()[0]
    want = reference(exact, rows.ids[0])
    assert (logits - want).std() < 0.05 * want.std()
    assert (logits[600:] - want[600:]).std() < 0.05 * want.std()


@needs_kernels
def test_threads_do_not_change_a_bit_of_a_step() -> None:
    model = make("qwen3")
    quantize_model(model)
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            cache = cache_for(model, 60)
            step, _ = DecodeStep.build(model, cache)
            assert step is not None
            results.append(torch.cat(Rows(step, cache, [9, 30, 4, 21, 2]).run()))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


@needs_kernels
@pytest.mark.parametrize("field", ["token", "position", "slot", "length", "page"])
def test_reaching_outside_the_pool_or_the_model_is_refused_before_anything_is_written(field: str) -> None:
    model = make("llama")
    quantize_model(model)
    cache = cache_for(model, 8)
    step, _ = DecodeStep.build(model, cache)
    assert step is not None
    table = torch.tensor([[1, 2], [3, 4]], dtype=torch.int32)
    batch = {"position": torch.tensor([0, 4]), "slot": torch.tensor([4, 16]), "length": torch.tensor([1, 5])}
    batch["token"] = torch.tensor([3, 4])
    if field == "page":
        table[1, 1] = 8
    else:
        batch[field][1] = 10_000
    with pytest.raises(ValueError, match="row 1"):
        step(batch["token"], batch["position"], batch["slot"], table, batch["length"])
    assert not any(store.any() for store in cache.keys.values())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model_type": "gemma2"}, "gemma2"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}, "dynamic"),
    ],
)
def test_a_model_of_another_build_is_refused_with_the_reason(change: dict[str, Any], reason: str) -> None:
    model = make("llama")
    for name, value in change.items():
        if name == "model_type":
            type(model.config).model_type, before = value, type(model.config).model_type
        else:
            setattr(model.config, name, value)
    try:
        step, why = DecodeStep.build(model, cache_for(model, 4))
    finally:
        if "model_type" in change:
            type(model.config).model_type = before
    assert step is None
    assert reason in why


@needs_kernels
def test_widths_that_are_no_multiple_of_32_are_served_by_torch() -> None:
    model = make("llama", intermediate_size=80)
    want = copy.deepcopy(model)
    quantize_model(model)
    assert type(model.model.layers[0].mlp.down_proj) is nn.Linear
    assert isinstance(model.model.layers[0].mlp.up_proj, QuantLinear)
    cache = cache_for(model, 10)
    step, _ = DecodeStep.build(model, cache)
    assert isinstance(step, TorchStep)
    rows = Rows(step, cache, [9])
    logits = rows.run()[0]
    assert (logits - reference(want, rows.ids[0])).std() < 0.1 * logits.std()
