"""Whatever text holds, what reaches the terminal can neither steer it nor hide."""

from __future__ import annotations

import unicodedata

import pytest
from cutaway.tui.printable import encodable, printable, printable_ascii
from hypothesis import given
from hypothesis import strategies as st

ANYTHING = st.text(alphabet=st.characters(exclude_categories=()), max_size=60)
STEERING = st.sampled_from(["\x1b", "\x9b", "\x07", "\r", "\x7f", "\u202e", "\u200b", "\ud800", "\n", "\t", "a", "é"])


@given(st.one_of(ANYTHING, st.lists(STEERING).map("".join)))
def test_no_control_direction_or_surrogate_is_left_whatever_the_text(text):
    shown = printable(text)
    for char in shown:
        assert char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs", "Zl", "Zp"), ascii(char)
    assert not set(shown) & set("\u061c\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")
    shown.encode("utf-8")


@given(ANYTHING, st.integers(0, 60))
def test_cutting_a_text_anywhere_lets_nothing_through(text, cut):
    for piece in (printable(text[:cut]), printable(text[cut:])):
        assert "\x1b" not in piece
        assert not any("\x80" <= char <= "\x9f" for char in piece)


@given(ANYTHING)
def test_printing_twice_is_printing_once(text):
    assert printable(printable(text)) == printable(text)


@given(ANYTHING, st.sampled_from(["ascii", "latin-1", "cp1252", "koi8-r", "utf-8"]))
def test_every_output_encoding_can_show_every_text(text, encoding):
    shown = encodable(text, encoding)
    shown.encode(encoding)
    assert "\x1b" not in shown


def test_re_06_escape_sequences_become_pictures_of_themselves():
    hostile = "A\x1b]52;c;SEk=\x07B\x1b[2JC\x9b31mD\x1bcE"
    assert printable(hostile) == "A␛]52;c;SEk=␇B␛[2JC⟨U+009B⟩31mD␛cE"
    assert "".join(printable(char) for char in hostile) == printable(hostile)


def test_newlines_and_tabs_stay_and_a_carriage_return_is_shown():
    assert printable("a\tb\r\nc") == "a\tb␍\nc"


def test_directions_and_blanks_are_spelled_out():
    assert printable("user\u202etxt.exe\u200b") == "user⟨U+202E⟩txt.exe⟨U+200B⟩"


@pytest.mark.parametrize("text", ["می‌خواهم", "👨‍👩‍👧", "क्‍ष", "مرحبا gpt-5 123", "naïve — “x” ✓", "❤️"])
def test_ordinary_writing_of_any_script_is_left_alone(text):
    assert printable(text) == text


def test_a_joiner_hidden_in_plain_text_is_spelled_out():
    assert printable("pass\u200dword\u200c") == "pass⟨U+200D⟩word⟨U+200C⟩"


def test_ascii_outputs_get_plain_signs_for_what_they_lack():
    assert printable_ascii("✓ → “é” ½ 水\x1b[2J") == 'v -> "e" <U+00BD> <U+6C34>^[[2J'


def test_an_unknown_encoding_gets_ascii():
    assert encodable("é", "no-such-encoding") == "e"
