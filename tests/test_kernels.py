"""The int8 kernels against the plain formula, and what serves where they can't be compiled."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from cutaway.engine import kernels, linear
from cutaway.engine.linear import QuantLinear, dequantise, quantise, quantize_model
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

library = kernels.load()
needs_kernels = pytest.mark.skipif(library is None, reason=f"no kernels here: {kernels.problem()}")


def quantised_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Whole numbers [m, k] and scales [m, k / 32] of activations, by the plain formula."""
    groups = x.view(len(x), -1, linear.GROUP)
    top = groups.abs().amax(-1)
    # One division, as the kernel does it: `127 / top` would be 127 times a rounded reciprocal.
    inverse = torch.where(top > 0, torch.full_like(top, 127.0) / top, 0.0)
    # In float64, since the kernel multiplies and rounds in one operation.
    return torch.round(groups.double() * inverse.double().unsqueeze(-1)).view(x.shape), top / 127


def formula(x: torch.Tensor, values: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """What the kernel computes, group by group: [m, n] float64."""
    q, s = quantised_rows(x)
    shape = (-1, linear.GROUP)
    dots = torch.einsum("mgi,ngi->mng", q.double().unflatten(-1, shape), values.double().unflatten(-1, shape))
    return (dots * s.double().unsqueeze(1) * scales.double().unsqueeze(0)).sum(-1)


@given(
    n=st.integers(1, 100), groups=st.integers(1, 6), rows=st.integers(1, 40), power=st.integers(-20, 20),
    seed=st.integers(0, 2**31), bias=st.booleans(), plain=st.booleans(),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
@needs_kernels
def test_product_equals_the_plain_formula(
    n: int, groups: int, rows: int, power: int, seed: int, bias: bool, plain: bool
) -> None:
    assert library is not None
    draw = torch.Generator().manual_seed(seed)
    k = groups * linear.GROUP
    weight, x = torch.randn(n, k, generator=draw) * 2.0**power, torch.randn(rows, k, generator=draw) * 2.0**-power
    b = torch.randn(n, generator=draw) if bias else None
    library.use_plain(plain)
    try:
        y = QuantLinear(weight, b, library)(x)
    finally:
        library.use_plain(False)
    want = formula(x, *quantise(weight)) + (0 if b is None else b.double())
    assert torch.allclose(y.double(), want, rtol=1e-5, atol=1e-5 * float(want.abs().max()))


@given(n=st.integers(1, 200), groups=st.integers(1, 50), rows=st.integers(2, 70), seed=st.integers(0, 2**31))
@settings(max_examples=40, deadline=None)
@needs_kernels
def test_a_row_has_the_same_bits_whatever_rows_stand_beside_it(n: int, groups: int, rows: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, groups * linear.GROUP, generator=draw)
    layer = QuantLinear(torch.randn(n, x.shape[1], generator=draw), None, library)
    together = layer(x)
    first = int(torch.randint(rows, (1,), generator=draw))
    count = int(torch.randint(1, rows - first + 1, (1,), generator=draw))
    assert torch.equal(layer(x[first : first + count]), together[first : first + count])


@needs_kernels
def test_threads_do_not_change_a_bit() -> None:
    layer, x = QuantLinear(torch.randn(300, 64), None, library), torch.randn(9, 64)
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 5, 1):
            torch.set_num_threads(threads)
            results.append(layer(x))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(results[0], other) for other in results[1:])


@needs_kernels
def test_vector_and_plain_paths_agree_to_the_bit() -> None:
    assert library is not None
    layer, x = QuantLinear(torch.randn(50, 128), None, library), torch.randn(15, 128)
    y = layer(x)
    library.use_plain(True)
    try:
        assert torch.equal(layer(x), y)
    finally:
        library.use_plain(False)


@given(
    n=st.integers(1, 40), groups=st.integers(1, 4), power=st.integers(-30, 30), seed=st.integers(0, 2**31),
    zeros=st.floats(0, 1),
)  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_quantised_weights_are_within_half_a_step_and_never_clipped(
    n: int, groups: int, power: int, seed: int, zeros: float
) -> None:
    draw = torch.Generator().manual_seed(seed)
    weight = torch.randn(n, groups * 32, generator=draw) * 2.0**power
    weight[torch.rand(weight.shape, generator=draw) < zeros] = 0
    values, scales = quantise(weight)
    step = scales.float().repeat_interleave(32, 1)
    assert bool(((dequantise(values, scales) - weight).abs() <= step * 0.501).all())
    assert bool((dequantise(values, scales)[weight == 0] == 0).all())


