"""The results file and the ratios in it: benchmarks/ is no package, so its modules are found by their path."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("results_file"), importlib.import_module("peers_report")


def test_a_section_is_replaced_and_the_others_stay(modules: tuple[Any, Any], tmp_path: Path) -> None:
    results, _ = modules
    file = tmp_path / "RESULTS.md"
    results.replace_section("a", "first \\1 a", file)
    results.replace_section("b", "first b", file)
    results.replace_section("a", "second a", file)
    text = file.read_text()
    assert text.index("second a") < text.index("first b")
    assert "first \\1 a" not in text
    assert text.startswith("# Results\n")
    assert [f.name for f in tmp_path.iterdir()] == ["RESULTS.md"]


def measured(report: Any, target: str, peer: str, figure: str, *values: float, batch: str = "1") -> list[Any]:
    return [report.Measured(batch, target, peer, figure, value) for value in values]


def test_ratios_are_of_medians_and_of_the_newest_batch(modules: tuple[Any, Any]) -> None:
    _, report = modules
    entries = [
        *measured(report, "single", "ours", "decode", 10.0, batch="0"),
        *measured(report, "single", "ours", "decode", 100.0, 200.0, 900.0),
        *measured(report, "single", "llama.cpp", "decode", 100.0, 100.0, 1.0),
    ]
    text = report.text(entries, "a machine")
    assert "| 1 stream / llama.cpp, same file | ≥ 1.3 | 2.00 |" in text
    assert "| 16 streams / vLLM | ≥ 1.3 | not measured |" in text
    assert "transformers" not in text.split("| ratio")[0].split("|---|")[1]


def test_the_fall_at_long_context_is_held_against_the_peers_fall(modules: tuple[Any, Any]) -> None:
    _, report = modules
    entries = [
        entry
        for peer, short, long in (("ours", 200.0, 100.0), ("llama.cpp", 100.0, 40.0))
        for entry in (
            *measured(report, "context", peer, "short", short),
            *measured(report, "context", peer, "long", long),
        )
    ]
    assert "| fall from 64 to 8,000 tokens / llama.cpp's | ≥ 1 | 1.25 |" in report.text(entries, "a machine")
