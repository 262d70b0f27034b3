"""What the screen has shown, saved as a trace from the screen, is shown again without a model: panels and all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from cutaway.engine import places, session_trace, trace
from cutaway.engine.errors import TraceError
from cutaway.engine.protocol import Configure, Load, Submit, TextDelta, Welcome
from cutaway.engine.session_trace import Remembering, SessionTrace
from cutaway.engine.trace_lines import Timed, as_lines
from cutaway.tui.app import CutawayApp
from cutaway.tui.panels import Panel
from cutaway.tui.playback import Playback
from cutaway.tui.session import Session
from cutaway.tui.state import EngineState
from cutaway.tui.state.choice import Choice
from hypothesis import given
from hypothesis import strategies as st

from .screen_engine import InProcessEngine
from .screen_run import Running, loaded, shown

SIZE = (160, 48)
TIMED = ("timeline", "lifecycle")  # show when things were received and painted, to the tenth of a millisecond


def told(state: EngineState) -> dict[str, object]:
    """All that events said: what the panels are drawn from, without the moments at which they came in."""
    requests = {
        name: (
            request.prompt, request.settings, request.letter, request.source,
            {
                n: (sample.tokens, sample.chunks, sample.block_table, sample.cached, sample.finished)
                for n, sample in request.samples.items()
            },
        )
        for name, request in state.requests.items()
    }  # fmt: skip
    lanes, pool = state.lanes, state.pool
    return {
        "card": state.card, "switches": state.switches, "requests": requests, "pages": dict(pool.pages),
        "lanes": list(lanes.records), "finishes": list(lanes.finishes), "waits": lanes.waits, "totals": pool.totals,
    }  # fmt: skip


def drawn(run: Running) -> dict[str, list[str]]:
    """The text of every panel that does not tell times of arrival."""
    return {
        panel.id or "": ["".join(text for text, _ in line.parts) for line in panel.draw(70, 20)]
        for panel in run.main.query(Panel)
        if panel.id not in (*TIMED, "top", "controls")
    }


async def test_a_trace_saved_from_the_screen_replays_to_the_same_panels_and_the_same_chats() -> None:
    session = Session(InProcessEngine(), Load(model="scripted", pages=64), remember=True)
    async with loaded(CutawayApp(session), SIZE) as run:
        await run.ask("count 5")
        await run.ask("why is the sky blue?")
        session.send(Configure(policy="static"))
        await run.main.run_action("traffic")
        await run.until(lambda: not session.traffic)
        await run.main.run_action("new_chat")
        await run.ask("recall")
        await run.main.run_action("regenerate")
        await run.until(lambda: not session.generating)
        run.main.use_choice(Choice("", "org/other"))
        await run.until(lambda: session.state.card is not None and session.state.card.name == "org/other")
        await run.ask("count 2")
        await run.settle()
        await run.main.run_action("save_trace")
        await run.until(lambda: "replay" in run.text())  # a long path breaks the sentence anywhere
        (file,) = (places.state() / "traces").iterdir()
        state, panels = told(session.state), drawn(run)
        chats = [[node.text for node in chat.path()] for chat in session.store.all()]
    replayed = Playback(file, speed=None)
    async with shown(Running, CutawayApp(replayed), SIZE) as run:
        await run.until(lambda: replayed.over)
        await run.settle()
        assert told(replayed.state) == state
        assert [[node.text for node in chat.path()] for chat in replayed.store.all()] == chats
        assert drawn(run) == panels


async def test_a_recording_is_not_saved_again_and_a_full_disk_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(InProcessEngine(), Load(model="scripted"), remember=True)
    async with loaded(CutawayApp(session), (100, 34)) as run:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("CUTAWAY_STATE_DIR", str(tmp_path / "file"))
        await run.main.run_action("save_trace")
        await run.shows("Not saved:")
        session.trace = None
        await run.main.run_action("save_trace")
        await run.shows("is not being remembered")


@given(st.lists(st.text(max_size=20), max_size=30), st.integers(0, 5))
def test_what_is_written_is_read_back_in_order_however_often_it_is_saved(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], saves: int
) -> None:
    file = tmp_path_factory.getbasetemp() / "session.trace"
    kept = SessionTrace()
    kept.write(Welcome(1, "0", 7, 123))
    for text in texts:
        kept.write(TextDelta("a", 0, text, 1, 5))
        if saves:
            kept.save(file)
    kept.write(Submit("b", text="x"))
    kept.save(file)
    entries = list(trace.read(file))
    assert [e.message.text for e in entries if isinstance(e.message, TextDelta)] == texts
    assert entries[-1].sent
    assert [e.t for e in entries] == sorted(e.t for e in entries)


async def test_half_a_character_in_a_message_keeps_it_from_neither_the_engine_nor_the_traces(tmp_path: Path) -> None:
    engine = InProcessEngine()
    remembering = Remembering(engine)
    recording = trace.Recording(remembering, tmp_path / "recorded.trace")
    await recording.start()
    await recording.send(Submit("a", text="half \ud83d", token_ids=None))
    await recording.close()
    remembering.trace.save(tmp_path / "kept.trace")
    assert isinstance(engine.last(Submit), Submit)
    for name in ("recorded", "kept"):
        sent = [entry.message for entry in trace.read(tmp_path / f"{name}.trace") if entry.sent]
        assert sent == [Submit("a", text="half \ufffd")]


def test_a_session_too_long_keeps_its_beginning_and_tells_how_far_it_goes(tmp_path: Path) -> None:
    kept = SessionTrace(limit=1000)
    for n in range(20_000):
        kept.write(TextDelta("a", 0, f"{n * 7919 % 10_007}", n, n))
    assert kept.full_ns
    kept.save(tmp_path / "x.trace")
    assert 0 < len(list(trace.read(tmp_path / "x.trace"))) == kept.messages < 20_000


def test_a_folder_that_can_not_be_written_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TraceError, match="CUTAWAY_STATE_DIR"):
        SessionTrace().save(tmp_path / "file" / "x.trace")


def test_messages_of_a_reply_without_end_are_spelled_before_too_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[int] = []

    def spelled(messages: Sequence[Timed]) -> bytes:
        waiting.append(len(messages))
        return as_lines(messages)

    monkeypatch.setattr(session_trace, "as_lines", spelled)
    kept = SessionTrace()
    for n in range(2 * session_trace.UNSPELLED):
        kept.write(TextDelta("a", 0, "x", n, n))
    assert sum(waiting) == 2 * session_trace.UNSPELLED