@given(n=st.integers(1, 100), groups=st.integers(1, 5), power=st.integers(-30, 30), seed=st.integers(0, 2**31))
@settings(max_examples=60, deadline=None)
@needs_kernels
def test_packed_weights_are_the_formulas_in_the_order_the_layout_says(
    n: int, groups: int, power: int, seed: int
) -> None:
    draw = torch.Generator().manual_seed(seed)
    weight = torch.randn(n, groups * 32, generator=draw) * 2.0**power
    weight[torch.rand(weight.shape, generator=draw) < 0.1] = 0
    layer = QuantLinear(weight, None, library)
    assert layer.data.shape == (-(-n // 16), groups, 8, 16, 4)
    stored = layer.data.permute(0, 3, 1, 2, 4).reshape(-1, groups * 32).to(torch.int16) - 128  # [padded n, k]
    scales = layer.scales.transpose(1, 2).reshape(-1, groups)
    values, wanted = quantise(weight)
    assert torch.equal(stored[:n], values.to(torch.int16))
    assert torch.equal(scales[:n], wanted)
    assert not stored[n:].any()


@needs_kernels
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), -float("inf")])
def test_activations_that_are_no_numbers_are_not_hidden(poison: float) -> None:
    x = torch.randn(3, 64)
    x[1, 40] = poison
    y = QuantLinear(torch.randn(20, 64), None, library)(x)
    assert y[1].isnan().all()
    assert not y[[0, 2]].isnan().any()


@needs_kernels
@pytest.mark.skipif(" avx2 " not in kernels.processor(), reason="this processor has no AVX2")
def test_a_processor_with_avx2_only_computes_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "NATIVE", (("-march=haswell",),))
    narrow = kernels.Library(kernels.build(tmp_path))
    assert narrow.name == "cutaway int8 (AVX2)"
    weight, x = torch.randn(90, 352), torch.randn(39, 352)
    assert torch.allclose(QuantLinear(weight, None, narrow)(x), QuantLinear(weight, None, library)(x), rtol=1e-5)


@needs_kernels
def test_compiling_again_is_a_look_into_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = kernels.build(tmp_path)
    monkeypatch.setattr(kernels, "Compilation", lambda *a, **k: pytest.fail("compiled twice"))
    assert kernels.build(tmp_path) == first
    assert [p.name for p in tmp_path.iterdir()] == [first.name]


@pytest.fixture
def fresh_load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("CUTAWAY_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernels, "_kept", kernels._Kept())
    return tmp_path


def test_without_a_compiler_torch_serves_and_the_reason_is_told(
    fresh_load: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    model = nn.Sequential(nn.Linear(64, 50), nn.Linear(50, 20))
    x = torch.randn(3, 64)
    want = model(x)
    assert quantize_model(model) == "torch bfloat16 (no C++ compiler found: c++, g++ or clang++)"
    assert isinstance(model[0], QuantLinear)
    assert type(model[1]) is nn.Linear  # 50 inputs are no multiple of 32
    assert torch.allclose(model(x), want, atol=0.05)


def test_a_compiler_that_fails_is_told_with_its_message(fresh_load: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = fresh_load / "c++"
    broken.write_text("#!/bin/sh\necho no room on this disk >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    assert kernels.load() is None
    assert "no room on this disk" in kernels.problem()
    assert not any(p.suffix == ".so" for p in (fresh_load / "kernels").iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_cache_is_told(fresh_load: Path) -> None:
    fresh_load.chmod(0o500)
    assert kernels.load() is None
    assert "ermission" in kernels.problem()


@needs_kernels
def test_only_one_openmp_runtime_is_loaded() -> None:
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("needs /proc")
    loaded = {line.split()[-1] for line in maps.read_text().splitlines() if "omp" in line.split()[-1]}
    assert len([p for p in loaded if Path(p).name.startswith(("libgomp", "libomp", "libiomp"))]) <= 1
