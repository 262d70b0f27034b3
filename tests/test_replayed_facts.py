"""What the screen shows of a recording against the events in it, worked out here once more and by other means."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cutaway.engine import trace
from cutaway.engine.protocol import (
    AnyEvent,
    Candidate,
    Finished,
    Lane,
    PromptRendered,
    Ready,
    Sampled,
    Step,
    Submit,
    TextDelta,
)
from cutaway.tui.app import CutawayApp
from cutaway.tui.panels.token_text import token_text
from cutaway.tui.playback import FRAME_NS, Playback

from .record_traces import LIMIT, SCENES
from .scenes import LARGE, TRACES, Scene, maximised, token

NAMES = sorted(SCENES)


def heard(name: str, upto: int | None = None) -> list[AnyEvent]:
    """The events of a trace, up to before the step after `upto`."""
    events: list[AnyEvent] = []
    steps = 0
    for _, event in trace.read_events(TRACES / f"{name}.trace"):
        if isinstance(event, Step):
            if steps == upto:
                break
            steps += 1
        events.append(event)
    return events


def steps_of(events: list[AnyEvent]) -> list[Step]:
    return [event for event in events if isinstance(event, Step)]


def sampled_of(events: list[AnyEvent]) -> Iterator[Sampled]:
    return (drawn for step in steps_of(events) for drawn in step.sampled)


@asynccontextmanager
async def shown(scene: Scene) -> AsyncIterator[CutawayApp]:
    app = scene.app()
    async with app.run_test(size=scene.size) as pilot:
        await scene.play(pilot)
        yield app
        await app.end_engine()


def rows(app: CutawayApp, panel: str) -> list[str]:
    """The content of a panel as it stands on the screen."""
    assert app.main is not None
    region = app.main.panel(panel).content_region
    strips = app.screen._compositor.render_strips()[region.y : region.bottom]
    return [strip.text[region.x : region.right] for strip in strips]


async def played(name: str, speed: float | None = None) -> Playback:
    """A recording played to its end without a screen."""
    session = Playback(TRACES / f"{name}.trace", speed=speed)
    task = asyncio.create_task(session.link.run())
    async with asyncio.timeout(60):
        while not session.over:
            await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return session


# ------------------------------------------------------------------------------------------------------ the traces


def test_every_scene_is_recorded_small_and_without_a_path_of_the_machine() -> None:
    files = {file.stem: file for file in TRACES.glob("*.trace")}
    assert sorted(files) == NAMES
    assert sum(file.stat().st_size for file in files.values()) <= LIMIT
    for name in NAMES:
        (card,) = [event.card for event in heard(name) if isinstance(event, Ready)]
        assert card.source.startswith("PyPI ")
        assert str(Path.home()) not in "".join(map(str, heard(name)))


# ------------------------------------------------------------------------------------------------------------ chat


@pytest.mark.parametrize("name", NAMES)
async def test_every_reply_of_a_recording_stands_in_a_chat_below_its_question(name: str) -> None:
    session = await played(name)
    said: dict[str, str] = {}
    for event in heard(name):
        if isinstance(event, TextDelta):
            said[event.request] = said.get(event.request, "") + event.text
    asked = [
        entry.message
        for entry in trace.read(TRACES / f"{name}.trace")
        if isinstance(entry.message, Submit) and not entry.message.label
    ]
    ends = {event.request: event for event in heard(name) if isinstance(event, Finished)}
    for command in asked:
        node, home = session.exchange.node(command.request), session.exchange.home(command.request)
        assert node is not None
        assert home is not None
        assert home.messages(node.parent) == command.messages
    for request, text in said.items():
        node = session.exchange.node(request)
        if node is None:
            assert session.state.requests[request].label != request, "background traffic alone has no chat"
            continue
        assert node.text == text
        assert node.reply is not None
        assert node.reply.status == ends[request].reason
        assert node.reply.tokens == ends[request].generated_tokens
    assert not session.traffic


async def test_a_forks_branch_stands_beside_its_source_and_its_kept_text_is_as_old_as_the_fork() -> None:
    session = await played("fork")
    fork, source = session.exchange.node("chat-2"), session.exchange.node("chat-1")
    assert fork is not None
    assert source is not None
    assert fork.siblings == [source, fork]
    (rendered,) = [e for e in heard("fork") if isinstance(e, PromptRendered) and e.request == "chat-2"]
    kept = "".join(drawn.piece for drawn in rendered.kept[:-1])
    assert fork.text.startswith(kept)
    assert source.text.startswith(kept)
    assert fork.text[len(kept) :] != source.text[len(kept) :]
    deltas = [e for e in heard("fork") if isinstance(e, TextDelta) and e.request == "chat-2"]
    assert all(delta.time_ns >= rendered.submitted_ns for delta in deltas)


# ---------------------------------------------------------------------------------------------------------- KV pages


def tables(events: list[AnyEvent]) -> dict[tuple[str, int], tuple[Lane, tuple[int, ...]]]:
    """The newest lane and block table of every sequence that ran in the last step and has not ended."""
    known: dict[tuple[str, int], tuple[int, ...]] = {}
    ran: dict[tuple[str, int], Lane] = {}
    for event in events:
        if isinstance(event, Step):
            ran = {(lane.request, lane.sample): lane for lane in event.lanes}
            known |= {key: lane.block_table for key, lane in ran.items() if lane.block_table}
        elif isinstance(event, Finished):
            ran.pop((event.request, event.sample), None)
    return {key: (lane, known[key]) for key, lane in ran.items()}


@pytest.mark.parametrize(("name", "upto"), [("policies", 40), ("prefix", 30), ("fork", 46), ("preemption", 90)])
async def test_the_page_grid_is_what_the_block_tables_say(name: str, upto: int) -> None:
    async with shown(Scene(name, LARGE, upto=upto, keys=maximised("pages"))) as app:
        state = app.session.state
        grid = "".join(row for row in rows(app, "pages"))[: state.pool.size]
        flashing = set(state.pool.flashes)
        size = state.pool.page_size
    running = tables(heard(name, upto))
    assert len(running) > 1
    owners: dict[int, list[str]] = {}
    fill: dict[int, int] = {}
    for (request, _), (lane, table) in running.items():
        written = lane.start + lane.count
        assert len(table) == -(-written // size)
        for index, page in enumerate(table):
            owners.setdefault(page, []).append(state.requests[request].letter)
            fill[page] = min(size, written - index * size)
    for page, cell in enumerate(grid):
        if page in flashing:
            assert cell in "✗»"
        elif page not in owners:
            assert cell in "·░", (page, cell)
        elif len(owners[page]) > 1:
            assert cell == "⁰¹²³⁴⁵"[len(owners[page])]
        elif fill[page] == size:
            assert cell == owners[page][0]
        else:
            assert cell in "▁▂▃▄▅▆▇"
    assert state.pool.totals.used == len(owners)
    assert state.pool.totals.shared == sum(len(names) > 1 for names in owners.values())


# ---------------------------------------------------------------------------------------------------------- the lanes


@pytest.mark.parametrize("upto", [40, 290])
async def test_the_lanes_are_what_each_iteration_did(upto: int) -> None:
    async with shown(Scene("policies", LARGE, upto=upto, keys=maximised("lanes"))) as app:
        drawn = [row[2:].rstrip()[: upto - 1] for row in rows(app, "lanes")[:4]]
        letters = {name: request.letter for name, request in app.session.state.requests.items()}
    steps = steps_of(heard("policies", upto))
    columns = min(len(steps), LARGE[0] - 2 - 2 - 21)
    marks = {"decode": "▪", "padding": "×"}
    for number, row in enumerate(drawn):
        for step, cell in zip(steps[-columns:], row, strict=False):
            lane = next((lane for lane in step.lanes if lane.lane == number), None)
            if lane is None:
                assert cell == "·"
            elif lane.admitted:
                assert cell == letters[lane.request]
            elif lane.phase == "prefill":
                assert cell in "░▒▓█"
            else:
                assert cell == marks[lane.phase]


async def test_both_policies_finish_times_are_those_of_the_engines_own_timelines() -> None:
    session = await played("policies")
    ends = {event.request: event for event in heard("policies") if isinstance(event, Finished)}
    compared = [(a, b) for _, a, b in session.state.lanes.compare() if a and b]
    assert len(compared) == 8
    for pair in compared:
        for record in pair:
            line = ends[record.request].timeline
            assert record.total_ns == line.finished_ns - line.submitted_ns
    assert sum(step.padding for step in steps_of(heard("policies"))) > 0


# -------------------------------------------------------------------------------------------------- prefill triangle


@pytest.mark.parametrize("upto", [1, 2, 3, 4])
async def test_the_triangle_is_filled_by_the_chunks(upto: int) -> None:
    lanes = [lane for step in steps_of(heard("stepped", upto)) for lane in step.lanes]
    assert [lane.phase for lane in lanes] == ["prefill"] * upto
    done = lanes[-1].start + lanes[-1].count
    async with shown(Scene("stepped", LARGE, upto=upto, keys=maximised("triangle"))) as app:
        drawn = rows(app, "triangle")
    length = lanes[0].prompt
    assert f"computed {sum(lane.count for lane in lanes)} of {length} positions" in "\n".join(drawn)
    for row, text in enumerate(drawn):
        last = (row + 1) * length // len(drawn) - 1
        first_cell = text[4]
        assert (first_cell in "█▓▀▄") == (row * length // len(drawn) < done)
        if last >= done and row * length // len(drawn) >= done:
            assert first_cell == "·"


# ------------------------------------------------------------------------------------------------------- next token


def everything(name: str) -> list[tuple[Sampled, tuple[Candidate, ...]]]:
    return [(drawn, drawn.candidates) for drawn in sampled_of(heard(name)) if drawn.candidates]


@pytest.mark.parametrize("name", ["streamed", "temperatures"])
def test_candidates_are_a_softmax_of_their_logits(name: str) -> None:
    """The reported few can't give the sum over the vocabulary, but their differences are those of the logits."""
    settings = {e.request: e.settings for e in heard(name) if isinstance(e, PromptRendered)}
    for drawn, candidates in everything(name):
        temperature = settings[drawn.request].temperature
        top = candidates[0]
        assert top.logprob is not None
        kept = [c for c in candidates if not c.cut]
        for c in candidates:
            assert c.logprob is not None
            assert math.isclose(c.logprob - top.logprob, c.logit - top.logit, abs_tol=2e-3)
            ratio = math.exp((c.logit - top.logit) / temperature)
            assert math.isclose(c.tempered, top.tempered * ratio, rel_tol=5e-3, abs_tol=1e-6)
            assert (c.prob > 0) == (not c.cut)
        for c in kept:
            assert math.isclose(c.prob / kept[0].prob, c.tempered / kept[0].tempered, rel_tol=1e-3)
        total = sum(c.prob for c in kept)
        assert total <= 1 + 1e-4
        if any(c.cut == "top_p" for c in candidates) and drawn.id in {c.id for c in candidates}:
            # Candidates come likeliest first: where one is cut, all that is left was reported.
            leading = [c for c in candidates if c.logit >= min(k.logit for k in kept)]
            if len(leading) == len(kept) < len(candidates):
                assert math.isclose(total, 1, abs_tol=1e-3)


