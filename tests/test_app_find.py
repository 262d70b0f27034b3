"""Finding words in the chat shown: where they are, how many, marked and scrolled to."""

from __future__ import annotations

from cutaway.tui.chat.finding import Finder, find
from cutaway.tui.state.conversation import Conversation, Node, Reply
from hypothesis import given
from hypothesis import strategies as st

from .screen_run import Running, running

texts = st.text(st.sampled_from("ab *_`\n\\É"), max_size=30)


def nodes(*said: str) -> list[Node]:
    return [Node("user", text) for text in said]


def found(words: str, *said: str) -> list[str]:
    return [match.node.text[match.start : match.end] for match in find(nodes(*said), words)]


def test_words_are_found_whatever_their_case_white_space_and_markup() -> None:
    assert found("blue sky", "The Blue\nsky", "a **blue** sky", "blue-sky") == ["Blue\nsky", "blue** sky"]
    assert found("a.b", "a.b axb") == ["a.b"]
    assert found("", "anything") == []
    assert found("  ", "any thing") == []
    assert found("É", "é É e") == ["é", "É"]


@given(st.lists(texts, max_size=4), texts)
def test_what_stands_in_a_message_is_found_there(said: list[str], words: str) -> None:
    matches = find(nodes(*said), words)
    places = [(said.index(m.node.text), m.start, m.end) for m in matches]
    assert all(start < end for _, start, end in places)
    assert [p[:2] for p in places] == sorted(p[:2] for p in places) or len(set(said)) < len(said)
    if words.strip() and words == words.strip():
        assert all(any(m.node.text == text for m in matches) for text in said if words in text)


def test_turning_goes_round_and_looking_again_keeps_the_place() -> None:
    finder, said = Finder(), nodes("x y x", "x")
    finder.look(said, "x")
    assert finder.told() == "3 of 3"
    finder.turn(1)
    assert finder.told() == "1 of 3"
    finder.turn(1)
    more = [*said, *nodes("x x")]
    finder.look(more, "x")
    assert finder.told() == "2 of 5"
    finder.look(more, "nowhere")
    assert finder.told() == "not found"
    finder.turn(1)
    assert finder.current is None


def long_chat(conversation: Conversation) -> None:
    for number in range(60):
        conversation.add("user", f"question {number}")
        text = f"Answer **{number}**\n\n" + "\n".join(f"line {number}.{n}" for n in range(6))
        conversation.add("assistant", text, reply=Reply("", status="end"))


async def opened(run: Running) -> None:
    long_chat(run.session.conversation)
    run.main.view.rebuild()
    await run.settle()


async def test_a_word_far_above_is_scrolled_to_marked_and_counted() -> None:
    async with running((80, 24)) as run:
        await opened(run)
        await run.pilot.press("ctrl+f", *"question 7")
        await run.shows("1 of 1")
        await run.shows("question 7")
        match = run.main.view.finder.current
        assert match is not None
        assert match.node.text == "question 7"
        assert not run.main.view.following
        await run.pilot.press("escape")
        await run.until(lambda: not run.main.find_bar.opened)
        assert run.main.view.finder.matches == []
        await run.shows("question 7")  # the reader stays where it was found


async def test_keys_go_from_match_to_match_and_round() -> None:
    async with running((80, 24)) as run:
        await opened(run)
        await run.outside("f")
        await run.pilot.press(*"answer 1")
        await run.shows(" of 11")
        seen = []
        for key in ("enter", "down", "ctrl+f", "up"):
            await run.pilot.press(key)
            await run.pilot.pause()
            seen.append(run.main.view.finder.at)
        assert seen == [0, 1, 2, 1]
        await run.pilot.press("backspace", *"x")
        await run.shows("not found")


async def test_a_match_is_lit_where_it_stands_and_only_there() -> None:
    async with running((80, 24)) as run:
        await run.ask("alpha beta alpha")
        await run.pilot.press("ctrl+f", *"beta")
        await run.shows("of 2")
        reverse = []
        for strip in run.app.screen._compositor.render_strips():
            reverse += [s.text for s in strip if s.style is not None and s.style.reverse and "beta" in s.text]
        assert reverse == ["beta"]


async def test_what_is_being_written_is_found_as_it_comes() -> None:
    async with running((80, 24)) as run:
        run.engine.hold = True
        await run.ask("count 30", wait=False)
        await run.pilot.press("ctrl+f", *"28 29")
        await run.shows("not found")
        run.engine.hold = False
        await run.shows("1 of 1")
