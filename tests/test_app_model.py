"""The application on the real engine: every control changes what the engine does, and the panels show it."""

from __future__ import annotations

import pytest
from cutaway.engine.client import EngineClient
from cutaway.engine.protocol import Load, SamplingSettings
from cutaway.tui.panels import ForkRequested
from cutaway.tui.state import RequestState, SampleState

from .patience import LONG
from .screen_run import Running, running

pytestmark = [pytest.mark.model, pytest.mark.timeout(300)]

QUESTION = "Write one sentence about the colour of the sky above the sea in the evening."


def newest(run: Running) -> tuple[RequestState, SampleState]:
    """The request behind the last reply of the chat shown, and its sample."""
    reply = run.session.conversation.path()[-1].reply
    assert reply is not None
    request = run.session.state.requests[reply.request]
    return request, request.samples[0]


async def switch(run: Running, action: str, **expected: object) -> None:
    """Turn a switch and wait for the engine to say so."""
    await run.main.run_action(action)
    for name, value in expected.items():
        await run.until(lambda n=name, v=value: getattr(run.session.state.switches, n) == v, f"{name} = {value}")


async def asked_anew(run: Running) -> tuple[RequestState, SampleState]:
    """The same question in a new chat."""
    run.main.action_new_chat()
    await run.ask(QUESTION)
    return newest(run)


async def test_every_control_changes_what_the_engine_does_and_the_panels_show_it() -> None:
    settings = SamplingSettings(temperature=0.0, max_tokens=24)
    async with running((160, 48), Load(max_lanes=4), settings, engine=EngineClient(), patience=LONG) as run:
        await streams_a_reply(run)
        await serves_the_beginning_from_the_prefix_cache_unless_told_not_to(run)
        await computes_every_prefix_again_without_kv_reuse(run)
        await forks_at_another_candidate_on_shared_pages(run)
        await shows_a_buffered_reply_only_when_it_is_whole(run)
        await lets_nobody_into_a_static_batch_before_it_is_over(run)
        await holds_and_steps(run)


async def streams_a_reply(run: Running) -> None:
    request, sample = await asked_anew(run)
    reply = run.session.conversation.path()[-1]
    assert reply.text.strip()
    assert reply.text == sample.text()
    assert sample.generated <= 24
    computed = sum(chunk.count for chunk in sample.chunks if chunk.phase == "prefill")
    assert computed == len(request.prompt) - sample.cached
    for token in sample.tokens:
        assert token is not None
        assert token.rank == 1
        best = max(token.candidates, key=lambda candidate: candidate.logit)
        assert (best.id, best.prob) == (token.id, 1.0)
    pool = run.session.state.pool
    assert all(page in pool.pages for page in sample.block_table)
    assert pool.totals.used + pool.totals.cached + pool.totals.free == pool.totals.total


async def serves_the_beginning_from_the_prefix_cache_unless_told_not_to(run: Running) -> None:
    first = run.session.conversation.path()[-1].text
    request, sample = await asked_anew(run)
    assert sample.cached > 0
    assert request.cached == sample.cached
    await run.shows("spared by the prefix cache")
    assert run.session.conversation.path()[-1].text == first
    await switch(run, "prefix_cache", prefix_cache=False)
    await run.shows("□ no prefix cache")
    _, sample = await asked_anew(run)
    assert sample.cached == 0
    assert run.session.conversation.path()[-1].text == first
    await switch(run, "prefix_cache", prefix_cache=True)


async def computes_every_prefix_again_without_kv_reuse(run: Running) -> None:
    first = run.session.conversation.path()[-1].text
    await switch(run, "kv_reuse", kv_reuse=False)
    await run.shows("∑ recompute")
    request, sample = await asked_anew(run)
    assert sample.recomputed > len(request.prompt) * (sample.generated - 2)
    assert run.session.conversation.path()[-1].text == first
    await switch(run, "kv_reuse", kv_reuse=True)
    await run.shows("↻ KV reuse")


async def forks_at_another_candidate_on_shared_pages(run: Running) -> None:
    request, sample = await asked_anew(run)
    old = run.session.conversation.path()[-1]
    token = sample.tokens[5]
    assert token is not None
    other = next(candidate for candidate in token.candidates if candidate.id != token.id)
    run.main.panel("candidates").post_message(ForkRequested(request.request, 0, 5, other.id))
    await run.until(lambda: run.session.conversation.path()[-1] is not old and not run.session.generating, "the fork")
    await run.settle()
    fork = run.session.conversation.path()[-1]
    kept = b"".join(t.bytes for t in sample.tokens[:5] if t is not None).decode() + other.bytes.decode()
    assert fork.text.lstrip().startswith(kept.lstrip())
    assert old in fork.siblings
    _, branch = newest(run)
    assert set(branch.block_table) & set(sample.block_table)
    await run.shows("‹ 2/2 ›")


async def shows_a_buffered_reply_only_when_it_is_whole(run: Running) -> None:
    await switch(run, "delivery", delivery="buffered")
    await switch(run, "pause", paused=True)  # or the reply may be whole before anything of it is painted
    run.main.action_new_chat()
    await run.ask(QUESTION, wait=False)
    for _ in range(5):
        await run.main.run_action("step")
    await run.shows("tokens so far")
    assert run.session.conversation.path()[-1].text == ""
    assert run.session.generating
    await switch(run, "pause", paused=False)
    await run.until(lambda: not run.session.generating, "the whole reply")
    assert run.session.conversation.path()[-1].text.strip()
    await switch(run, "delivery", delivery="streamed")


async def lets_nobody_into_a_static_batch_before_it_is_over(run: Running) -> None:
    await switch(run, "policy", policy="static")
    await run.shows("▦ static")
    await run.main.run_action("traffic")
    await run.until(lambda: any(r.waits for r in run.session.state.lanes.records if r.policy == "static"), "a queue")
    await run.until(lambda: not run.session.traffic, "the end of the traffic")
    records = [record for record in run.session.state.lanes.records if record.policy == "static"]
    assert any(record.padding for record in records)
    await switch(run, "policy", policy="continuous")


async def holds_and_steps(run: Running) -> None:
    await switch(run, "pause", paused=True)
    run.main.action_new_chat()
    await run.ask(QUESTION, wait=False)
    before = run.session.state.lanes.records[-1].iteration
    for _ in range(3):
        await run.main.run_action("step")
    await run.until(lambda: run.session.state.lanes.records[-1].iteration == before + 3, "three steps")
    assert run.session.generating
    await switch(run, "pause", paused=False)
    await run.until(lambda: not run.session.generating, "the end")
