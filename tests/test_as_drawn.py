"""A reply goes back into the prompt as the tokens that were drawn, as long as they spell its text."""

from __future__ import annotations

import pytest
from cutaway.engine.prompt import render
from cutaway.engine.protocol import Finished, Message, SamplingSettings, Submit
from cutaway.engine.tokenizer import Tokenizer, load_tokenizer
from cutaway.tui.state.conversation import Conversation, Reply
from hypothesis import given, settings
from hypothesis import strategies as st

from . import tiny_folder
from . import tiny_tokenizers as tiny
from .engine_driver import Driver
from .template_families import FAMILIES

END = 2  # <|im_end|>
FIRST = 3  # of the tokens that are text


@pytest.fixture(scope="module")
def chatml(tmp_path_factory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("chatml")
    return load_tokenizer(tiny.save(folder, tiny.byte_level(), template=tiny.CHATML, eos_token="<|im_end|>"))


def letters(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    """A token for each byte: how no tokenizer would spell words that it has learned."""
    singles = {tokenizer.token_bytes(t): t for t in range(FIRST, tiny_folder.VOCABULARY) if tokenizer.token_bytes(t)}
    return tuple(singles[bytes([byte])] for byte in text.encode())


def chat(reply: str, drawn: tuple[int, ...] = ()) -> list[Message]:
    return [Message("user", "Where to?"), Message("assistant", reply, drawn), Message("user", "And then?")]


@given(st.lists(st.integers(FIRST, 400), min_size=1, max_size=40), st.lists(st.just(END), max_size=1))
@settings(max_examples=200)
def test_a_follow_up_begins_with_the_tokens_of_the_chat_so_far(chatml, ids, end):
    text = b"".join(chatml.token_bytes(token) for token in ids).decode("utf-8", "replace")
    first = render(chatml, chat("")[:1])
    plain, prompt = render(chatml, chat(text)), render(chatml, chat(text, (*ids, *end)))
    assert prompt.text == plain.text
    assert prompt.ids == tuple(token.id for token in prompt.tokens)
    assert all(a.start <= b.start for a, b in zip(prompt.tokens, prompt.tokens[1:], strict=False))
    whole = b"".join(chatml.token_bytes(token) for token in ids)
    borders = plain.ids[: len(first.ids)] == first.ids  # no token of the text reaches over where the reply begins
    if borders:
        assert prompt.ids[: len(first.ids) + len(ids)] == (*first.ids, *ids)
        assert prompt.ids[len(first.ids) + len(ids)] == END
        assert b"".join(t.bytes for t in prompt.tokens if t.message == 1) == whole
    else:
        assert prompt.ids == plain.ids


def test_a_text_that_was_edited_is_encoded_anew(chatml):
    ids = letters(chatml, "to the sea")
    assert render(chatml, chat("to the sea!", ids)).ids == render(chatml, chat("to the sea!")).ids


@pytest.mark.parametrize("odd", [0, 1, END, -1, 10**6])
def test_a_control_token_or_no_token_in_the_middle_makes_them_void(chatml, odd):
    ids = letters(chatml, "to the sea")
    shown = chatml.token_bytes(odd).decode()
    text = f"to {shown}the sea"
    assert render(chatml, chat(text, (*ids[:3], odd, *ids[3:]))).ids == render(chatml, chat(text)).ids


def test_only_a_reply_was_drawn(chatml):
    ids = letters(chatml, "to the sea")
    asked = [Message("user", "to the sea", ids)]
    assert render(chatml, asked).ids == render(chatml, [Message("user", "to the sea")]).ids


def test_a_reply_that_is_gone_on_with_keeps_its_tokens(chatml):
    ids = letters(chatml, "to the sea")
    prompt = render(chatml, chat("to the sea", ids)[:2], continue_last=True)
    assert prompt.ids[-len(ids) :] == ids


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_no_template_shows_another_text_for_it(family, tmp_path):
    tokenizer = load_tokenizer(family.save(tmp_path))
    text = "the cat sat"
    ids = tuple(token.id for token in render(tokenizer, text=text).tokens)
    plain, prompt = render(tokenizer, chat(text)), render(tokenizer, chat(text, ids))
    assert prompt.text == plain.text
    assert b"".join(t.bytes for t in prompt.tokens) == b"".join(t.bytes for t in plain.tokens)


def test_a_follow_up_finds_every_whole_page_of_a_reply_that_was_spelled_oddly(tmp_path):
    folder = tiny_folder.make(tmp_path)
    tokenizer = load_tokenizer(folder)
    said = "the cat sat on the mat and the dog ran to the sea "
    driver, _ = tiny_folder.scripted(folder, {"a": [*letters(tokenizer, said), END], "b": [END], "c": [END]})
    first = _answered(driver, "a", chat(said)[:1])
    pages = (first.prompt_tokens + len(letters(tokenizer, said))) // 16 * 16
    assert _answered(driver, "b", chat(said)).cached_tokens < pages
    assert _answered(driver, "c", chat(said, first.token_ids)).cached_tokens == pages


def _answered(driver: Driver, name: str, messages: list[Message]) -> Finished:
    driver.send(Submit(name, messages=tuple(messages), settings=SamplingSettings(temperature=0.0, max_tokens=64)))
    driver.run()
    (end,) = driver.of(Finished, name)
    return end


def test_a_chat_sends_what_its_replies_were_drawn_as_and_none_for_what_was_written_by_hand():
    conversation = Conversation("key")
    conversation.add("user", "Where to?")
    reply = conversation.add("assistant", "to the sea", reply=Reply("r", status="end", token_ids=(7, 8)))
    assert [m.token_ids for m in conversation.messages()] == [(), (7, 8)]
    conversation.branch(reply, "to the hills", Reply("", status="edited"))
    assert [(m.content, m.token_ids) for m in conversation.messages()] == [("Where to?", ()), ("to the hills", ())]
