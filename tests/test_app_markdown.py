"""Markdown to lines: nothing lost, nothing obeyed, nothing wider than its place, and streaming costs what it says."""

from __future__ import annotations

import unicodedata

import pytest
from cutaway.tui.chat.document import Document, OpenFence
from cutaway.tui.chat.markdown import parse
from cutaway.tui.chat.styled import Styled, breaks
from cutaway.tui.chat.tables import table_lines
from cutaway.tui.printable import printable
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from .counting import calls

WIDTHS = (1, 2, 6, 10, 20, 40, 80)


def drawn(text: str, width: int = 80) -> list[str]:
    return [line.text for part in Document(text).parts for line in part.lines(width)]


def letters(text: str) -> str:
    return "".join(character for character in text if character.isalnum())


def assert_safe(lines: list[str]) -> None:
    for line in lines:
        assert not [c for c in line if unicodedata.category(c) in ("Cc", "Cs")], repr(line)


# ---------------------------------------------------------------------------------------------- the cases


@pytest.mark.parametrize("text", ["[/INST] hi", "[b]x[/b] [@click=app.quit]y[/] [@click=]z[/]", "[/]", "[[[ [x"])
def test_re_01_markup_in_a_reply_is_text_in_every_piece_of_the_stream(text: str) -> None:
    document = Document()
    for end in range(1, len(text) + 1):
        document.grow(text[:end])
        assert "".join(line.text for part in document.parts for line in part.lines(80)) == text[:end].rstrip(" ")


def test_re_03_a_bracketed_path_in_a_fence_is_code() -> None:
    assert drawn("```\n# [/mnt/x] \n```") == ["│ # [/mnt/x] "]


@pytest.mark.parametrize("cut", range(1, 22))
def test_re_06_no_control_byte_of_a_reply_is_drawn_wherever_the_pieces_are_cut(cut: int) -> None:
    text = "A\x1b]52;c;SEk=\x07B\x1b[2JC\x9b31mD\x1bcE"
    document = Document()
    document.grow(text[:cut])
    assert_safe([line.text for part in document.parts for line in part.lines(30)])
    document.grow(text)
    lines = [line.text for part in document.parts for line in part.lines(30)]
    assert_safe(lines)
    assert "␛]52;c;SEk=␇B␛[2JC" in "".join(lines)
    assert document.text == text


def test_re_08_code_stays_after_its_fence_closes_and_the_width_changes() -> None:
    document = Document()
    text = ""
    for piece in ("Ex:\n\n```py\n", "x=1\n", "```\n"):
        text += piece
        document.grow(text)
        for part in document.parts:
            part.lines(80)
    document.finish()
    for width in (80, 20, 80):
        assert "│ x=1" in [line.text for part in document.parts for line in part.lines(width)]
    assert [part.code() for part in document.parts] == [None, "x=1"]


def test_re_09_an_open_fence_costs_the_same_however_long_it_is() -> None:
    document = Document()
    text = "```python\n"
    cost: list[int] = []

    def draw() -> None:
        document.grow(text)
        assert sum(len(part.lines(80)) for part in document.parts) > 0

    for index in range(2000):
        text += f"value_{index} = {index}\n" if index % 5 == 4 else f"a{index} "
        cost.append(calls(draw))
    assert isinstance(document.parts[0], OpenFence)
    assert max(cost[1900:]) <= 1.2 * max(cost[100:200]), cost


def test_re_09_the_next_message_is_not_swallowed_by_an_open_fence() -> None:
    assert drawn("```python\nx = 1") == ["┌ python", "│ x = 1"]
    assert drawn("after") == ["after"]


@pytest.mark.parametrize("width", range(6, 21))
def test_re_10_tabs_stop_every_eight_columns_and_are_copied_as_tabs(width: int) -> None:
    text = "```\n\tHello\na\tb\tc\n```"
    (part,) = Document(text).parts
    lines = part.lines(width)
    assert letters("".join(line.text for line in lines)) == "Helloabc"
    assert all(cell_len(line.text) <= width for line in lines)
    places = {origin for line in lines for origin in line.origins if origin >= 0}
    assert "\t" in {text[place] for place in places}
    whole = Styled()
    whole.foreign("a\tb\tc", "", list(range(5)))
    assert whole.text == "a       b       c"


URL = "https://example.org/" + "x" * 60
TABLE = f"| one | two | three |\n|---|:-:|--:|\n| {'a' * 60} | {'b' * 60} | {URL} |\n| k | l | m |\n"


