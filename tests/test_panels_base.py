"""What all panels share: any size, no data, missing capabilities, repainting, and foreign text."""

from __future__ import annotations

import re

import msgspec
import pytest
from cutaway.engine.protocol import Lane, PageDetail, Ready, Sampled, Step, Wait
from cutaway.tui.panels import (
    CandidatesPanel,
    LanesPanel,
    LifecycleStrip,
    PagesPanel,
    Panel,
    TimelinePanel,
    TokenRow,
    TrianglePanel,
)
from cutaway.tui.panels.line import Line, joined, wrap
from cutaway.tui.panels.panel import MIN_INTERVAL_NS
from cutaway.tui.state import EngineState, Selection
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style

from .hand_events import WORDS, Story, candidates_of, card, conversation, used
from .panel_host import hosted, told

EVERY = (LifecycleStrip, TokenRow, LanesPanel, TrianglePanel, PagesPanel, CandidatesPanel, TimelinePanel)
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
NASTY = "A\x1b]52;c;SEk=\x07B\x1b[2JC\x9b31mD\x1bcE\u202e[/INST] [@click=app.quit]x[/]\t\r\n"


@pytest.mark.parametrize("kind", EVERY)
async def test_any_size_from_one_cell_up_is_drawn_without_an_error(kind: type[Panel]):
    state, selection = told(conversation().events), Selection()
    selection.select_token("r1", 0, 10)
    async with hosted(kind, state, selection, (80, 24)) as (app, pilot):
        for size in ((1, 1), (2, 2), (3, 3), (5, 1), (1, 9), (10, 4), (20, 5), (46, 9), (160, 48), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            app.panel.repaint()
            assert all(strip.cell_length == size[0] for strip in app.strips())
        assert any(app.rows())


@pytest.mark.parametrize("kind", EVERY)
async def test_without_data_a_panel_says_so(kind: type[Panel]):
    async with hosted(kind, EngineState()) as (app, _):
        assert re.match("no (request|iteration|page pool) yet", app.rows()[0])


@pytest.mark.parametrize("kind", [kind for kind in EVERY if kind.CAPABILITY])
async def test_a_missing_capability_shows_the_cards_sentence(kind: type[Panel]):
    state = told(conversation().events)
    reason = "This model is not served from pages: its layers keep a state of their own."
    state.apply(Ready(card(capabilities=(), missing={kind.CAPABILITY: reason})))
    async with hosted(kind, state, size=(30, 12)) as (app, pilot):
        assert " ".join(app.rows()).split() == reason.split()
        await pilot.press("up", "down", "left", "right", "home", "end", "enter")
        assert app.posted == []


@pytest.mark.parametrize("kind", EVERY)
async def test_it_repaints_only_if_something_it_shows_has_changed_and_at_most_15_times_a_second(kind: type[Panel]):
    story = conversation()
    state = told(story.events[:-4])
    async with hosted(kind, state) as (app, _):
        later = app.panel._drawn_ns + 10 * MIN_INTERVAL_NS
        app.panel.refresh_if_changed(later)
        assert not app.panel.refresh_if_changed(2 * later)
        for event in story.events[-4:]:
            state.apply(event)
        if kind is not TrianglePanel:  # its chunks are done: decoding changes nothing there
            assert app.panel.refresh_if_changed(3 * later)
        story.ask("r9", ("new",))
        state.apply(story.events[-1])
        assert not app.panel.refresh_if_changed(3 * later + MIN_INTERVAL_NS - 1) or kind is TrianglePanel


@pytest.mark.parametrize("kind", EVERY)
async def test_a_hidden_panel_is_not_repainted(kind: type[Panel]):
    state = told(conversation().events)
    async with hosted(kind, state) as (app, pilot):
        app.panel.display = False
        await pilot.pause()
        state.apply(Step(99, 99, lanes=(Lane(0, "r1", 0, "decode", 12, 1, 13, 10),)))
        assert not app.panel.refresh_if_changed(app.panel._drawn_ns + 10**12)


class Framed(Panel):
    """Draws rows of which the last column matters."""

    many = 3

    def depends_on(self) -> int:
        return self.many

    def waiting(self) -> str:
        return ""

    def draw(self, width: int, height: int) -> list[Line]:
        return [Line("<" + "·" * (width - 2) + ">") for _ in range(self.many)]


async def test_a_scroll_bar_that_comes_or_goes_covers_nothing_of_a_row():
    async with hosted(Framed, EngineState(), size=(30, 10)) as (app, pilot):
        for many, width in ((3, 28), (30, 27), (31, 27), (2, 28)):
            app.panel.many = many
            app.panel.repaint()
            await pilot.pause()
            rows = [row for row in app.rows() if row]
            assert len(rows) == min(many, 8)
            assert all(row[:width] == "<" + "·" * (width - 2) + ">" for row in rows)


class Shrinking(Framed):
    """Has a row too many until its bar has come."""

    def measure(self, width: int, height: int) -> int:
        if width < 28:
            self.many = 8
        return super().measure(width, height)


async def test_a_scroll_bar_goes_again_where_rows_fit_as_soon_as_it_has_come():
    async with hosted(Shrinking, EngineState(), size=(30, 10)) as (app, pilot):
        app.panel.many = 9
        app.panel.repaint()
        for _ in range(3):
            await pilot.pause()
            app.panel.repaint()
        await pilot.pause()
        assert app.panel.many == 8
        assert app.panel.area.width == 28
        assert all(row == "<" + "·" * 26 + ">" for row in app.rows())


def nasty_state(text: str) -> EngineState:
    """A state in which every string that comes from outside is `text`."""
    story = Story().begin().ask(text, (text, "ok", text), label=text)
    candidates = tuple(
        msgspec.structs.replace(candidate, piece=text, bytes=b"") for candidate in candidates_of((2.0, 1.0, 0.0))
    )
    story.step(
        [story.lane(0, text, "prefill", 0, 3, (1,), admitted=True)],
        [story.token(text, text, candidates), Sampled(text, 1, 0, 3, 7, text, b"", 5)],
        pages=[used(1, (f"{text}/0", text), 3, hash=text)],
        waits=[Wait("w" + text, 0, text)],
    )
    story.finish(text, submitted=1)
    state = told(story.events)
    state.apply(PageDetail(1, "used", (1,), (text,), (text,), hash=text))
    return state


@pytest.mark.parametrize("kind", EVERY)
async def test_re_06_no_frame_holds_a_control_character_from_content(kind: type[Panel]):
    state, selection = nasty_state(NASTY), Selection()
    selection.select_token(NASTY, 0, 3)
    selection.select_page(1)
    async with hosted(kind, state, selection) as (app, pilot):
        for keys in ((), ("i",), ("down",), ("right_square_bracket",)):
            await pilot.press(*keys)
            await pilot.pause()
            for strip in app.strips():
                assert not CONTROL.search(strip.text)
                assert not any(segment.style and segment.style.meta.get("@click") for segment in strip)
        assert app.is_running


@settings(max_examples=12, deadline=None)
@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=12))
async def test_any_text_is_drawn_without_an_error_and_without_controls(text: str):
    state = nasty_state(text)
    selection = Selection()
    selection.select_page(1)
    for kind in (TokenRow, LanesPanel, PagesPanel, CandidatesPanel):
        async with hosted(kind, state, selection, (50, 14)) as (app, _):
            assert all(strip.cell_length == 50 and not CONTROL.search(strip.text) for strip in app.strips())


