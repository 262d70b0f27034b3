"""Reasoning told apart from the answer, whatever the pieces."""

from __future__ import annotations

import pytest
from cutaway.engine.reasoning import KNOWN, Splitter, Tags, opened_by, put_together, tags_of, take_apart
from hypothesis import given
from hypothesis import strategies as st


def _split(pieces: list[str], **options) -> tuple[str, str, list[tuple[str, str]]]:
    """Reasoning, answer, and every piece as it came."""
    splitter = Splitter(**options)
    out = [piece for text in pieces for piece in splitter.push(text)] + splitter.flush()
    joined = {channel: "".join(t for c, t in out if c == channel) for channel in ("reasoning", "answer")}
    return joined["reasoning"], joined["answer"], out


def test_ct_08_reasoning_that_the_prompt_opened_is_no_answer():
    assert _split(["r1", "</think>", "\n\nanswer"], opened=True)[:2] == ("r1", "answer")


@pytest.mark.parametrize(
    ("text", "opened", "reasoning", "answer"),
    [
        ("<think>\nr1\n</think>\n\nanswer", False, "r1", "answer"),
        ("\n<think>r1</think>answer", False, "r1", "answer"),
        ("<think>r1</think>answer", True, "r1", "answer"),
        ("r1 </thin k", True, "r1 </thin k", ""),
        ("answer <think>not</think>", False, "", "answer <think>not</think>"),
        ("<thin answer", False, "", "<thin answer"),
        ("<think>never closed", False, "never closed", ""),
        ("<think></think>answer", False, "", "answer"),
        ("</think>answer", True, "", "answer"),
        ("a</think>b</think>c", True, "a", "b</think>c"),
        ("  plain", False, "", "  plain"),
    ],
)
def test_ct_08_in_any_pieces_the_split_is_the_same(text, opened, reasoning, answer):
    for size in range(1, len(text) + 1):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert _split(pieces, opened=opened)[:2] == (reasoning, answer)


@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        ("<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes", "hm", "yes"),
        ("<|channel|>final<|message|>yes", "", "yes"),
        ("<|channel|>analysis<|message|>hm<|end|><|start|>", "hm<|end|><|start|>", ""),
        ("plain", "", "plain"),
    ],
)
def test_channels_are_split_as_tags_are(text, reasoning, answer):
    harmony = tags_of("{{ '<|channel|>' }}")
    for size in range(1, len(text) + 1):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert _split(pieces, tags=harmony)[:2] == (reasoning, answer)


@given(
    words=st.lists(st.sampled_from(["<think>", "</think>", "<", "</", "think>", " ", "\n", "a", "b"]), max_size=12),
    opened=st.booleans(),
    midway=st.booleans(),
)
def test_the_split_does_not_depend_on_the_pieces_and_loses_only_tags_and_spaces(words, opened, midway):
    text = "".join(words)
    reasoning, answer, out = _split(words, opened=opened, midway=midway)
    assert (reasoning, answer) == _split([text], opened=opened, midway=midway)[:2]
    assert all(piece for _, piece in out)
    shown = "".join((reasoning + answer).split())
    everything = "".join(text.split())
    assert shown in (everything, everything.replace("<think>", "", 1), everything.replace("</think>", "", 1)) or (
        shown == everything.replace("<think>", "", 1).replace("</think>", "", 1)
    )


def test_text_is_shown_as_soon_as_it_is_no_tag():
    splitter = Splitter()
    assert splitter.push("<thi") == []
    assert splitter.push("s") == [("answer", "<this")]
    assert splitter.push(" is") == [("answer", " is")]


def test_a_continued_thought_keeps_its_first_space():
    assert _split([" more</think>\nanswer"], opened=True, midway=True)[:2] == (" more", "answer")
    assert _split([" 42 <think>"], midway=True)[:2] == ("", " 42 <think>")


def test_tags_are_found_in_prompts_and_templates():
    assert opened_by("…assistant\n<think>\n") == Tags()
    assert opened_by("…[THINK]") == Tags("[THINK]", "[/THINK]")
    assert opened_by("<think> no") is None
    assert tags_of("{{ '</seed:think>' }}").open == "<seed:think>"
    assert tags_of("nothing") == KNOWN[0]


@given(reasoning=st.text("ab \n", min_size=1).filter(str.strip), answer=st.text("ab<>/ \n"))
def test_a_reply_put_together_comes_apart_again(reasoning, answer):
    reply = take_apart(put_together(reasoning, answer), KNOWN[0])
    assert (reply.reasoning, reply.closed, reply.answer) == (f"\n{reasoning}\n", True, f"\n\n{answer}")
    assert put_together("", answer) == answer
