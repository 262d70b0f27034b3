"""What a model will take of the memory, told before it is loaded: against what the engine then takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from cutaway.engine import kernel_choice, kernels, selftest
from cutaway.engine.build import build
from cutaway.engine.errors import ModelError, OutOfMemory
from cutaway.engine.kv_cache import KVCache
from cutaway.engine.models import default, shelf
from cutaway.engine.models.convert import convert
from cutaway.engine.models.facts import Facts, read_facts
from cutaway.engine.models.local import Watch
from cutaway.engine.models.memory import LEAST_CONTEXT, WIDTHS, Memory, auto_precision, estimate, pages_that_fit
from cutaway.engine.models.recommended import recommended
from cutaway.engine.protocol import Load
from cutaway.engine.weights import DTYPES
from hypothesis import given
from hypothesis import strategies as st

from . import tiny_folder, tiny_gguf, tiny_models

sizes = st.integers(0, 2**36)
memories = st.builds(
    Memory,
    st.just("int8"),
    parameters=st.integers(1, 10**9),
    weights=st.integers(1, 2**33),
    loading=st.integers(1, 2**34),
    page=st.integers(1, 2**24),
    page_size=st.sampled_from([1, 16, 64]),
    window=st.integers(1, 2**18),
)


@pytest.mark.model
def test_the_default_model_takes_exactly_what_was_said_before_it_was_loaded() -> None:
    core = build(Load(window=1024), lambda event: None, lambda event: None, lambda: False)
    card = core.card
    found = default.find_default(default.DEFAULT)
    assert found is not None
    said = read_facts(found.folder).memory(card.precision, 1024)
    assert (said.parameters, said.weights, said.page) == (card.parameters, card.weight_bytes, card.page_bytes)
    assert (said.window, said.page_size) == (card.window, card.page_size)
    assert said.cache <= card.pages * card.page_bytes
    # The file that is fetched says the same as its conversion, and so do the figures that come with the program.
    assert read_facts(default.DEFAULT.file).memory(card.precision, 1024) == said
    listed = shelf._DEFAULT.facts().memory(card.precision, 1024)
    assert listed.page == said.page
    assert listed.weights == pytest.approx(said.weights, rel=0.002)


@pytest.mark.parametrize("family", sorted(tiny_models.PAGED))
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_every_family_takes_what_its_headers_say(family: str, precision: str, tmp_path: Path) -> None:
    if precision == "int8" and kernels.load() is None:
        pytest.skip("our kernels are not compiled here, and int8 without them is stored otherwise")
    tiny_models.build(family, tmp_path)
    said = read_facts(tmp_path).memory(precision)
    model = tiny_models.build(family).to(DTYPES.get(precision, torch.float32))
    assert said.parameters == sum(p.numel() for p in model.parameters())
    kernel_choice.prepare(model, precision)
    assert said.weights == pytest.approx(kernel_choice.weight_bytes(model), rel=0.0005)
    config = model.config
    shapes, reason = selftest.learn_shapes(_paged(tiny_models.build(family)), config.num_hidden_layers)
    assert not reason
    assert said.page == KVCache.page_bytes(shapes, 16, kernel_choice.kv_dtype(model))


def _paged(model: torch.nn.Module) -> torch.nn.Module:
    from cutaway.engine import attention

    attention.register()
    model.set_attn_implementation(attention.NAME)  # pyright: ignore[reportCallIssue]
    return model


def test_a_gguf_file_says_as_much_as_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTAWAY_CACHE_DIR", str(tmp_path))
    file = tmp_path / "tiny.gguf"
    tiny_gguf.llama(file)
    converted = convert(file, "0" * 64, Watch()).folder
    for precision in ("float32", "int8"):
        assert read_facts(file).memory(precision) == read_facts(converted).memory(precision)


@given(memories, sizes, sizes)
def test_more_room_never_means_less_context(memory: Memory, free: int, more: int) -> None:
    assert memory.context(free) <= memory.context(free + more)
    assert memory.context(free) <= memory.window


@given(memories, sizes)
def test_fit_says_what_the_context_says(memory: Memory, free: int) -> None:
    context = memory.context(free)
    assert memory.fit(free) == (
        "whole" if context == memory.window else "part" if context >= min(LEAST_CONTEXT, memory.window) else "no"
    )
    if memory.loading > free:
        assert memory.fit(free) == "no"
    if context:  # half of what is left after the weights, or one page in any case
        taken = -(-context // memory.page_size) * memory.page
        assert taken <= max(memory.page, (free - memory.weights) // 2 + memory.page)


@given(st.integers(1, 2**24), st.integers(1, 2**18), st.sampled_from([1, 16, 64]), sizes)
def test_the_pool_is_a_window_or_two_and_at_most_half_of_the_room(
    page: int, window: int, page_size: int, free: int
) -> None:
    pages = pages_that_fit(page, window, page_size, free)
    assert 1 <= pages <= max(1024, -(-window // page_size))
    assert pages == 1 or pages * page <= free / 2


def test_auto_is_int8_on_a_cpu_with_kernels_only() -> None:
    assert [auto_precision("cpu", True), auto_precision("cpu", False), auto_precision("cuda:0", True)] == [
        "int8",
        "float32",
        "bfloat16",
    ]


def test_the_recommended_models_have_the_sizes_that_their_names_say() -> None:
    millions = {model.id: model.facts().memory("float32").parameters / 1e6 for model in recommended()}
    assert len(millions) == len(recommended())
    for name, told in {"270m": 268, "360M": 362, "0.6B": 596, "1.1B": 1100, "2.5-0.5B": 494, "3-1.7B": 1720}.items():
        (found,) = [size for id, size in millions.items() if name in id]
        assert found == pytest.approx(told, rel=0.01), name
    for model in recommended():  # stored at two bytes a parameter; some store a tied head as well
        assert 1.9 < model.download / (millions[model.id] * 1e6) < 2.6, model.id
        assert all(estimate(model.facts().config, model.facts().shapes, p).weights > 0 for p in WIDTHS)
    assert [model.download for model in recommended()] == sorted(model.download for model in recommended())


def test_a_configuration_that_does_not_tell_is_said_and_not_guessed(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not tell the model's size"):
        Facts({"model_type": "odd"}, {"a.weight": (4, 4)}).memory("float32")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(ModelError, match=r"lacks model\.safetensors"):
        read_facts(tmp_path)


def test_an_embedding_model_is_known_for_what_it_is() -> None:
    assert not Facts({"architectures": ["BertModel"]}, {}).writes
    assert Facts({"architectures": ["LlamaForCausalLM"]}, {}).writes
    assert Facts({}, {}).writes


def test_a_model_without_room_is_refused_with_both_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_folder.make(tmp_path)
    monkeypatch.setattr("cutaway.engine.memory.free_bytes", lambda device: 100_000)
    with pytest.raises(OutOfMemory, match=r"needs 0\.0 GB to be loaded as float32 and 0\.0 GB are free"):
        build(Load(model=str(tmp_path), precision="float32"), lambda e: None, lambda e: None, lambda: False)
