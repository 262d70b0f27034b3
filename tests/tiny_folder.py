"""A tiny random model with a tokenizer, saved as a model folder that the engine loads like any other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from cutaway.engine.build import assemble
from cutaway.engine.plan import StepPlan
from cutaway.engine.protocol import AnyEvent, ModelCard
from cutaway.engine.tokenizer import load_tokenizer

from . import tiny_models, tiny_tokenizers
from .engine_driver import Driver

VOCABULARY = 416  # the tiny tokenizer's, rounded up


def make(folder: Path, family: str = "llama", template: str | None = tiny_tokenizers.CHATML, **changes: Any) -> Path:
    """Save a tiny model of `family` with a byte-level ChatML tokenizer to `folder`."""
    tiny_models.build(family, folder, vocab_size=VOCABULARY, **changes)
    tiny_tokenizers.save(folder, tiny_tokenizers.byte_level(), template=template, eos_token="<|im_end|>")
    return folder


class ScriptedRunner:
    """Gives logits that make each request say its script, whatever the prompt: no model at all.

    `scripts` maps a request's name to the tokens it emits; the last one is repeated for ever.
    """

    def __init__(self, vocabulary: int, scripts: dict[str, list[int]]) -> None:
        self.vocabulary = vocabulary
        self.scripts = scripts
        self.before: Callable[[StepPlan], None] = lambda plan: None
        self.positions: dict[str, int] = {}  # computed so far, by request

    def run(self, plan: StepPlan) -> torch.Tensor:
        self.before(plan)
        rows = []
        for work in plan.work:
            name = work.sequence.request
            self.positions[name] = self.positions.get(name, 0) + work.count
            if work.samples:
                script = self.scripts[name]
                at = min(work.end - work.sequence.prompt_length, len(script) - 1)
                row = torch.zeros(self.vocabulary)
                row[script[at]] = 30.0
                rows.append(row)
        return torch.stack(rows) if rows else torch.empty(0, self.vocabulary)

    def use_threads(self, count: int) -> None:
        """Nothing is computed."""

    def release(self, key: str) -> None:
        """Nothing is kept."""


def scripted(folder: Path, scripts: dict[str, list[int]], **card: Any) -> tuple[Driver, ScriptedRunner]:
    """A core whose model is a script; `folder` gives the tokenizer, `card` changes window, pages, lanes, …"""
    tokenizer = load_tokenizer(folder)
    values: dict[str, Any] = {
        "name": "scripted",
        "identity": "0" * 64,
        "architecture": "script",
        "parameters": 0,
        "weight_bytes": 0,
        "precision": "float32",
        "device": "cpu",
        "threads": 1,
        "window": 512,
        "vocabulary": VOCABULARY,
        "layers": 0,
        "page_size": 16,
        "pages": 64,
        "page_bytes": 0,
        "max_lanes": 8,
        "token_budget": 64,
        "attention": "paged",
        **card,
    }
    events: list[AnyEvent] = []
    runner = ScriptedRunner(VOCABULARY, scripts)
    core = assemble(ModelCard(**values), tokenizer, runner, events.append)
    core.start()
    return Driver(core, events), runner