@given(st.lists(st.text(max_size=8), max_size=5), st.integers(1, 30))
def test_a_row_is_exactly_as_wide_as_asked_and_free_of_controls(parts: list[str], width: int):
    line = Line()
    for part in parts:
        line.add(part)
    strip = line.strip(width, lambda _: Style())
    assert strip.cell_length == cell_len(strip.text) == width
    assert not CONTROL.search(strip.text)


@given(st.text(max_size=12), st.integers(1, 12))
def test_fitted_text_fills_its_cells(text: str, width: int):
    assert Line().fit(text, width).width == width


def test_parts_that_do_not_fit_are_left_out_whole():
    assert joined(("one", "two", "three"), 20).text == "one · two · three"
    assert joined(("one", "two", "three"), 12).text == "one · two …"
    assert joined(("one", "two"), 3).text == "one"


def test_wrapping_loses_no_word():
    assert wrap("one two three", 7) == ["one two", "three"]
    assert wrap("abcdefgh", 3) == ["abc", "def", "gh"]
    assert wrap("x", 0) == []


async def test_colour_only_repeats_what_the_glyphs_say(monkeypatch: pytest.MonkeyPatch):
    """Without colour every row reads the same, and the cursor shows by reverse video."""
    state, selection = told(conversation().events), Selection()
    selection.select_token("r1", 0, 10)
    for kind in EVERY:
        async with hosted(kind, state, selection) as (app, _):
            coloured = app.rows()
        monkeypatch.setenv("NO_COLOR", "1")
        async with hosted(kind, state, selection) as (app, _):
            assert app.rows() == coloured
            if kind is TokenRow:
                reversed_text = [s.text for strip in app.strips() for s in strip if s.style and s.style.reverse]
                assert "·The" in "".join(reversed_text)
        monkeypatch.delenv("NO_COLOR")


def test_the_words_of_the_story_are_distinct():
    assert len(set(WORDS)) == 5
