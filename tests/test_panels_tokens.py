"""The token row: pieces, marks, ids, wrapping, and the cursor."""

from __future__ import annotations

from cutaway.engine.protocol import PromptToken, Sampled
from cutaway.tui.panels import TokenRow
from cutaway.tui.panels.token_layout import TokenLayout
from cutaway.tui.panels.token_text import token_text
from cutaway.tui.state import Selection
from hypothesis import given
from hypothesis import strategies as st

from .hand_events import Story, conversation, prompt_tokens
from .panel_host import hosted, told


def first() -> Selection:
    selection = Selection()
    selection.select_request("r1")
    return selection


async def test_every_token_stands_in_the_row_with_its_marks_below():
    async with hosted(TokenRow, told(conversation().events), first(), (100, 12)) as (app, _):
        pieces, marks = app.rows()[:2]
    assert pieces == "<|im_start|>│user│⏎ │Why│·is│·the│·sky│·blue│? │<|im_end|>│·The│·sky│·is│"
    # The first four are spared by the cache; three were drawn, at −ln p of less than 1.
    assert marks == "◆≡≡≡≡≡≡≡≡≡≡≡ U≡≡≡ U≡ U≡≡ U   U    U    U     U  ◆          ▁▁▁▁ ▁▁▁▁ ▁▁▁"


async def test_surprise_is_a_ramp_and_forced_and_end_tokens_are_marked():
    story = Story().begin().ask("r", ("a",))
    values = (0.0, -1.0, -4.0, -9.0)
    story.step([], [story.token("r", "wwww", logprob=value) for value in values])
    story.step([], [story.token("r", "ffff", forced=True), story.token("r", "eeee", end=True, logprob=None)])
    async with hosted(TokenRow, told(story.events)) as (app, _):
        assert app.rows()[1].split() == ["U", "▁▁▁▁", "▁▁▁▁", "▄▄▄▄", "████", "!▁▁▁", "■"]


async def test_bytes_of_an_unfinished_character_are_shown_as_bytes():
    story = Story().begin().ask("r", ("a",))
    story.step([], [story.token("r", "\ufffd", raw=b"\xe2\x96"), story.token("r", "\ufffd")])
    async with hosted(TokenRow, told(story.events)) as (app, _):
        assert app.rows()[0] == "a │‹e2 96›│\ufffd │"


async def test_ids_are_shown_on_demand():
    async with hosted(TokenRow, told(conversation().events), first(), (100, 12)) as (app, pilot):
        await pilot.press("i")
        await pilot.pause()
        assert app.rows()[2].split()[:3] == ["10", "11", "12"]
        await pilot.press("i")
        await pilot.pause()
        assert app.rows()[2] == ""


async def test_the_cursor_moves_in_all_directions_and_end_is_live_again():
    state, selection = told(conversation().events), first()
    async with hosted(TokenRow, state, selection, (46, 12)) as (app, pilot):
        for key, position in (("home", 0), ("right", 1), ("down", 9), ("left", 8), ("up", 0), ("left", 0)):
            await pilot.press(key)
            assert (key, selection.position) == (key, position)
        await pilot.press("end")
        assert selection.follow_live
        assert app.panel.resolved().position == 12
        assert app.posted


async def test_clicking_a_token_selects_it_and_tells_all_about_it():
    state, selection = told(conversation().events), first()
    async with hosted(TokenRow, state, selection, (160, 12)) as (app, pilot):
        await pilot.click(TokenRow, offset=(1 + 14, 1))
        assert selection.position == 1
        await pilot.click(TokenRow, offset=(1 + 62, 2))
        assert selection.position == 10
        await pilot.pause()
        text = "\n".join(app.rows())
        assert '#10 "·The" · id 0 · assistant' in text
        assert "page 5 slot 22" in text
        assert "step 1 lane 0" in text


async def test_a_long_prompt_is_laid_out_in_slices_and_shows_its_end():
    story = Story().begin().ask("r", ["word"] * 10_000)
    state = told(story.events)
    async with hosted(TokenRow, state) as (app, pilot):
        now = app.panel._drawn_ns
        polls = 0
        while len(app.panel._layout) < 10_000:
            polls += 1
            now += 10**8
            assert app.panel.refresh_if_changed(now)
        assert polls <= 3
        await pilot.pause()
        await pilot.pause()
        assert app.panel.is_vertical_scroll_end
        assert "#9999" in "\n".join(app.rows())


async def test_a_reader_who_scrolled_away_is_left_in_peace_while_the_reply_grows():
    story = Story().begin().ask("r", ["word"] * 600)
    state = told(story.events)
    async with hosted(TokenRow, state) as (app, pilot):
        await pilot.pause()
        assert app.panel.is_vertical_scroll_end
        app.panel.scroll_to(y=0, animate=False)
        await pilot.pause()
        for _ in range(3):
            story.step([], [story.token("r", "x")])
            state.apply(story.events[-2])
            app.panel.repaint()
            await pilot.pause()
        assert app.panel.scroll_offset.y == 0
        app.panel.scroll_end(animate=False)
        await pilot.pause()
        story.step([], [story.token("r", "long " * 30) for _ in range(9)])
        state.apply(story.events[-10])
        app.panel.repaint()
        await pilot.pause()
        await pilot.pause()
        assert app.panel.is_vertical_scroll_end


@given(st.lists(st.text(max_size=6), max_size=40), st.integers(1, 60), st.booleans())
def test_wrapped_rows_fit_and_hold_every_token_once(pieces, width, ids):
    tokens = prompt_tokens(pieces)
    layout = TokenLayout(width, ids)
    while not layout.extend(lambda at: tokens[at], len(tokens), 7):
        pass
    assert [position for row in range(layout.rows) for position in layout.tokens_of(row)] == list(range(len(tokens)))
    for row in range(layout.rows):
        span = layout.tokens_of(row)
        cells = sum(layout.widths[at] for at in span) + len(span) - 1
        assert cells <= width
        for at in span:
            assert layout.row_of(at) == row
            assert layout.at(row, layout.column(at)) == at


@given(st.text(max_size=8))
def test_token_text_has_no_blank_and_no_control(piece):
    shown = token_text(piece, piece.encode("utf-8", "surrogatepass"))
    assert shown
    assert not set(shown) & set("\n\t\x1b")
    assert " " not in shown or shown.startswith("‹")


def test_token_text_of_an_empty_piece_and_of_a_combining_mark():
    assert token_text("", b"") == "∅"
    assert token_text("\u0301x", b"") == "◌\u0301x"
    assert isinstance(Sampled("r", 0, 0, 0, 1, "x", b"x", 1), Sampled)
    assert isinstance(prompt_tokens(["x"])[0], PromptToken)
