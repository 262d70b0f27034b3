"""The parts of the remote core: what is asked in which words, and that no answer of a server can break anything."""

from __future__ import annotations

import json

import msgspec
import pytest
from cutaway.engine.errors import PromptError
from cutaway.engine.protocol import Finished, Message, Metrics, SamplingSettings, Submit
from cutaway.engine.remote import dialects, prometheus, tokens
from cutaway.engine.remote.answers import Chunk, error_text, read
from cutaway.engine.remote.body import Body, after_refusal, build
from cutaway.engine.remote.keys import Key
from cutaway.engine.remote.reply import Reply
from cutaway.engine.remote.troubles import ServerTrouble, refusal
from hypothesis import given
from hypothesis import strategies as st

EVERY = (
    dialects.VLLM,
    dialects.SGLANG,
    dialects.LLAMA_CPP,
    dialects.LLAMA_CPP_PYTHON,
    dialects.OLLAMA,
    dialects.OPENAI,
    dialects.PLAIN,
)
HI = (Message("user", "hi"),)
ALL = SamplingSettings(
    temperature=0.5,
    top_k=5,
    top_p=0.9,
    min_p=0.1,
    repetition_penalty=1.1,
    presence_penalty=0.2,
    frequency_penalty=0.3,
    seed=7,
    max_tokens=9,
    min_tokens=2,
    stop=("END",),
    stop_ids=(3,),
    ignore_eos=True,
    logit_bias={5: 1.5},
    allowed_ids=(1, 2),
)


def body(dialect: dialects.Dialect, settings: SamplingSettings | None = None) -> Body:
    return build(Submit("r", HI, settings=settings or SamplingSettings()), "m", dialect, panels=True)


@pytest.mark.parametrize("dialect", EVERY, ids=lambda dialect: dialect.name)
def test_every_setting_is_sent_under_the_servers_name_or_named_as_left_out(dialect: dialects.Dialect):
    made = body(dialect, ALL)
    json.dumps(made.values)
    for name in msgspec.structs.asdict(ALL):
        if name in dialect.settings:
            assert dialect.settings[name] in made.values
        elif name != "candidates":
            assert any(name in note for note in made.notes)
    assert made.values["top_logprobs"] == 8


@pytest.mark.parametrize("dialect", EVERY, ids=lambda dialect: dialect.name)
def test_defaults_are_left_to_no_server_that_has_others(dialect: dialects.Dialect):
    made = body(dialect)
    assert made.values["temperature"] == 0.7
    assert made.notes == ()
    assert set(dialect.explicit) <= set(dialect.settings)


def test_what_is_off_is_said_in_the_servers_way():
    assert body(dialects.SGLANG).values["top_k"] == -1
    assert body(dialects.VLLM).values["top_k"] == 0
    assert body(dialects.LLAMA_CPP).values["repeat_penalty"] == 1.0
    assert body(dialects.OPENAI, ALL).values["max_completion_tokens"] == 9


def test_going_on_is_refused_where_a_server_would_begin_a_new_reply():
    messages = (*HI, Message("assistant", "I am"))
    with pytest.raises(PromptError, match="can't write on"):
        build(Submit("r", messages, continue_last=True), "m", dialects.OPENAI, panels=False)


@pytest.mark.parametrize(
    ("param", "message", "dropped"),
    [
        ("logprobs", "logprobs are not allowed", {"logprobs", "top_logprobs"}),
        ("", "Unsupported parameter: 'top_logprobs'", {"logprobs", "top_logprobs"}),
        ("seed", "Unknown parameter: seed", {"seed"}),
        ("temperature", "temperature is not supported with this model", {"temperature"}),
        ("seed", "seed must be positive", set()),
        ("messages", "unknown role in messages", set()),
    ],
)
def test_a_refusal_leaves_out_what_the_server_does_not_know_and_nothing_else(param, message, dropped):
    made = body(dialects.PLAIN, SamplingSettings(seed=7))
    again = after_refusal(made, param, message)
    assert (set() if again is None else set(again[1])) == dropped
    if again is not None:
        assert not dropped & set(again[0].values)
        assert again[0].notes


