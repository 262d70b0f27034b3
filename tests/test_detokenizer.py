"""Streaming text: deltas that never shrink, repeat or show half a character, and together are the whole decode."""

from __future__ import annotations

import pytest
import tokenizers
from cutaway.engine.detokenizer import Detokenizer
from cutaway.engine.tokenizer import Tokenizer, load_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers

from . import tiny_tokenizers as tiny

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory) -> Tokenizer:
    return load_tokenizer(tiny.save(tmp_path_factory.mktemp("bytes"), tiny.byte_level(), eos_token="<|im_end|>"))


@pytest.fixture(scope="module")
def sentencepiece(tmp_path_factory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("sentencepiece")
    return load_tokenizer(tiny.save(folder, tiny.byte_fallback(), bos_token="<s>", eos_token="</s>"))


@pytest.fixture(scope="module", params=["byte_level", "sentencepiece"])
def tokenizer(request) -> Tokenizer:
    return request.getfixturevalue(request.param)


def _deltas(tokenizer: Tokenizer, ids, **options) -> list[str]:
    detokenizer = Detokenizer(tokenizer, **options)
    return [*map(detokenizer.push, ids), detokenizer.flush()]


def _byte_ids(tokenizer: Tokenizer, data: bytes) -> list[int]:
    """One token a byte."""
    single = {tokenizer.token_bytes(number): number for number in reversed(range(tokenizer.vocabulary))}
    return [single[bytes([byte])] for byte in data]


def test_tk_01_no_space_vanishes_between_pieces(sentencepiece):
    ids = sentencepiece.encode("LLMs. It")
    assert "".join(_deltas(sentencepiece, ids)) == "LLMs. It"
    assert sentencepiece.piece(ids[0]).startswith(" ")


@settings(max_examples=300, deadline=None)
@given(text=TEXT)
def test_tk_01_streamed_text_is_the_text(tokenizer, text):
    assert "".join(_deltas(tokenizer, tokenizer.encode(text))) == text


@settings(max_examples=300, deadline=None)
@given(numbers=st.lists(st.integers(0, 10**6), max_size=30), midway=st.booleans())
def test_tk_01_streamed_text_is_the_whole_decode_of_any_ids(tokenizer, numbers, midway):
    ids = [number % (tokenizer.vocabulary + 2) for number in numbers]
    assert "".join(_deltas(tokenizer, ids, midway=midway)) == tokenizer.decode(ids, midway=midway)


@settings(max_examples=300, deadline=None)
@given(numbers=st.lists(st.integers(0, 10**6), max_size=30))
def test_the_whole_decode_of_any_byte_level_ids_is_that_of_the_library(byte_level, numbers):
    ids = [number % byte_level.vocabulary for number in numbers]
    assert byte_level.decode(ids) == byte_level.backend.decode(ids)


@pytest.mark.parametrize("tail", ["!", "", " ok"])
def test_tk_02_an_emoji_appears_whole_and_text_before_it_at_once(tokenizer, tail):
    deltas = _deltas(tokenizer, _byte_ids(tokenizer, f"hi 😀{tail}".encode()), midway=True)
    assert deltas[:8] == ["h", "i", " ", "", "", "", "😀", tail[:1]]
    assert "".join(deltas) == f"hi 😀{tail}"
    assert [tokenizer.token_bytes(number) for number in _byte_ids(tokenizer, "😀".encode())] == [
        b"\xf0",
        b"\x9f",
        b"\x98",
        b"\x80",
    ]


def test_tk_04_shown_text_never_shrinks_or_repeats(tokenizer):
    detokenizer = Detokenizer(tokenizer, midway=True)
    frames = [""]
    for number in _byte_ids(tokenizer, "A 世".encode() + b"\xe4a\xe4\xb8b"):
        frames.append(frames[-1] + detokenizer.push(number))
    whole = ["A 世", "A 世", "A 世\ufffda", "A 世\ufffda", "A 世\ufffda", "A 世\ufffda\ufffdb"]
    assert frames == ["", "A", "A ", "A ", "A ", *whole]


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"\xf0\x9fab", "\ufffdab"), (b"\xa9\xa9\xa9ok", "\ufffd\ufffd\ufffdok"), (b"\xe4\xb8\x96\xff", "世\ufffd")],
)
def test_tk_06_invalid_bytes_are_marked_and_what_follows_appears(tokenizer, data, expected):
    ids = _byte_ids(tokenizer, data)
    deltas = _deltas(tokenizer, ids, midway=True)
    assert "".join(deltas) == expected == tokenizer.decode(ids, midway=True)
    assert deltas[-1] == ""


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=20))
def test_tk_06_no_more_than_three_bytes_are_ever_held(tokenizer, data):
    ids = _byte_ids(tokenizer, data)
    detokenizer = Detokenizer(tokenizer, midway=True)
    text = ""
    for count, number in enumerate(ids, start=1):
        text += detokenizer.push(number)
        certain = data[: max(0, count - 3)].decode("utf-8", "replace")
        assert len(text) >= len(certain.rstrip("\ufffd"))
    assert text + detokenizer.flush() == data.decode("utf-8", "replace")


@settings(max_examples=100, deadline=None)
@given(text=TEXT)
def test_tk_07_streaming_tidies_nothing(tokenizer, text):
    spaced = f"x = f({text} , b) . c ': '"
    assert "".join(_deltas(tokenizer, tokenizer.encode(spaced))) == spaced


def test_text_that_goes_on_another_keeps_its_first_space(sentencepiece):
    ids = sentencepiece.encode("hello world")
    assert "".join(_deltas(sentencepiece, ids)) == "hello world"
    assert "".join(_deltas(sentencepiece, ids, midway=True)) == " hello world"


def test_control_tokens_give_no_text_and_split_no_character(byte_level):
    emoji = _byte_ids(byte_level, "😀".encode())
    assert "".join(_deltas(byte_level, [1, *emoji[:2], 2, *emoji[2:], 0])) == "😀"
    assert "".join(_deltas(byte_level, [1], shown=frozenset({1}))) == "<|im_start|>"


def test_tokenizers_without_bytes_of_their_own_are_streamed_by_comparing_decodes(tmp_path):
    backend = tokenizers.Tokenizer(models.WordLevel({"hello": 0, "world": 1, "[UNK]": 2}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.decoder = decoders.CTC(pad_token="[PAD]")
    tokenizer = load_tokenizer(tiny.save(tmp_path, backend))
    assert tokenizer.spelling is None
    ids = [0, 1, 0, 2, 1]
    assert "".join(_deltas(tokenizer, ids)) == tokenizer.decode(ids)


def test_pushing_costs_the_same_at_any_length(byte_level):
    detokenizer = Detokenizer(byte_level)
    token = byte_level.encode("hello")[0]
    assert len("".join(detokenizer.push(token) for _ in range(20_000))) == 20_000 * len(byte_level.piece(token))
