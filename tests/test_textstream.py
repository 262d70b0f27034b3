"""From ids to shown text: characters, stop strings and reasoning together."""

from __future__ import annotations

import pytest
from cutaway.engine.textstream import TextStream
from cutaway.engine.tokenizer import Tokenizer, load_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

from . import tiny_tokenizers as tiny

TEMPLATE = tiny.CHATML + "{{ '' if true else '</think>' }}"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Tokenizer:
    backend = tiny.add(tiny.byte_level(), "<think>", "</think>", special=True)
    folder = tmp_path_factory.mktemp("stream")
    return load_tokenizer(tiny.save(folder, backend, template=TEMPLATE, eos_token="<|im_end|>"))


def _ids(tokenizer: Tokenizer, *pieces: str) -> list[int]:
    """Ids of each piece; the think tags as their tokens."""
    tags = {tag: tokenizer.backend.token_to_id(tag) for tag in ("<think>", "</think>")}
    return [n for piece in pieces for n in ([tags[piece]] if piece in tags else tokenizer.encode(piece))]


def _stream(stream: TextStream, ids: list[int]) -> tuple[str, str, str | None]:
    shown = {"reasoning": "", "answer": ""}
    for number in ids:
        pieces, matched = stream.push(number)
        for channel, text in pieces:
            shown[channel] += text
        if matched is not None:
            return shown["reasoning"], shown["answer"], matched
    for channel, text in stream.finish():
        shown[channel] += text
    return shown["reasoning"], shown["answer"], None


def test_ct_08_think_tags_that_are_control_tokens_still_split_the_reply(tokenizer):
    reply = _ids(tokenizer, "r1", "</think>", "\n\nanswer")
    assert _stream(TextStream(tokenizer, opens_reasoning=True), reply) == ("r1", "answer", None)
    assert _stream(TextStream(tokenizer), [*_ids(tokenizer, "<think>"), *reply]) == ("r1", "answer", None)


def test_control_tokens_inside_longer_tags_reach_the_splitter_too(tmp_path):
    backend = tiny.add(tiny.byte_level(), "<|channel>", "<channel|>", special=True)
    folder = tiny.save(tmp_path, backend, template="{{ '<channel|>' }}", eos_token="<|im_end|>")
    gemma = load_tokenizer(folder)
    opening, closing = map(backend.token_to_id, ("<|channel>", "<channel|>"))
    ids = [opening, *gemma.encode("thought\nr1"), closing, *gemma.encode("answer")]
    assert _stream(TextStream(gemma), ids) == ("r1", "answer", None)


def test_st_02_a_stop_string_ends_the_reply_and_is_not_shown(tokenizer):
    ids = _ids(tokenizer, "ABC", "DE", "FG", "H")
    assert _stream(TextStream(tokenizer, ("DEFG",)), ids) == ("", "ABC", "DEFG")
    assert _stream(TextStream(tokenizer, ("DEFX",)), ids) == ("", "ABCDEFGH", None)


def test_st_05_a_reply_ends_before_an_invented_user_turn(tokenizer):
    ids = _ids(tokenizer, "Fine.", "\nUser", ": and?")
    assert _stream(TextStream(tokenizer, ("\nUser:",)), ids) == ("", "Fine.", "\nUser:")


def test_text_before_a_match_that_could_have_been_a_tag_is_shown(tokenizer):
    assert _stream(TextStream(tokenizer, ("STOP",)), _ids(tokenizer, "<thiSTOP")) == ("", "<thi", "STOP")


def test_a_stop_string_within_the_minimum_does_not_end_the_reply(tokenizer):
    ids = _ids(tokenizer, "a", "b", "c", "a", "b", "c")
    assert _stream(TextStream(tokenizer, ("ab",), min_tokens=2), ids) == ("", "abc", "ab")
    assert _stream(TextStream(tokenizer, ("ab",), min_tokens=6), ids) == ("", "abcabc", None)


def test_tk_02_half_a_character_at_the_end_is_marked(tokenizer):
    ids = tokenizer.encode("🫠")[:-1]
    assert _stream(TextStream(tokenizer), ids) == ("", "\ufffd", None)


def test_a_completion_keeps_its_first_space_and_its_tags(tokenizer):
    ids = _ids(tokenizer, " and", "<think>", "x")
    assert _stream(TextStream(tokenizer, midway=True), ids) == ("", " and<think>x", None)


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=40), stop=st.text("ab ", min_size=1, max_size=3))
def test_a_reply_without_tags_is_its_text_up_to_the_stop_string(tokenizer, text, stop):
    reasoning, answer, matched = _stream(TextStream(tokenizer, (stop,)), tokenizer.encode(text))
    expected, _, _ = text.partition(stop)
    assert (reasoning, answer, matched) == ("", expected, stop if stop in text else None)
