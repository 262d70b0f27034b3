"""Loading a model beside one that serves: progress, cancelling, taking over, failing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cutaway.engine.protocol import (
    Abort,
    CancelLoad,
    Configure,
    Configured,
    Failed,
    Finished,
    Hello,
    Inspect,
    Load,
    LoadProgress,
    Metrics,
    Ready,
    Rejected,
    Shutdown,
    Submit,
    TextDelta,
)

from .pipes import Pipe, running, up_to
from .talking import scripted, submit


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    with running() as engine:
        yield engine


@pytest.mark.parametrize("model", ["slow", "busy"])
async def test_ml_10_a_load_shows_progress_and_the_old_model_answers_until_it_is_cancelled(model):
    async with scripted(Load(model="old")) as (client, listener):
        await client.send(Load(model=model))
        await listener.first(LoadProgress)
        await client.send(submit("a", "count 50"))
        await listener.finished("a")  # these loads have no end: who waited for it would wait for ever
        await listener.first(LoadProgress)
        await client.send(CancelLoad())
        failed = await listener.first(Failed)
        await client.send(submit("b", "count 1"))
        assert (await listener.finished("b")).reason == "end"
    assert not [e for e in listener.heard if isinstance(e, Ready)][1:]
    assert isinstance(failed, Failed)
    assert failed.kind == "cancelled"
    assert f"Loading {model} was cancelled." == failed.message


async def test_ml_10_the_new_model_takes_over_only_when_the_old_one_owes_nothing():
    async with scripted(Load(model="old")) as (client, listener):
        await client.send(submit("a", "slowly forever"))
        await listener.token("a", 0)
        await client.send(Load(model="new"))
        await listener.until(lambda e: isinstance(e, LoadProgress) and e.stage == "swap")
        await client.send(submit("b", "count 2"))
        await listener.token("a", 10)
        await client.send(Abort("a"))
        assert (await listener.finished("a")).reason == "aborted"
        ready = await listener.first(Ready)
        assert isinstance(ready, Ready)
        assert ready.card.name == "new"
        assert (await listener.finished("b")).reason == "end"
    order = [e for e in listener.heard if isinstance(e, (Ready, Finished))]
    assert [type(e).__name__ for e in order] == ["Ready", "Finished", "Ready", "Finished"]


async def test_switches_survive_a_change_of_model():
    async with scripted(Load(model="old")) as (client, listener):
        await client.send(Configure(policy="static", delivery="buffered", prefix_cache=False))
        await client.send(Load(model="new"))
        await listener.until(lambda e: isinstance(e, Ready) and e.card.name == "new")
        configured = await listener.until(lambda e: isinstance(e, Configured) and e.switches.policy == "static")
    assert isinstance(configured, Configured)
    assert (configured.switches.delivery, configured.switches.prefix_cache) == ("buffered", False)


@pytest.mark.parametrize(
    ("model", "kind", "sentence"),
    [
        ("missing", "model", "There is no model called missing."),
        ("huge", "memory", "There was not enough memory for loading huge."),
        ("crash", "fault", "Loading crash failed with an unexpected RuntimeError."),
    ],
)
async def test_a_model_that_can_not_be_loaded_leaves_the_old_one_serving(model, kind, sentence):
    async with scripted(Load(model="old")) as (client, listener):
        await client.send(Load(model=model))
        failed = await listener.first(Failed)
        await client.send(submit("a", "count 1"))
        assert (await listener.finished("a")).reason == "end"
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.message, failed.fatal) == (kind, sentence, False)


def test_a_request_that_comes_while_the_first_model_loads_is_answered_by_it(pipe):
    pipe.send(Hello(), Load(model="quick"), submit("a", "count 3"))
    heard = up_to(pipe, Finished)
    assert "".join(e.text for e in heard if isinstance(e, TextDelta)) == "1 2 3 "


def test_without_a_model_requests_are_refused_and_can_be_aborted_while_one_comes(pipe):
    pipe.send(Hello(), submit("a", "hi"))
    events = pipe.events()
    next(events)
    rejected = next(events)
    assert isinstance(rejected, Rejected)
    assert rejected.message == "No model is loaded."
    pipe.send(Load(model="slow"), submit("b", "hi", samples=2), Abort("b"), submit("c", "hi"), CancelLoad())
    heard = [e for _, e in zip(range(4), (e for e in events if not isinstance(e, LoadProgress)), strict=False)]
    assert [type(e).__name__ for e in heard] == ["Finished", "Finished", "Failed", "Rejected"]
    assert isinstance(heard[3], Rejected)
    assert heard[3].request == "c"


def test_a_second_load_replaces_the_one_under_way(pipe):
    pipe.send(Hello(), Load(model="slow"), Load(model="second"), submit("a", "count 1"))
    heard = up_to(pipe, Finished)
    assert [e.card.name for e in heard if isinstance(e, Ready)] == ["second"]


def test_metrics_can_be_asked_for_without_a_model(pipe):
    pipe.send(Hello(), Inspect(), Shutdown())
    assert any(isinstance(e, Metrics) for e in pipe.events())


def test_samples_of_one_request_each_get_their_own_end(pipe):
    pipe.send(Hello(), Load(), Submit("a", text="count 2", samples=3))
    ends = []
    for event in pipe.events():
        if isinstance(event, Finished):
            ends.append(event.sample)
            if len(ends) == 3:
                break
    assert sorted(ends) == [0, 1, 2]
