"""The state against the real engine on a tiny model: what the screen believes is what the engine holds."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from cutaway.engine.protocol import Configure, Fork, PageChange, SamplingSettings, Step
from cutaway.engine.sequence import Status
from cutaway.tui.panels import CandidatesPanel, PagesPanel, TokenRow, TrianglePanel
from cutaway.tui.state import EngineState, Selection, resolve

from . import engine_driver, tiny_folder, tiny_models
from .panel_host import hosted


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder.make(tmp_path_factory.mktemp("state") / "tiny", num_hidden_layers=1)


def take(driver: engine_driver.Driver, state: EngineState) -> list[Step]:
    """Apply what was said since the last call; returns its steps."""
    steps = [event for event in driver.events if isinstance(event, Step)]
    for event in driver.events:
        state.apply(event)
    driver.events.clear()
    return steps


def check(driver: engine_driver.Driver, state: EngineState, steps: list[Step]) -> None:
    pool = driver.core.scheduler.pool
    assert state.pool.totals == pool.totals()
    for page in range(pool.pages):
        told, real = state.pool.pages.get(page, PageChange(page, "free")), pool.detail(page)
        assert (told.state, told.owners, told.fill, told.refs) == (real.state, real.owners, real.fill, real.refs)
    ran = {(lane.request, lane.sample) for step in steps for lane in step.lanes}
    for sequence in driver.core.scheduler.running:
        if sequence.status is not Status.RUNNING or (sequence.request, sequence.sample) not in ran:
            continue
        request = state.requests[sequence.request]
        sample = request.samples[sequence.sample]
        # Lanes tell the pages in use; pages for the rest of a prompt may be held already.
        assert list(sample.block_table) == sequence.block_table[: pool.pages_for(sequence.computed)]
        assert sample.written == sequence.computed
        assert request.prompt_length == sequence.prompt_length
        ids = [getattr(request.token_at(sequence.sample, at), "id", None) for at in range(len(sequence.tokens))]
        # A sample forked within one request has its siblings' prompt; nothing of it is unknown.
        assert ids == sequence.tokens
        selection = Selection()
        selection.select_token(sequence.request, sequence.sample, sequence.computed - 1)
        found = resolve(selection, state)
        size = pool.page_size
        at = sequence.computed - 1
        assert found.slot == sequence.block_table[at // size] * size + at % size
        assert found.written
        assert sequence.key in found.owners


def test_pages_tables_tokens_and_slots_are_the_engines_after_every_step(folder: Path) -> None:
    draw = random.Random(3)
    driver = engine_driver.start(folder, pages=40, window=160, token_budget=64)
    state = EngineState()
    take(driver, state)
    prefixes = [[draw.randrange(3, tiny_models.VOCABULARY) for _ in range(40)] for _ in range(3)]
    sent = 0
    while sent < 60 or driver.core.has_work:
        while sent < 60 and len(driver.core.requests) < 10:
            settings = SamplingSettings(temperature=1.0, max_tokens=draw.randint(3, 20), ignore_eos=True, candidates=4)
            if draw.random() < 0.2 and driver.core.finished:
                source = next(reversed(driver.core.finished))
                driver.send(Fork(f"r{sent}", source, at=1, forced=9, settings=settings))
            else:
                prompt = draw.choice(prefixes)[: draw.randrange(40)] + [draw.randrange(3, 300)] * draw.randint(1, 30)
                driver.submit(f"r{sent}", prompt, settings, samples=draw.choice([1, 1, 2]))
            sent += 1
        if draw.random() < 0.1:
            driver.send(Configure(policy=draw.choice(["continuous", "static"]), kv_reuse=draw.random() < 0.7))
            driver.send(Configure(prefix_cache=draw.random() < 0.8))
        driver.core.step()
        check(driver, state, take(driver, state))
    assert all(request.done for request in state.requests.values())
    assert sum(request.spared for request in state.requests.values()) > 0
    assert sum(request.recomputed for request in state.requests.values()) > 0
    for name, request in state.requests.items():
        for sample in request.samples.values():
            assert sample.finished is not None, name
            assert tuple(token.id for token in sample.tokens if token) == sample.finished.token_ids


async def test_panels_show_a_real_request(folder: Path) -> None:
    driver = engine_driver.start(folder, pages=40, window=160, token_budget=16)
    state, selection = EngineState(), Selection()
    prompt = [random.Random(1).randrange(3, tiny_models.VOCABULARY) for _ in range(40)]
    settings = SamplingSettings(temperature=0.8, top_p=0.5, max_tokens=12, ignore_eos=True, candidates=4)
    driver.submit("real", prompt, settings)
    driver.run(until=lambda: len(driver.sampled("real")) >= 8)
    take(driver, state)
    (sequence,) = driver.core.scheduler.running
    selection.select_request("real")
    size = driver.core.scheduler.pool.page_size
    async with hosted(PagesPanel, state, selection, (62, 20)) as (app, _):
        drawn = "".join(app.rows())
        full = [page for page in sequence.block_table if state.pool.pages[page].fill == size]
        assert sorted(full) == [at for at in range(40) if drawn[at] == "A"]
    async with hosted(TrianglePanel, state, selection, (100, 48)) as (app, _):
        rows = app.rows()
        # Chunks of 16, 16 and 8 positions.
        assert [rows.index(row) for row in rows if row.startswith((" 0 ", "16 ", "32 "))] == [0, 16, 32]
        assert "computed 40 of 40 positions" in "\n".join(rows)
    async with hosted(TokenRow, state, selection, (100, 30)) as (app, _):
        assert (
            f"A · {40 + len(driver.sampled('real') or state.requests['real'].samples[0].tokens)} tokens"
            in app.borders()
        )
    async with hosted(CandidatesPanel, state, selection, (100, 20)) as (app, _):
        newest = state.requests["real"].samples[0].latest
        assert newest is not None
        drawn_rows = [row for row in app.rows() if row.startswith("▸")]
        assert len(drawn_rows) == 1
        assert f"draw {newest.draw:.3f}" in "\n".join(app.rows())
