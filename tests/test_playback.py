"""A recording on the screen: what was asked finds its chat again, and nothing new can be asked of it."""

from __future__ import annotations

import gzip
from pathlib import Path

from cutaway.engine.protocol import Configure, Fork, Message, SamplingSettings, Submit
from cutaway.tui.playback import Playback

from .cli_run import cutaway
from .scenes import SMALL, TRACES, Scene
from .screen_run import Running, shown


def recorded(*commands: Submit | Fork | Configure) -> Playback:
    """A playback that has been told of these commands."""
    session = Playback(TRACES / "streamed.trace")
    for command in commands:
        session._sent(command)
    return session


def ask(request: str, *turns: str, system: str = "", **more: object) -> Submit:
    head = (Message("system", system),) if system else ()
    said = tuple(Message("assistant" if i % 2 else "user", text) for i, text in enumerate(turns))
    return Submit(request, messages=head + said, **more)  # pyright: ignore[reportArgumentType]


def answered(session: Playback, request: str, text: str) -> None:
    node = session.exchange.node(request)
    assert node is not None
    node.text = text


def test_a_question_after_an_answer_goes_on_in_its_chat_and_another_beginning_is_another_chat() -> None:
    session = recorded(ask("a", "one", system="S"))
    answered(session, "a", "1")
    session._sent(ask("b", "one", "1", "two", system="S"))
    session._sent(ask("c", "one", system="other"))
    assert session.exchange.home("a") is session.exchange.home("b")
    home = session.exchange.home("c")
    assert home is not session.exchange.home("a")
    assert home is session.conversation, "the newest is shown"
    assert [chat.system for chat in session.store.all()] == ["S", "other"]
    assert [node.text for node in session.store.all()[0].path()] == ["one", "1", "two", ""]


def test_the_same_question_again_is_another_branch_and_an_unfinished_reply_is_gone_on_with() -> None:
    session = recorded(ask("a", "one"))
    answered(session, "a", "un")
    session._sent(ask("b", "one", "un", continue_last=True))
    session._sent(ask("c", "one"))
    nodes = [session.exchange.node(name) for name in "abc"]
    assert nodes[0] is nodes[1], "the same message, longer"
    assert nodes[2] is not None
    assert nodes[2].place == (2, 2)
    assert len(session.store.all()) == 1


def test_an_edited_question_is_a_branch_of_its_own_beginning() -> None:
    session = recorded(ask("a", "one"))
    answered(session, "a", "1")
    session._sent(ask("b", "one", "1", "two"))
    answered(session, "b", "2")
    session._sent(ask("c", "one", "1", "two, please"))
    assert session.exchange.home("c") is session.exchange.home("a")
    assert [node.text for node in session.conversation.path()] == ["one", "1", "two, please", ""]


def test_background_traffic_has_no_chat_and_settings_are_those_of_what_is_shown() -> None:
    cold = SamplingSettings(temperature=0.1)
    session = recorded(ask("a", "one", settings=cold), ask("t", "noise", label="short"))
    assert session.traffic == {"t"}
    assert session.exchange.node("t") is None
    assert session.exchange.settings == cold
    session._sent(Configure(request="a", settings=SamplingSettings(temperature=0.9)))
    assert session.exchange.settings.temperature == 0.9
    session._sent(Fork("f", "a", 0))
    assert session.exchange.node("f") is not None
    session._sent(Fork("g", "t", 0))
    assert session.exchange.node("g") is None, "traffic is in no chat, nor is what leaves it"


async def test_nothing_can_be_asked_of_a_recording() -> None:
    scene = Scene("streamed", SMALL)
    async with shown(Running, scene.app(), SMALL) as run:
        await scene.play(run.pilot)
        run.main.composer.focus()
        run.main.composer.put("And at night?")
        await run.pilot.press("enter")
        leaf = run.session.conversation.leaf
        await run.until(lambda: leaf.reply is not None and not leaf.running, "the refusal")
        assert leaf.reply is not None
        assert leaf.reply.status == "failed"
        assert "recording" in leaf.reply.detail
        await run.shows("✗ failed: ")
        assert "tries again" not in run.text()


def test_a_recording_is_shown_on_a_terminal_only_and_what_is_none_is_told(tmp_path: Path) -> None:
    done = cutaway("replay", "--screen", str(TRACES / "streamed.trace"))
    assert done.returncode == 2
    assert b"needs a terminal" in done.stderr
    other = tmp_path / "other.trace"
    other.write_bytes(gzip.compress(b"hello\n"))
    done = cutaway("replay", "--screen", str(other))
    assert done.returncode == 1
    assert b"is not a trace" in done.stderr
