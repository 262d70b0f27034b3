"""Stop strings, against a search of the whole text."""

from __future__ import annotations

import pytest
from cutaway.engine.stops import StopChecker
from hypothesis import given, settings
from hypothesis import strategies as st

STOPS = st.lists(st.text("ab\n", min_size=1, max_size=5), max_size=4).map(tuple)
PIECES = st.lists(st.text("ab\n", max_size=6), max_size=12)


def _run(stop: tuple[str, ...], pieces: list[str]) -> tuple[list[str], str | None]:
    """The text shown after each piece, then after the end; and the stop string."""
    checker = StopChecker(stop)
    frames, shown = [], ""
    for piece in pieces:
        emitted, matched = checker.push(piece)
        shown += emitted
        frames.append(shown)
        if matched is not None:
            return frames, matched
    return [*frames, shown + checker.flush()], None


def _naive(stop: tuple[str, ...], text: str) -> tuple[str, str | None]:
    """The first stop string to be complete in the whole text, the longest of those that end together."""
    found = [(text.find(s) + len(s), -len(s), s) for s in stop if s in text]
    if not found:
        return text, None
    end, _, matched = min(found)
    return text[: end - len(matched)], matched


@pytest.mark.parametrize(
    ("pieces", "frames", "matched"),
    [
        (["ABC", "DE", "FG"], ["ABC", "ABC", "ABC"], "DEFG"),
        (["ABC", "DE", "X"], ["ABC", "ABC", "ABCDEX", "ABCDEX"], None),
        (["ABCDEFGH"], ["ABC"], "DEFG"),
        (["DEDEFG"], ["DE"], "DEFG"),
        (["DE"], ["", "DE"], None),
    ],
)
def test_st_02_the_beginning_of_a_stop_string_is_never_shown(pieces, frames, matched):
    assert _run(("DEFG",), pieces) == (frames, matched)


@settings(max_examples=500, deadline=None)
@given(stop=STOPS, pieces=PIECES)
def test_st_02_whatever_the_pieces_the_result_is_that_of_the_whole_text(stop, pieces):
    frames, matched = _run(stop, pieces)
    expected, expected_match = _naive(stop, "".join(pieces))
    assert ((frames or [""])[-1], matched) == (expected, expected_match)


@settings(max_examples=300, deadline=None)
@given(stop=STOPS, pieces=PIECES)
def test_st_02_exactly_the_longest_beginning_of_a_stop_string_is_held_back(stop, pieces):
    frames, matched = _run(stop, pieces)
    text = ""
    for piece, shown in zip(pieces, frames, strict=False):
        text += piece
        if matched is not None and shown == frames[-1]:
            break
        held = max((size for s in stop for size in range(len(s)) if text.endswith(s[:size])), default=0)
        assert shown == text[: len(text) - held]


def test_text_that_is_not_searched_takes_no_part_in_a_match():
    checker = StopChecker(("ab",))
    assert checker.push("a") == ("", None)
    assert checker.skip("b") == "ab"
    assert checker.push("b") == ("b", None)
    assert checker.push("ab!") == ("", "ab")
    assert checker.push("more") == ("", "ab")


def test_st_05_the_next_user_turn_is_cut_off():
    assert _run(("\nUser:",), ["Fine.", "\nUser", ": and?", " x"]) == (["Fine.", "Fine.", "Fine."], "\nUser:")