# --------------------------------------------------------------------------------------- whatever a server sends

SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=8)
NAMES = st.sampled_from(
    ["choices", "delta", "content", "logprobs", "top_logprobs", "token", "logprob", "bytes", "index", "finish_reason",
     "stop_reason", "usage", "prompt_tokens", "completion_tokens", "error", "message", "reasoning", "tool_calls",
     "token_ids", "text", "timings", "prompt_ms", "function", "name", "id"]
)  # fmt: skip
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=4), inner, max_size=5),
    max_leaves=20,
)
CHOICES = st.fixed_dictionaries({"choices": st.lists(st.dictionaries(NAMES, ANYTHING, max_size=5), max_size=3)})


@given(st.lists(st.dictionaries(NAMES, ANYTHING, max_size=5) | CHOICES, max_size=5))
def test_no_json_breaks_a_reply_and_every_sample_ends_once(values: list[object]):
    events: list[object] = []
    reply = Reply(Submit("r", HI), events.append, lambda: False, 1)
    try:
        for value in values:
            chunk = read(Chunk, json.dumps(value).encode())
            if chunk is not None:
                reply.take(chunk, 2)
    except ServerTrouble as error:
        reply.broken("failed", error.message, 3)
    reply.complete(3)
    assert sum(isinstance(event, Finished) for event in events) == 1
    for event in events:
        msgspec.json.encode(event)


@given(st.binary(max_size=60), st.sampled_from([400, 401, 404, 422, 429, 500, 503]))
def test_no_error_body_is_more_than_one_sentence_with_its_reason(data: bytes, status: int):
    told = refusal(status, data, Key(), "")
    assert told.message
    assert "\n" not in told.message


@given(ANYTHING)
def test_an_errors_text_is_found_in_any_shape(error: object):
    assert isinstance(error_text(error), str)


METRIC_PARTS = st.sampled_from(["vllm:num_requests_running", '{a="b"}', " 1", " NaN", " +Inf", "\n"])


@given(st.text(max_size=200) | st.lists(METRIC_PARTS).map("".join))
def test_no_text_breaks_the_reading_of_metrics(text: str):
    told = prometheus.metrics(text)
    assert isinstance(told, Metrics)
    assert set(told.untold) <= set(prometheus.OURS)


def test_several_engines_behind_one_server_are_summed_and_their_shares_averaged():
    text = "\n".join(
        [
            'vllm:num_requests_running{engine="0",model_name="m"} 2',
            'vllm:num_requests_running{engine="1",model_name="m"} 3',
            'vllm:num_requests_running{engine="0",model_name="other"} 50',
            'vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.2',
            'vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.4',
        ]
    )
    told = prometheus.metrics(text, "m")
    assert told.num_requests_running == 5
    assert told.kv_cache_usage_perc == pytest.approx(0.3)


@given(st.lists(st.binary(min_size=1, max_size=6), min_size=1, max_size=12), st.text(max_size=12))
def test_a_row_of_tokens_lies_end_to_end_in_its_text(pieces: list[bytes], content: str):
    text, row = tokens.row(range(len(pieces)), pieces, [Message("user", content)])
    assert [text[token.start : token.end] for token in row] == [piece.decode("utf-8", "replace") for piece in pieces]
    assert b"".join(token.bytes for token in row) == b"".join(pieces)


def test_vocabulary_strings_become_the_bytes_they_stand_for():
    spelled = {"Ġworld": b" world", "Ċ": b"\n", "▁hi": b" hi", "<0x0A>": b"\n", "<|im_end|>": b"<|im_end|>"}
    assert {piece: tokens.bytes_of(piece) for piece in spelled} == spelled
