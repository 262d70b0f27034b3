"""No frame ever holds what a terminal would obey, wherever foreign text comes in; and long chats stay cheap."""

from __future__ import annotations

import asyncio
import time
import unicodedata

from cutaway.engine.protocol import (
    Candidate,
    Configured,
    Failed,
    Finished,
    Lane,
    LoadProgress,
    Message,
    PageChange,
    PoolTotals,
    PromptRendered,
    PromptToken,
    Rejected,
    Sampled,
    Step,
    Switches,
    TextDelta,
    Wait,
)
from cutaway.tui.printable import printable
from cutaway.tui.state.conversation import Reply
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from textual import events

from .counting import calls
from .screen_run import Running, running

PIECES = st.one_of(
    st.sampled_from("\x1b\x9b\x9d\x90\x07\x08\x0b\x0c\r\n\t\x00\x7f\x85\u202e\u2066\u200b\u2028[]{}/@=`*#|>-"),
    st.sampled_from(["\x1b[2J", "\x1b]52;c;SEk=\x07", "[@click=app.quit]", "[/]", "\ud800", "漢", "é"]),
    st.characters(),
)
NASTY = st.lists(PIECES, min_size=1, max_size=16).map("".join)


def assert_nothing_obeyed(run: Running) -> None:
    for strip in run.app.screen._compositor.render_strips():
        for segment in strip:
            assert segment.control is None
            bad = [c for c in segment.text if unicodedata.category(c) in ("Cc", "Cs", "Cf") and printable(c) != c]
            assert not bad, (segment.text, bad)
            assert "\n" not in segment.text


async def poison(run: Running, texts: list[str]) -> None:
    """Bring foreign text in wherever an engine, a user or a file can."""
    a, b, c, d = texts
    engine, session = run.engine, run.session
    now = time.monotonic_ns()
    raw = [text.encode("utf-8", "surrogatepass") for text in texts]
    request = session.exchange.name()
    node = session.conversation.add("user", a)
    reply = session.conversation.add("assistant", "", node, Reply(request))
    session.exchange._take(request, reply, session.conversation)
    session.selection.select_request(request)
    session.conversation.named = d
    run.main.path_changed()
    tokens = tuple(PromptToken(i, t, "user", bytes=r) for i, (t, r) in enumerate(zip(texts, raw, strict=True)))
    engine.push(PromptRendered(request, a, tokens, 1, 1, now, now, 4096, repairs=(b,), notes=(c,), label=d, stop=(a,)))
    candidates = tuple(Candidate(i, t, r, 1.0, -1.0, 0.5, 0.5) for i, (t, r) in enumerate(zip(texts, raw, strict=True)))
    engine.push(
        Step(
            1,
            now,
            lanes=(Lane(0, request, 0, "decode", 4, 1, 5, 4, block_table=(0,)),),
            waits=(Wait(b, 0, c),),
            pages=(PageChange(0, "used", (f"{request}/0", a), 5, 1, hash=b),),
            sampled=(Sampled(request, 0, 0, 4, 1, b, raw[1], now, -0.5, candidates=candidates),),
            pool=PoolTotals(2048, 1, 0, 0, 2047),
        )
    )
    for character in b + "\n\n```" + c + "\n" + d:
        engine.push(TextDelta(request, 0, character, 1, now))
    await run.settle()
    assert_nothing_obeyed(run)
    engine.push(TextDelta(request, 0, a, 2, now, channel="reasoning"))
    engine.push(Finished(request, 0, "stop", detail=c, prompt_tokens=4, generated_tokens=1))
    engine.push(Rejected(b, message=a, action=c))
    engine.push(Failed(a, b, request=request))
    engine.push(LoadProgress("weights", 1, 2, "bytes", d))
    engine.push(Configured(Switches()))
    run.main.say(c)
    run.main.composer.put(d)
    await run.until(lambda: not session.generating)
    await run.settle()
    assert_nothing_obeyed(run)


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.lists(NASTY, min_size=4, max_size=4), min_size=1, max_size=3), st.sampled_from([(80, 24), (160, 48)])
)
def test_re_06_no_frame_holds_an_escape_sequence_that_came_from_content(
    rounds: list[list[str]], size: tuple[int, int]
) -> None:
    async def play() -> None:
        async with running(size=size) as run:
            for texts in rounds:
                await poison(run, texts)
            for key in ("f1", "ctrl+l", "ctrl+p", "f2", "f5", "f6"):
                await run.pilot.press(key)
                await run.pilot.pause()
                if key == "ctrl+p":
                    run.app.post_message(events.Paste(rounds[0][1]))
                    await run.pilot.pause()
                assert_nothing_obeyed(run)
                while run.app.screen is not run.main:
                    await run.pilot.press("escape")
            run.main.view.focus()
            await run.pilot.press("o", "e")
            await run.pilot.pause()
            assert_nothing_obeyed(run)
            await run.pilot.press("escape")
            await run.main.run_action("traffic_file")
            await run.pilot.pause()
            run.app.post_message(events.Paste(rounds[0][0]))
            await run.pilot.press("enter")
            await run.pilot.pause()
            assert_nothing_obeyed(run)

    asyncio.run(play())


