"""The Next token panel, against a softmax made straight from the definition."""

from __future__ import annotations

import re

import pytest
from cutaway.engine.protocol import PromptRendered, SamplingSettings
from cutaway.tui.panels import CandidatesPanel, ForkRequested
from cutaway.tui.panels.candidate_lines import cumulative_line, filter_line
from cutaway.tui.state import EngineState, Selection
from hypothesis import given
from hypothesis import strategies as st

from .hand_events import LOGITS, WORDS, Story, candidates_of, card, conversation, softmax
from .panel_host import hosted, told

logits = st.lists(st.floats(-20, 20), min_size=1, max_size=8)


def chosen(position: int = 10) -> tuple[EngineState, Selection]:
    selection = Selection()
    selection.select_token("r1", 0, position)
    return told(conversation().events), selection


def figures(row: str) -> list[float]:
    return [float(number) for number in re.findall(r"(-?\d+\.\d+)", row)]


async def test_every_candidate_shows_its_probability_now_and_at_one_and_its_logit():
    async with hosted(CandidatesPanel, *chosen(), (100, 20)) as (app, _):
        rows = app.rows()[2:7]
    tempered, plain = softmax(LOGITS, 0.7), softmax(LOGITS)
    kept = tempered[0] + tempered[1]  # top-p 0.9
    now = [tempered[0] / kept, tempered[1] / kept, 0, 0, 0]
    for at, row in enumerate(rows):
        assert WORDS[at].strip() in row
        assert figures(row) == pytest.approx([now[at] * 100, plain[at] * 100, LOGITS[at]], abs=0.051)


async def test_the_drawn_one_and_the_cut_ones_are_marked_by_glyphs():
    async with hosted(CandidatesPanel, *chosen(), (100, 20)) as (app, _):
        rows = app.rows()[2:7]
    assert [row[0] for row in rows] == ["▸", " ", "✂", "✂", "✂"]
    assert [row.endswith("cut by top-p") for row in rows] == [False, False, True, True, True]


async def test_a_longer_bar_means_a_larger_probability():
    async with hosted(CandidatesPanel, *chosen(), (100, 20)) as (app, _):
        bars = [row.count("█") for row in app.rows()[2:7]]
    assert bars == sorted(bars, reverse=True)
    assert bars[0] > bars[1]


async def test_entropy_rank_draw_and_filter_order_are_told():
    async with hosted(CandidatesPanel, *chosen(), (100, 20)) as (app, _):
        text = "\n".join(app.rows())
        assert "H 1.25 nats ▸ 0.75 drawn from · rank 1 · draw 0.250" in text
        assert "(bias) ▸ (penalties) ▸ T 0.70 ▸ (min-p) ▸ (top-k) ▸ top-p 0.9 ▸ draw" in text
        assert "T 0.70 · top-p 0.9 · past token" in app.borders()


async def test_the_live_step_follows_the_newest_token():
    state, selection = told(conversation().events), Selection()
    selection.select_request("r1")
    async with hosted(CandidatesPanel, state, selection, (100, 20)) as (app, _):
        assert '#12 "·is"' in app.rows()[0]
        assert "live" in app.borders()


async def test_with_the_focus_it_says_what_can_be_done():
    state, selection = told(conversation().events), Selection()
    async with hosted(CandidatesPanel, state, selection, (51, 16)) as (app, pilot):
        assert "next token · Enter forks · [ ] change T" in app.borders()
        app.set_focus(None)
        await pilot.pause()
        assert "change T" not in app.borders()


async def test_another_temperature_is_marked_as_derived_and_equals_a_softmax():
    async with hosted(CandidatesPanel, *chosen(), (100, 20)) as (app, pilot):
        await pilot.press("right_square_bracket", "right_square_bracket", "right_square_bracket")
        assert app.panel.what_if == 1.0
        assert "derived · ⌫ as drawn" in app.borders()
        for at, row in enumerate(app.rows()[2:7]):
            assert figures(row)[0] == pytest.approx(softmax(LOGITS)[at] * 100, abs=0.051)
        await pilot.press("backspace")
        assert "derived" not in app.borders()


