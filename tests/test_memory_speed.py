"""What a step reads of the weights, counted on small models."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from cutaway.engine import linear, memory_speed
from cutaway.engine.protocol import Inspect, Metrics

from . import engine_driver, tiny_folder, tiny_models


def size(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters()) * 4


def embedding(model: torch.nn.Module) -> int:
    return model.get_input_embeddings().weight.numel() * 4  # pyright: ignore[reportCallIssue]


def test_an_embedding_that_is_only_looked_up_does_not_count() -> None:
    model = tiny_models.build("llama", tie_word_embeddings=False)
    assert memory_speed.step_bytes(model) == size(model) - embedding(model)


def test_an_embedding_that_is_the_head_too_counts_once() -> None:
    model = tiny_models.build("llama", tie_word_embeddings=True)
    assert memory_speed.step_bytes(model) == size(model)


def test_of_experts_those_a_token_is_sent_to_count() -> None:
    model = tiny_models.build("qwen3_moe")  # 2 experts of 4
    experts = sum(p.numel() for n, p in model.named_parameters() if ".experts." in n) * 4
    assert memory_speed.step_bytes(model) == size(model) - embedding(model) - experts / 2


def test_quantised_layers_count_as_they_are_stored() -> None:
    model = tiny_models.build("llama", tie_word_embeddings=True)
    whole = memory_speed.step_bytes(model)
    linear.quantize_model(model)
    assert whole / 4 < memory_speed.step_bytes(model) < whole * 0.6


def test_the_measured_speed_is_a_speed_and_the_threads_stay() -> None:
    before = torch.get_num_threads()
    assert 1e8 < memory_speed.bytes_per_second(1000, torch.device("cpu")) < 1e13
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("asked", [True, False])
def test_the_metrics_hold_it_when_it_was_asked_for(tmp_path: Path, asked: bool) -> None:
    driver = engine_driver.start(tiny_folder.make(tmp_path / "tiny"))
    driver.send(Inspect(memory=asked))
    [metrics] = driver.of(Metrics)
    assert (metrics.memory_bytes_per_s > 0) == asked
    assert driver.core.card.step_bytes > 0
