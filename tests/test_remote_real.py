"""Against a real server, such as vLLM: CUTAWAY_TEST_SERVER names its address. `make test-servers` runs these."""

from __future__ import annotations

import itertools
import math
import os
import time

import pytest
from cutaway.engine.protocol import (
    Abort,
    Finished,
    Inspect,
    Message,
    Metrics,
    PromptRendered,
    Ready,
    SamplingSettings,
    Submit,
    TextDelta,
)

from .remote_driver import core

ADDRESS = os.environ.get("CUTAWAY_TEST_SERVER", "")
MODEL = os.environ.get("CUTAWAY_TEST_SERVER_MODEL", "")
pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(not ADDRESS, reason="CUTAWAY_TEST_SERVER names no server"),
]
GREEDY = SamplingSettings(temperature=0.0, max_tokens=24)


@pytest.fixture
def running():
    with core(ADDRESS, MODEL) as made:
        made.connect()
        yield made


def test_a_reply_its_counts_and_its_candidates_agree_with_one_another(running):
    ended = running.ask("r", "What is the capital of France?", GREEDY)
    tokens = running.tokens()
    assert ended.counted
    assert ended.prompt_tokens > 0
    assert len(tokens) == ended.generated_tokens == len(ended.timeline.tokens_ns)
    spoken = b"".join(token.bytes for token in tokens if not token.end).decode("utf-8", "replace")
    assert spoken.strip() == running.text().strip()
    for token in tokens:
        assert token.logprob is not None
        assert token.logprob <= 0
        assert sum(math.exp(candidate.logprob or 0.0) for candidate in token.candidates) <= 1.01
        assert token.rank == 1  # greedy


def test_the_prompts_tokens_are_as_many_as_the_server_counts(running):
    running.ask("r", "What is the capital of France?", GREEDY)
    rendered = running.all(PromptRendered, "r")[-1]
    if not rendered.tokens:
        pytest.skip("this server has no /tokenize that names pieces")
    assert len(rendered.tokens) == running.first(Finished, "r").prompt_tokens
    assert "What is the capital of France?" in rendered.text


def test_a_seed_gives_the_same_reply_again_and_samples_differ(running):
    settings = SamplingSettings(temperature=1.0, max_tokens=24, seed=7)
    running.ask("a", "Tell me a story.", settings)
    running.ask("b", "Tell me a story.", settings)
    assert running.text("a") == running.text("b")
    running.ask("n", "Tell me a story.", settings, samples=3)
    assert len({running.text("n", sample) for sample in range(3)}) > 1


def test_an_abort_frees_the_server(running):
    running.send(Submit("r", (Message("user", "Count to a thousand."),), settings=SamplingSettings(max_tokens=1500)))
    running.first(TextDelta, "r")
    running.send(Abort("r"))
    if "metrics" not in running.first(Ready).card.capabilities:
        pytest.skip("this server does not tell how many requests run")
    end = time.monotonic() + 20
    for number in itertools.count():
        running.send(Inspect())
        if not running.first(Metrics, after=number).num_requests_running:
            return
        assert time.monotonic() < end, "the server goes on with an aborted request"


def test_a_reply_is_held_to_a_json_schema(running):
    schema = '{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}'
    settings = SamplingSettings(temperature=0.0, max_tokens=64)
    ended = running.ask("r", "Give a JSON object with the name of a person.", settings, json_schema=schema)
    if ended.reason == "failed":
        pytest.skip(f"this server takes no schema: {ended.detail}")
    assert running.text().lstrip().startswith("{")


def test_thirty_two_requests_at_once_all_end(running):
    names = [f"r{number}" for number in range(32)]
    running.send(*(Submit(name, (Message("user", f"Say {name}."),), settings=GREEDY) for name in names))
    for name in names:
        assert running.first(Finished, name).reason in ("end", "length")
        assert running.text(name)