async def test_enter_on_another_candidate_asks_for_a_fork_there_and_on_the_drawn_one_for_nothing():
    async with hosted(CandidatesPanel, *chosen(11), (100, 20)) as (app, pilot):
        await pilot.press("down", "down", "enter")
        (fork,) = [message for message in app.posted if isinstance(message, ForkRequested)]
        assert (fork.request, fork.sample, fork.index, fork.token_id) == ("r1", 0, 1, 2)
    async with hosted(CandidatesPanel, *chosen(10), (100, 20)) as (app, pilot):
        await pilot.press("enter")
        assert app.posted == []


async def test_moving_the_cursor_on_the_live_step_holds_that_token():
    state, selection = told(conversation().events), Selection()
    selection.select_request("r1")
    async with hosted(CandidatesPanel, state, selection, (100, 20)) as (app, pilot):
        await pilot.press("down")
        assert (selection.follow_live, selection.position) == (False, 12)
        assert app.panel.cursor == 1


async def test_clicking_a_candidate_chooses_it():
    async with hosted(CandidatesPanel, *chosen(), (100, 20)) as (app, pilot):
        await pilot.click(CandidatesPanel, offset=(5, 5))
        assert app.panel.cursor == 2


async def test_a_prompt_token_was_not_drawn():
    async with hosted(CandidatesPanel, *chosen(3)) as (app, pilot):
        assert app.rows()[0] == '"Why" is part of the prompt: given, not drawn'
        await pilot.press("enter", "down", "left", "right_square_bracket")
        assert not any(isinstance(message, ForkRequested) for message in app.posted)


async def test_a_forced_token_and_one_without_candidates_say_why():
    story = Story().begin().ask("r", ("a",), SamplingSettings(candidates=0))
    story.step([], [story.token("r", "x", forced=True), story.token("r", "y")])
    state, selection = told(story.events), Selection()
    selection.select_token("r", 0, 1)
    async with hosted(CandidatesPanel, state, selection) as (app, pilot):
        assert "forced by a fork, not drawn" in app.rows()
        await pilot.press("right")
        assert "this request reports no candidates (candidates is 0)" in app.rows()


async def test_forking_says_why_it_is_missing():
    state, selection = chosen(11)
    assert state.card is not None
    state.card = card(capabilities=("candidates", "tokens"), missing={"fork": "Not served from pages."})
    async with hosted(CandidatesPanel, state, selection, (100, 20)) as (app, pilot):
        await pilot.press("down", "down", "enter")
        assert not any(isinstance(message, ForkRequested) for message in app.posted)


async def test_where_unseen_tokens_could_change_it_the_derived_probability_is_shown_as_bounds():
    everything = candidates_of([2.0, 1.5] + [0.0] * 98)
    story = Story().begin().ask("r", ("a",), SamplingSettings(candidates=2))
    story.step([], [story.token("r", " w0", everything[:2])])
    state, selection = told(story.events), Selection()
    selection.select_token("r", 0, 1)
    async with hosted(CandidatesPanel, state, selection, (100, 20)) as (app, pilot):
        await pilot.press(*["right_square_bracket"] * 13)
        assert app.panel.what_if == 2.0
        (low, high), *_ = [map(int, found) for found in re.findall(r"(\d+)–(\d+)%", "\n".join(app.rows()))]
    assert low < softmax([2.0, 1.5] + [0.0] * 98, 2.0)[0] * 100 < high


@given(logits, st.floats(0, 1, exclude_max=True), st.integers(12, 120))
def test_the_draw_points_into_the_stacked_probabilities(values, draw, width):
    line = cumulative_line(candidates_of(values), draw, width)
    assert line.width == width
    cells = line.text.removeprefix("draw ")
    assert cells.index("▼") == int(draw * len(cells))


def test_filters_that_are_off_are_in_brackets():
    line = filter_line(SamplingSettings(temperature=0, top_k=5, seed=3), None).text
    assert "greedy" in line
    assert "(top-k 5)" in line
    assert "(draw, seed 3)" in line


def test_a_prompt_alone_has_no_token_yet():
    assert isinstance(conversation().events[3], PromptRendered)