LINE = "The quick brown fox jumps over the lazy dog, again and again, until the end. "


async def fill(run: Running, messages: int, words: int) -> None:
    conversation = run.session.conversation
    for index in range(messages):
        text = f"**{index}** " + LINE * (words // 14)
        conversation.add("user" if index % 2 == 0 else "assistant", text + "\n\n- one\n- two\n")
    run.main.view.show(conversation)
    await run.settle()


def scroll_up(run: Running, lines: int) -> None:
    """Line by line, every one painted."""
    view = run.main.view
    for _ in range(lines):
        view.scroll_to(y=view.scroll_offset.y - 1, animate=False)
        for y in range(view.size.height):
            view.render_line(y)


def scrolled(run: Running, lines: int) -> int:
    """The function calls that scrolling up takes."""
    return calls(lambda: scroll_up(run, lines))


async def test_a_chat_of_100_000_tokens_draws_only_what_is_in_sight() -> None:
    async with running() as run:
        await fill(run, 400, 250)
        assert sum(len(node.text.split()) for node in run.session.conversation.path()) > 95_000
        view = run.main.view
        drawn = [section for section in view._column.sections if section.exact(view._column.width)]
        whole = [section for section in drawn if section.height(view._column.width) > 4]
        assert 0 < len(whole) < 20
        assert view.scroll_offset.y == view.max_scroll_y


async def test_a_chat_of_100_000_tokens_scrolls_like_a_short_one() -> None:
    async with running() as run:
        await fill(run, 4, 250)
        short = scrolled(run, 60)
    async with running() as run:
        await fill(run, 400, 250)
        long = scrolled(run, 60)
    print(short, long)
    assert long < 1.5 * short, (short, long)


async def test_scrolling_up_through_a_chat_shows_every_message_once_and_in_order() -> None:
    async with running() as run:
        await fill(run, 30, 60)
        view = run.main.view
        seen: list[str] = []
        while True:
            for line in reversed(run.frame()):
                word = line.removeprefix("│ ").split(" ")[0]
                if line.startswith("│ ") and word.isdecimal() and (not seen or int(word) < int(seen[-1])):
                    seen.append(word)
            if view.scroll_offset.y == 0:
                break
            view.scroll_to(y=view.scroll_offset.y - 3, animate=False)
            await run.pilot.pause()
        assert seen == [str(n) for n in range(29, -1, -1)]


async def test_a_resize_keeps_the_line_the_reader_looks_at() -> None:
    async with running() as run:
        await fill(run, 40, 60)
        view = run.main.view
        view.focus()
        view.scroll_to(y=100, animate=False)
        await run.settle()
        node = view._column.sections[view._anchor[0]].node
        for size in ((60, 24), (100, 30), (80, 24)):
            await run.pilot.resize_terminal(*size)
            await run.settle()
            assert view._column.sections[view._anchor[0]].node is node
            assert not view.following


async def test_the_messages_sent_are_the_path_shown() -> None:
    async with running() as run:
        await run.ask("count 2")
        await run.ask("recall")
        first = next(iter(run.session.state.requests.values()))
        drawn = [token.id for token in first.samples[0].tokens if token is not None]
        assert run.session.conversation.messages()[:3] == (
            Message("user", "count 2"),
            Message("assistant", "1 2 ", tuple(drawn)),
            Message("user", "recall"),
        )