@pytest.mark.parametrize("index", [0, 5, 20])
async def test_the_panel_shows_the_candidates_of_the_selected_token(index: int) -> None:
    events = heard("temperatures")
    drawn = next(d for d in sampled_of(events) if d.request == "chat-2" and d.index == index)
    scene = Scene("temperatures", LARGE, keys=maximised("candidates"), choose=token("chat-2", drawn.position))
    async with shown(scene) as app:
        lines = [row for row in rows(app, "candidates") if row[2:3] in ('"', "‹")]
    assert len(lines) == len(drawn.candidates)
    for line, candidate in zip(lines, drawn.candidates, strict=True):
        assert line.startswith({True: "▸", False: "✂" if candidate.cut else " "}[candidate.id == drawn.id])
        share = f"{candidate.prob:.1%}" if candidate.prob >= 0.001 or not candidate.prob else "<0.1%"
        plain = f"{math.exp(candidate.logprob or 0):.1%}" if (candidate.logprob or 0) > math.log(0.001) else "<0.1%"
        figures = [share, plain, f"{candidate.logit:.2f}"]
        assert [word for word in line.split() if word in figures][-3:] == figures


# ------------------------------------------------------------------------------------------------------- token row


@pytest.mark.parametrize("name", ["prefix", "streamed"])
async def test_the_token_row_is_the_prompt_and_what_was_drawn(name: str) -> None:
    events = heard(name)
    prompt = [event for event in events if isinstance(event, PromptRendered)][-1]
    pieces = [token_text(t.piece, t.bytes) for t in prompt.tokens]
    pieces += [token_text(d.piece, d.bytes) for d in sampled_of(events) if d.request == prompt.request]
    assert "".join(t.piece for t in prompt.tokens) == prompt.text
    async with shown(Scene(name, LARGE, keys=maximised("tokens"))) as app:
        drawn = rows(app, "tokens")
    parts = [part.strip() for row in drawn[: len(drawn) - 2 : 2] for part in row.rstrip().removesuffix("│").split("│")]
    assert "".join(parts) == "".join(pieces)


# --------------------------------------------------------------------------------------------------------- the time


async def test_times_come_from_the_recording_and_not_from_the_playback() -> None:
    session = await played("buffered")
    ends = {event.request: event for event in heard("buffered") if isinstance(event, Finished)}
    for request, end in ends.items():
        line, sample = end.timeline, session.state.requests[request].samples[0]
        assert sample.first_token_ns == line.first_token_ns
        assert sample.finished_ns == line.finished_ns
        assert 0 <= sample.transport_ns < 1_000_000_000
    session.painted(ends)
    assert not session.state.clock.derived
    streamed, buffered = (session.state.timeline.shown[name] for name in ("streamed", "buffered"))
    assert streamed.first_paint_ns < streamed.completion_ns / 2
    assert buffered.first_paint_ns >= buffered.completion_ns - FRAME_NS


async def test_the_same_recording_shows_the_same_at_any_pace() -> None:
    at_once, fast = await played("streamed"), await played("streamed", speed=50.0)
    for session in (at_once, fast):
        session.painted(["chat-1"])
    one, other = (session.state.requests["chat-1"].samples[0] for session in (at_once, fast))
    assert one == other
    assert at_once.state.timeline.shown == fast.state.timeline.shown