@pytest.mark.parametrize("width", [80, 40, 20, 10, 3, 1])
def test_re_12_every_character_of_a_wide_table_can_be_read_and_its_borders_line_up(width: int) -> None:
    lines = drawn(TABLE, width)
    told = letters("".join(lines))
    assert all(cell_len(line.rstrip()) <= width for line in lines)
    assert told.count("a") >= 60
    assert told.count("b") >= 60
    assert told.count("x") >= 60
    bars = {tuple(i for i, c in enumerate(line) if c in "│┼") for line in lines if "│" in line or "┼" in line}
    assert len(bars) <= 1


def test_re_13_right_to_left_text_is_kept_in_logical_order() -> None:
    text = "مرحبا gpt-5 123"
    document = Document()
    for end in range(1, len(text) + 1):
        document.grow(text[:end])
    (line,) = document.parts[0].lines(40)
    assert line.text == text
    assert line.origins == tuple(range(len(text)))


# ------------------------------------------------------------------------------------------- properties

FOREIGN = st.text(
    st.one_of(
        st.characters(codec="utf-8", exclude_categories=["Cs"]),
        st.sampled_from("\x1b\x9b\x07\x00\r\n\t`*_#>-|[](){}<>!~ \u202e\u200b\u2028"),
    ),
    max_size=200,
)


@given(FOREIGN, st.sampled_from(WIDTHS))
def test_any_text_is_drawn_safely_at_any_width(text: str, width: int) -> None:
    for part in Document(text).parts:
        for line in part.lines(width):
            assert printable(line.text) == line.text
            assert "\n" not in line.text
            assert len(line.text) == len(line.origins)
            assert all(-1 <= origin < len(text) for origin in line.origins)


@given(st.lists(st.text("ab*_`#\n -1.|", max_size=12), max_size=12))
def test_a_streamed_text_ends_up_as_a_whole_one_looks(pieces: list[str]) -> None:
    document = Document()
    text = ""
    for piece in pieces:
        text += piece
        document.grow(text)
        for part in document.parts:
            part.lines(30)
    document.finish()
    assert [line for part in document.parts for line in part.lines(30)] == [
        line for part in Document(text).parts for line in part.lines(30)
    ]


@given(FOREIGN, st.sampled_from(WIDTHS))
def test_plain_text_loses_nothing_and_knows_where_it_came_from(text: str, width: int) -> None:
    origins = [
        origin for part in Document(text, plain=True).parts for line in part.lines(width) for origin in line.origins
    ]
    assert sorted(set(origins)) == [index for index, character in enumerate(text) if character != "\n"]


@given(st.text(max_size=100), st.integers(1, 30))
def test_breaks_cover_the_text_in_order_within_the_width(text: str, width: int) -> None:
    spans = breaks(text, width)
    assert "".join(text[start:end] for start, end in spans) == text
    for start, end in spans:
        piece = text[start:end].rstrip(" ")
        assert cell_len(piece) <= width or len(piece) <= 3


@given(
    st.lists(st.lists(st.text("ab 漢", max_size=20), min_size=1, max_size=4), min_size=1, max_size=4),
    st.integers(1, 60),
)
def test_a_table_of_any_shape_keeps_every_letter(rows: list[list[str]], width: int) -> None:
    columns = len(rows[0])
    cells = [[Styled(text) for text in row[:columns]] for row in rows]
    told = letters("".join(line.text for line in table_lines(cells, width)))
    body = cells[1:] or cells
    for letter in "ab漢":
        assert told.count(letter) >= sum(cell.text.count(letter) for row in body for cell in row)


@given(st.text("ab *_`\n#[]()", max_size=120))
def test_blocks_name_the_source_they_were_made_from(text: str) -> None:
    end = 0
    for block in parse(text):
        assert end <= block.start <= block.end <= len(text)
        end = block.end
        for line in block.lines(40):
            for character, origin in zip(line.text, line.origins, strict=True):
                if origin >= 0 and character != " ":
                    assert text[origin] == character


def test_selecting_formatted_text_finds_its_source() -> None:
    text = "a **bold** and `code` [link](http://x.y) end"
    (line,) = parse(text)[0].lines(80)
    start = line.text.index("bold")
    assert text[line.origins[start] : line.origins[start + 3] + 1] == "bold"
    assert text[line.origins[line.text.index("end")] :] == "end"


def test_links_show_where_they_lead_and_html_is_text() -> None:
    assert drawn("[here](http://evil.example) <b>x</b>") == ["here (http://evil.example) <b>x</b>"]


def test_lists_and_quotes_nest_at_any_depth_and_width() -> None:
    text = "".join("> " * depth + "- item\n" for depth in range(1, 30))
    for width in WIDTHS:
        assert "item" in "".join(drawn(text, width)).replace(" ", "").replace("▌", "").replace("•", "") or width < 6
    assert drawn("1. one\n2. two\n   - deep\n\n   more") == ["1. one", "2. two", "   ◦ deep", "   ", "   more"]
