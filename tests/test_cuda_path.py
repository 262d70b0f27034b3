"""What runs on CUDA, exercised here as far as its seams allow: FlashAttention by a stand-in, graphs replayed by hand.

The stand-in computes what `torch.nn.attention.varlen.varlen_attn` documents, from the same arguments, so the engine's
use of it is held to its contract; the kernel itself is compared with `gathered` at every load on a device.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.attention.varlen as torch_varlen
from cutaway.engine import cuda_attention, cuda_graphs, cuda_runner, selftest
from cutaway.engine.cuda_attention import Attend, Ragged, plain, varlen
from cutaway.engine.cuda_graphs import DecodeGraphs, Graph, Unrecorded
from cutaway.engine.cuda_runner import CudaRunner
from cutaway.engine.kv_cache import KVCache
from cutaway.engine.protocol import SamplingSettings
from cutaway.engine.runner import PagedRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from . import engine_driver, tiny_folder
from .engine_driver import GREEDY, Driver
from .late_device import OnDevice


def stand_in(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor,
    max_q: int,
    max_k: int,
    *,
    scale: float,
    window_size: tuple[int, int],
    enable_gqa: bool,
    seqused_k: Tensor,
    block_table: Tensor,
) -> Tensor:
    """`varlen_attn` with a block table, spelled out; asserts what the kernel would refuse."""
    assert {t.dtype for t in (cu_seq_q, cu_seq_k, seqused_k, block_table)} == {torch.int32}
    assert block_table.stride(-1) == 1
    assert key.dim() == value.dim() == 4
    assert enable_gqa == (query.shape[1] != key.shape[2])
    assert cu_seq_k.tolist() == [0, *seqused_k.cumsum(0).tolist()]
    out = torch.empty_like(query)
    for number, length in enumerate(seqused_k.tolist()):
        begin, end = cu_seq_q[number].item(), cu_seq_q[number + 1].item()
        assert end - begin <= max_q
        assert length <= max_k
        for row in range(begin, end):
            last = length - (end - row)  # the position of this row
            first = 0 if window_size[0] < 0 else max(0, last - window_size[0])
            slots = [(block_table[number, p // key.shape[1]].item(), p % key.shape[1]) for p in range(first, last + 1)]
            k = torch.stack([key[page, offset] for page, offset in slots])  # [C, Hkv, D]
            v = torch.stack([value[page, offset] for page, offset in slots])
            group = query.shape[1] // key.shape[2]
            for head in range(query.shape[1]):
                weights = torch.softmax(k[:, head // group].float() @ query[row, head].float() * scale, 0)
                out[row, head] = (weights @ v[:, head // group].float()).to(query.dtype)
    return out


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_varlen, "varlen_attn", stand_in)


def a_cache(page_size: int, pages: int, heads: int, width: int) -> KVCache:
    torch.manual_seed(1)
    shape = (pages * page_size, heads, width)
    return KVCache({0: torch.randn(shape)}, {0: torch.randn(shape)}, page_size)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 20)), min_size=1, max_size=4),
    st.sampled_from([None, 1, 4, 64]),
    st.sampled_from([1, 3]),
)
def test_the_fallback_and_the_kernels_contract_are_the_same_attention(
    sequences: list[tuple[int, int]], window: int | None, group: int
) -> None:
    cache = a_cache(page_size=4, pages=40, heads=2, width=8)
    counts = [count for count, _ in sequences]
    used = [count + before for count, before in sequences]
    pages = torch.randperm(40)[: 7 * len(used)].view(len(used), 7).int()
    starts = torch.tensor([0, *torch.tensor(counts).cumsum(0).tolist()], dtype=torch.int32)
    ragged = Ragged(starts, torch.tensor(used, dtype=torch.int32), pages, max(counts), 28)
    query = torch.randn(sum(counts), 2 * group, 8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch_varlen, "varlen_attn", stand_in)
        through_kernel = cuda_attention.varlen(query, cache, 0, ragged, 0.3, window)
    assert torch.allclose(through_kernel, cuda_attention.gathered(query, cache, 0, ragged, 0.3, window), atol=1e-5)


@pytest.mark.parametrize("window", [None, 1, 5])
@pytest.mark.parametrize("group", [1, 3])
def test_decodes_over_padded_tables_are_the_same_attention(window: int | None, group: int) -> None:
    cache = a_cache(page_size=4, pages=40, heads=2, width=8)
    used = [1, 4, 5, 28]
    pages = torch.randperm(40)[: 7 * len(used)].view(len(used), 7).int()
    starts = torch.arange(len(used) + 1, dtype=torch.int32)
    ragged = Ragged(starts, torch.tensor(used, dtype=torch.int32), pages, 1, 28)
    query = torch.randn(len(used), 2 * group, 8)
    padded = cuda_attention.plain(query, cache, 0, ragged, 0.3, window)
    assert torch.allclose(padded, cuda_attention.gathered(query, cache, 0, ragged, 0.3, window), atol=1e-5)


def empty_cache() -> KVCache:
    return KVCache({0: torch.zeros(64, 2, 8)}, {0: torch.zeros(64, 2, 8)}, 16)


def test_a_right_kernel_is_accepted_and_its_trial_leaves_nothing_behind(kernel: None) -> None:
    cache = empty_cache()
    assert cuda_attention.problem(cache, heads=4) == ""
    assert not cache.keys[0].any()
    assert not cache.values[0].any()


def test_a_wrong_kernel_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_varlen, "varlen_attn", lambda *args, **more: 2 * stand_in(*args, **more))
    assert "is off by 1" in cuda_attention.problem(empty_cache(), heads=4)


def test_a_torch_without_block_tables_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_varlen, "varlen_attn", lambda query, key, value, *, scale: query)
    assert f"torch {torch.__version__} takes no block tables" in cuda_attention.problem(empty_cache(), heads=4)


def test_without_the_kernel_the_reason_is_torchs() -> None:
    assert "can't" in cuda_attention.problem(empty_cache(), heads=4)  # FlashAttention is not for this CPU


@pytest.mark.parametrize("most", [1, 3, 16, 64, 100, 256])
def test_sizes_of_graphs_rise_to_the_most_and_waste_little(most: int) -> None:
    sizes = cuda_graphs.sizes(most)
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == most
    for rows in range(1, most + 1):
        assert min(size for size in sizes if size >= rows) < max(2 * rows, rows + 32)


# ------------------------------------------------------------------------------------- the whole engine over it


def through(
    driver: Driver, lanes: int, record: Callable[[Callable[[], None]], Graph] | None, attend: Attend = varlen
) -> Driver:
    """The same loaded model, run as on a device: one more page, ragged attention, recorded decodes."""
    before = driver.core.runner
    assert isinstance(before, PagedRunner)
    size = before.cache.page_size

    def longer(store: Tensor) -> Tensor:
        return torch.cat([store, torch.zeros(size, *store.shape[1:], dtype=store.dtype)])

    cache = KVCache(
        {n: longer(store) for n, store in before.cache.keys.items()},
        {n: longer(store) for n, store in before.cache.values.items()},
        size,
    )
    runner = CudaRunner(before.model, cache, attend)
    if record is not None:
        assert runner.record(record, lanes, driver.core.card.window) == ""
    driver.core.runner = runner
    return driver


def conversation(driver: Driver) -> list[list[int]]:
    draw = random.Random(2)
    for number in range(7):
        how = GREEDY if number % 2 else SamplingSettings(seed=number, max_tokens=9 + number, ignore_eos=True)
        driver.submit(f"r{number}", [draw.randrange(5, 400) for _ in range(draw.randint(1, 50))], how)
        driver.core.step()
    driver.run()
    return [driver.ids(f"r{number}") for number in range(7)]


@pytest.fixture(scope="module", params=["llama", "qwen3", "mistral"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder.make(tmp_path_factory.mktemp("model") / request.param, request.param)


@pytest.mark.parametrize("attend", [varlen, plain])
@pytest.mark.parametrize(("recorded", "ahead"), [(True, True), (False, True), (True, False)])
def test_mixed_traffic_says_the_same_as_on_the_cpu(
    folder: Path, recorded: bool, ahead: bool, attend: Attend, kernel: None
) -> None:
    load = {"pages": 40, "window": 96, "max_lanes": 5, "token_budget": 24}
    reference = conversation(engine_driver.start(folder, **load))
    record = Unrecorded if recorded else None
    driver = through(engine_driver.start(folder, **load), 5, record, attend)
    if ahead:
        driver.core.sampler = OnDevice()  # it guesses, so steps are launched ahead
    assert conversation(driver) == reference
    assert any(step.ahead for step in driver.steps()) == ahead


def test_rows_beyond_the_batch_touch_nothing_but_the_scratch_page(folder: Path, kernel: None) -> None:
    driver = through(engine_driver.start(folder, pages=8, window=64, max_lanes=3), 3, Unrecorded)
    cache: Any = driver.core.runner.cache  # pyright: ignore[reportAttributeAccessIssue]
    driver.submit("a", [7, 8, 9])
    driver.run()
    written = {int(slot) // 16 for slot in cache.keys[0].abs().sum((1, 2)).nonzero().flatten()}
    scratch = len(cache.keys[0]) // 16 - 1
    pages = {page for step in driver.steps() for lane in step.lanes for page in lane.block_table}
    assert written <= pages | {scratch}


def test_a_batch_takes_the_next_larger_graph_and_too_large_ones_take_none(kernel: None) -> None:
    seen: list[int] = []

    def step(rows: cuda_graphs.Rows) -> Tensor:
        seen.append(len(rows.ids))
        return torch.zeros(len(rows.ids), 3)

    graphs = DecodeGraphs(step, [1, 2, 4], 2, 16, 9, torch.device("cpu"))
    assert graphs.record(Unrecorded) == ""
    work: Any = type("W", (), {"count": 1, "token_ids": (5,), "start": 3, "slots": (3,), "end": 4, "block_table": (0,)})
    long: Any = type("W", (), {**vars(work), "block_table": (0, 1, 2)})
    assert graphs.fits([work] * 4)
    assert not graphs.fits([work] * 5)
    assert not graphs.fits([long])


def test_what_can_not_be_recorded_is_told_and_runs_without(folder: Path, kernel: None) -> None:
    def refuse(work: Callable[[], None]) -> Graph:
        raise RuntimeError("operation not permitted when stream is capturing\nand more")

    driver = through(engine_driver.start(folder, pages=8, window=64), 2, None)
    runner = driver.core.runner
    assert isinstance(runner, CudaRunner)
    assert "operation not permitted" in runner.record(refuse, 2, 64)
    assert "and more" not in runner.record(refuse, 2, 64)
    assert len(driver.complete([5, 6, 7])) == 16


def test_a_plan_goes_to_the_device_as_one_tensor() -> None:
    from cutaway.engine.plan import StepPlan, Work
    from cutaway.engine.sequence import Sequence

    a, b = Sequence("a", 0, [1, 2, 3], 3, 9), Sequence("b", 0, [7] * 20, 20, 30)
    plan = StepPlan(
        0,
        "continuous",
        (
            Work(a, 0, "decode", 2, 1, (3,), (34,), (2,), True),
            Work(b, 1, "prefill", 4, 3, (7, 7, 7), (4, 5, 6), (0, 1), False),
        ),
    )
    ids, positions, slots, wanted, ragged = cuda_runner.pack(plan, 16, torch.device("cpu"))
    assert ids.tolist() == [3, 7, 7, 7]
    assert positions.tolist() == [2, 4, 5, 6]
    assert slots.tolist() == [34, 4, 5, 6]
    assert wanted.tolist() == [0]
    assert ragged.starts.tolist() == [0, 1, 4]
    assert ragged.used.tolist() == [3, 7]
    assert ragged.table.tolist() == [[2], [0]]
    assert len({t.untyped_storage().data_ptr() for t in (ids, slots, ragged.table)}) == 1


# ----------------------------------------------------------------------------------------------- the choice


def choice_for(folder: Path) -> cuda_runner.Choice:
    runner = engine_driver.start(folder, pages=8, window=64).core.runner
    assert isinstance(runner, PagedRunner)
    model, cache = runner.model, runner.cache
    shapes = {n: (*store.shape[1:], cache.values[n].shape[2]) for n, store in cache.keys.items()}
    reference = selftest.make_reference(model)
    return cuda_runner.choose(model, shapes, cache, reference, heads=4, lanes=3, window=64)


def test_the_runner_is_chosen_when_kernel_and_model_pass(folder: Path, kernel: None) -> None:
    chosen = choice_for(folder)
    assert chosen.runner is not None
    assert chosen.runner.graphs is not None
    assert chosen.test is not None
    assert chosen.test.passed
    assert chosen.note == "FlashAttention over pages, CUDA graphs"


def test_a_device_without_the_kernel_gathers_pages_in_graphs_and_says_why(folder: Path) -> None:
    chosen = choice_for(folder)
    assert chosen.runner is not None
    assert chosen.runner.attend is plain
    assert chosen.runner.graphs is not None
    assert chosen.note.startswith("pages gathered (torch's varlen_attn can't")
    assert chosen.note.endswith("), CUDA graphs")


@pytest.mark.parametrize("family", ["gemma2", "gpt_oss"])
def test_soft_caps_and_sinks_are_left_to_gathered_pages(tmp_path: Path, family: str, kernel: None) -> None:
    chosen = choice_for(tiny_folder.make(tmp_path / family, family))
    assert chosen.runner is None
    assert "neither a soft cap nor sinks" in chosen.note
