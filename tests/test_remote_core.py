"""The remote core against recorded and scripted servers, over real sockets."""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Iterable

import pytest
from cutaway.engine.protocol import (
    Abort,
    CardChanged,
    Configure,
    Failed,
    Finished,
    Fork,
    Inspect,
    Load,
    Message,
    Metrics,
    Pause,
    PromptRendered,
    Ready,
    Rejected,
    SamplingSettings,
    Step,
    Submit,
    TextDelta,
)
from cutaway.engine.remote.limits import Limits

from .http_server import (
    DONE,
    Answer,
    Request,
    body,
    data,
    end,
    llama_cpp_python,
    llama_server,
    piece,
    plain,
    recorded,
    serving,
    simple,
    stream,
    vllm,
)
from .patience import until
from .remote_driver import connected, core

VLLM_TEXT = "L'Étoile, la Marseillaise, la femme,"


# ------------------------------------------------------------------------------------------- recorded servers


def test_vllm_is_found_with_its_version_window_and_endpoints():
    with serving(vllm()) as server, core(server.url) as running:
        card = running.connect()
    assert (card.name, card.window, card.attention) == ("smollm2", 2048, "remote")
    assert card.device.startswith("vLLM 0.32.0 at 127.0.0.1:")
    assert {"tokens", "candidates", "metrics", "timeline"} <= set(card.capabilities)
    assert {"lanes", "pages", "prefill", "pause", "fork", "switches"} == set(card.missing)


@pytest.mark.parametrize(
    ("routes", "text", "prompt", "cached", "counted"),
    [
        (vllm, VLLM_TEXT, 37, 0, True),
        (llama_server, "L'Étoile, la Marseillaise, la femme au", 37, 36, True),
        (llama_cpp_python, "L'Étoile, la Marseillaise. Paris is the capital", 0, 0, False),
    ],
)
def test_recorded_streams_come_out_whole_with_their_counts(routes, text: str, prompt: int, cached: int, counted: bool):
    with connected(routes()) as (running, _):
        ended = running.ask("r", "What is the capital of France?", SamplingSettings(max_tokens=16))
        assert running.text() == text
        assert "".join(token.piece for token in running.tokens()) == text
    assert (ended.reason, ended.detail) == ("length", "cut at 16 tokens")
    assert (ended.prompt_tokens, ended.cached_tokens, ended.counted) == (prompt, cached, counted)
    assert ended.generated_tokens == 16
    assert len(ended.timeline.tokens_ns) == 16
    assert 0 < ended.timeline.submitted_ns <= ended.timeline.first_token_ns <= ended.timeline.finished_ns


def test_candidates_are_the_servers_log_probabilities_and_marked_as_told():
    with connected(vllm()) as (running, server):
        running.ask()
        first = running.tokens()[0]
        assert server.asked()[0].json["top_logprobs"] == 8
    assert (first.piece, first.bytes, first.logprob, first.rank, first.id) == ("L", b"L", -1.906170129776001, 1, -1)
    assert [candidate.piece for candidate in first.candidates] == ["L", "The", "La"]
    assert first.told
    assert first.entropy == 0.0


def test_vllms_token_ids_are_taken_from_the_stream():
    with connected(vllm(recorded("vllm-0.32", "chat_stream_token_ids"))) as (running, _):
        ended = running.ask()
        tokens = running.tokens()
        assert [token.id for token in tokens] == list(ended.token_ids) == [60, 23, *ended.token_ids[2:-1], 2828]
        assert [token.position for token in tokens] == list(range(37, 45))
    assert (ended.prompt_tokens, ended.generated_tokens) == (37, 8)


def test_candidates_stand_in_order_and_the_rank_is_told_only_where_it_is_known():
    def entry(*drawn: tuple[str, float]) -> dict[str, object]:
        listed = [{"token": token, "logprob": logprob} for token, logprob in drawn]
        return {"content": [{**listed[0], "top_logprobs": listed}]}

    second = piece("b", logprobs=entry(("b", -1.0), ("a", -0.5), ("c", -3.0)))
    far = piece("z", logprobs=entry(("z", -9.0), ("a", -0.1), ("b", -4.0)))
    with connected(simple(stream(second, far, end(), DONE))) as (running, _):
        running.ask()
        first, last = running.tokens()
    assert [candidate.piece for candidate in first.candidates] == ["a", "b", "c"]
    assert (first.rank, last.rank) == (2, 0)


def test_llama_cpps_token_ids_are_taken_over():
    with connected(llama_server()) as (running, _):
        ended = running.ask()
        assert running.tokens()[0].id == 60
        assert [candidate.id for candidate in running.tokens()[0].candidates] == [60, 504, 15319]
    assert len(ended.token_ids) == 16
    assert ended.told["reply"] == "16 tokens written in 86.3 ms"


def test_the_prompts_tokens_come_from_the_servers_tokenizer():
    with connected(vllm()) as (running, server):
        running.send(Submit("r", (Message("user", "What is the capital of France?"),)))
        rendered = running.first(PromptRendered, "r", after=1)
        assert server.asked("/tokenize")[1].json["return_token_strs"] is True
    assert len(rendered.tokens) == 37
    assert rendered.text.endswith("<|im_start|>assistant\n")
    assert rendered.tokens[0].control
    asked = [token for token in rendered.tokens if token.role == "user"]
    assert "".join(token.piece for token in asked) == "What is the capital of France?"
    assert {token.message for token in asked} == {0}


def test_llama_cpp_is_asked_in_its_own_way_for_template_and_pieces():
    with connected(llama_server()) as (running, server):
        running.send(Submit("r", (Message("user", "What is the capital of France?"),)))
        rendered = running.first(PromptRendered, "r", after=1)
        assert server.asked("/tokenize")[1].json["with_pieces"] is True
    assert "".join(token.piece for token in rendered.tokens if token.role == "user").strip().startswith("What is")


def test_numbers_that_are_no_bytes_are_left_out_of_a_prompts_pieces():
    odd = plain({"tokens": [{"id": 1, "piece": [300, 65, -1]}]})
    with connected(llama_server() | {("POST", "/tokenize"): odd}) as (running, _):
        running.send(Submit("r", (Message("user", "A"),)))
        assert running.first(PromptRendered, "r", after=1).text == "A"


def test_a_prompts_tokens_come_also_after_a_reply_that_was_faster():
    routes, gate = vllm(), threading.Event()
    told = routes["POST", "/tokenize"]
    assert isinstance(told, Answer)
    with connected(routes) as (running, server):
        server.routes["POST", "/tokenize"] = dataclasses.replace(told, gate=gate)
        running.ask()
        assert len(running.all(PromptRendered, "r")) == 1
        gate.set()
        assert len(running.first(PromptRendered, "r", after=1).tokens) == 37


def test_without_panels_nothing_is_asked_for_that_only_they_show():
    with connected(vllm(), inspect=False) as (running, server):
        running.ask()
        posted = server.asked()[0].json
        assert not {"logprobs", "top_logprobs"} & set(posted)
        assert len(server.asked("/tokenize")) == 1  # at connect


def test_vllms_metrics_are_told_when_asked_for_and_what_is_not_told_is_named():
    with connected(vllm()) as (running, server):
        assert not [request for request in server.requests[4:] if request.path == "/metrics"]
        running.send(Inspect())
        told = running.first(Metrics)
    assert (told.prompt_tokens, told.generation_tokens, told.prefix_cache_queries) == (559, 282, 549)
    assert (told.requests_finished, told.kv_blocks, told.kv_block_tokens) == (27, 364, 128)
    assert told.untold == ()


def test_llama_cpps_metrics_leave_untold_what_it_does_not_tell():
    with connected(llama_server()) as (running, _):
        running.send(Inspect())
        told = running.first(Metrics)
    assert (told.generation_tokens, told.prefix_cache_hits, told.prefix_cache_queries) == (2258, 406, 484)
    assert {"kv_cache_usage_perc", "num_preemptions", "kv_blocks"} <= set(told.untold)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("err_bad_temp", "temperature must be non-negative"),
        ("err_too_long", "max_tokens=100000 cannot be greater than max_model_len=2048"),
        ("err_bad_model", "The model `nope` does not exist"),
    ],
)
def test_a_refusal_is_told_in_the_servers_words_and_not_tried_again(name: str, words: str):
    with connected(vllm(recorded("vllm-0.32", name))) as (running, server):
        assert words in running.refused().message
        assert len(server.asked()) == 1


def test_an_internal_error_leaves_the_request_failed_and_the_core_alive():
    with connected(llama_cpp_python(recorded("llamacpp-python-0.3.36", "err_bad_json"))) as (running, server):
        ended = running.ask()
        assert ended.reason == "failed"
        assert "500" in ended.detail
        server.routes[("POST", "/v1/chat/completions")] = stream(piece("ok"), end(), DONE)
        assert running.ask("again").reason == "end"


def test_more_candidates_than_the_server_gives_are_asked_for_again_in_its_number():
    answers = iter([recorded("vllm-0.32", "err_top_logprobs_50"), recorded("vllm-0.32", "chat_stream_logprobs")])
    routes = vllm(lambda request: next(answers))
    with connected(routes) as (running, server):
        running.ask(settings=SamplingSettings(candidates=64))
        assert server.asked()[0].json["top_logprobs"] == 20


# ------------------------------------------------------------------------------------------ scripted trouble


def test_oa_03_chunks_without_choices_are_fine_and_usage_is_told():
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    parts = [data({"choices": []}), piece("hi"), end(), data({"choices": [], "usage": usage}), DONE]
    with connected(simple(stream(*parts))) as (running, _):
        ended = running.ask()
        assert running.text() == "hi"
    assert (ended.prompt_tokens, ended.generated_tokens, ended.counted) == (3, 2, True)


def test_oa_03_usage_that_never_comes_is_not_reported_as_zero():
    with connected(simple(stream(piece("hi"), end(), DONE))) as (running, _):
        assert running.ask().counted is False


@pytest.mark.parametrize(
    "error",
    [
        data({"error": {"message": "overloaded", "code": 503}}),
        "event: error\n" + data({"error": {"message": "overloaded"}}),
        'event: error\ndata: {"message": "overloaded"}\n\n',
        "event: error\ndata: overloaded\n\n",
    ],
)
def test_oa_06_an_error_inside_a_stream_fails_the_reply_and_keeps_its_text(error: str):
    with connected(simple(stream(piece("Par"), error, DONE))) as (running, _):
        ended = running.ask()
        assert running.text() == "Par"
    assert ended.reason == "failed"
    assert "overloaded" in ended.detail


@pytest.mark.parametrize("chunked", [True, False])
def test_oa_07_a_hang_up_in_the_middle_keeps_the_text_and_says_so(chunked: bool):
    with connected(simple(stream(piece("Par"), piece("is"), cut=True, chunked=chunked))) as (running, _):
        ended = running.ask()
        assert running.text() == "Paris"
    assert (ended.reason, ended.detail) == ("failed", "the connection was cut in the middle of the reply")


def test_oa_11_null_logprobs_leave_the_reply_alone_and_the_panel_with_a_reason():
    parts = [piece("hi", logprobs=None), piece(" you", logprobs=None), end(), DONE]
    with connected(simple(stream(*parts))) as (running, _):
        running.ask()
        card = running.first(CardChanged).card
        assert running.text() == "hi you"
        assert running.tokens() == []
    assert "candidates" not in card.capabilities
    assert "not given by this server" in card.missing["candidates"]


def test_oa_11_logprobs_without_alternatives_are_shown_without():
    logprobs = {"content": [{"token": "hi", "logprob": -0.5, "bytes": None, "top_logprobs": None}]}
    with connected(simple(stream(piece("hi", logprobs=logprobs), end(), DONE))) as (running, _):
        running.ask()
        (token,) = running.tokens()
    assert (token.piece, token.bytes, token.logprob, token.candidates, token.rank) == ("hi", b"hi", -0.5, (), 0)


def test_oa_11_a_refusal_that_names_logprobs_is_asked_once_more_without_them():
    def chat(request: Request) -> Answer:
        if "logprobs" in request.json:
            return plain({"error": {"message": "This model does not support logprobs.", "param": "logprobs"}}, 400)
        return stream(piece("hi"), end(), DONE)

    with connected(simple(chat)) as (running, server):
        assert running.ask().reason == "end"
        assert running.text() == "hi"
        assert "candidates" not in running.first(CardChanged).card.capabilities
        notes = running.all(PromptRendered, "r")[-1].notes
        running.ask("second")
        assert [("logprobs" in request.json) for request in server.asked()] == [True, False, False]
    assert notes == ("the server refused log-probabilities: asked again without",)


def test_a_setting_out_of_range_is_never_left_out_by_itself():
    refusal = plain({"error": {"message": "seed must be below 7", "param": "seed"}}, 400)
    with connected(simple(refusal)) as (running, server):
        running.refused(settings=SamplingSettings(seed=9))
        assert len(server.asked()) == 1


def test_oa_13_a_slow_server_is_waited_for_and_the_wait_is_told():
    gate = threading.Event()
    slow = stream(": queued\n\n", piece("late"), end(), DONE, gate=gate, gated=1)
    with connected(simple(slow)) as (running, _):
        running.send(Submit("r", (Message("user", "hi"),)))
        waits = [wait for step in [running.first(Step)] for wait in step.waits]
        [wait] = waits
        assert re.fullmatch(r"waiting for the server \d+ s of 600", wait.reason)
        gate.set()
        assert running.first(Finished, "r").reason == "end"
        assert running.text() == "late"


def test_oa_13_the_limit_until_the_first_token_ends_a_reply_and_names_its_setting():
    gate = threading.Event()
    comments = stream(": queued\n\n", ": still queued\n\n", piece("late"), gate=gate, gated=2)
    with connected(simple(comments), limits=Limits(first_token_s=0.05, gap_s=0)) as (running, _):
        ended = running.ask()
        assert (ended.reason, running.text()) == ("failed", "")
        assert ended.detail == "no token came from the server in 0.05 s, the limit that first_token_limit_s sets"
        gate.set()


def test_oa_13_the_limit_of_a_gap_ends_a_reply_keeps_its_text_and_names_its_setting():
    gate = threading.Event()
    halting = stream(piece("Par"), ": still there\n\n", piece("is"), end(), DONE, gate=gate, gated=2)
    with connected(simple(halting), limits=Limits(first_token_s=0, gap_s=0.05)) as (running, _):
        ended = running.ask()
        assert (ended.reason, running.text()) == ("failed", "Par")
        assert ended.detail == "nothing more came from the server for 0.05 s, the limit that gap_limit_s sets"
        gate.set()


def test_oa_13_with_generous_limits_or_none_a_slow_server_is_waited_for():
    slow = stream(": loading\n\n", piece("a"), ": on\n\n", piece("b"), end(), DONE)
    for limits in (Limits(), Limits(0, 0)):
        with connected(simple(slow), limits=limits) as (running, _):
            assert (running.ask().reason, running.text()) == ("end", "ab")
    assert Limits().waiting(False, 12.3) == "waiting for the server 12 s of 600"
    assert Limits().waiting(True, 20) == "waiting for the server 20 s of 300"
    assert Limits(0, 0).waiting(False, 90) == "waiting for the server 90 s"


def test_oa_13_a_cancel_works_at_once_and_closes_the_stream():
    gate = threading.Event()
    with connected(simple(stream(piece("a"), piece("b"), gate=gate, gated=1))) as (running, server):
        running.send(Submit("r", (Message("user", "hi"),)))
        running.first(TextDelta)
        running.send(Abort("r"))
        assert running.first(Finished, "r").reason == "aborted"
        assert running.text() == "a"
        gate.set()
        running.ask("next", settings=SamplingSettings())
        until(lambda: server.open <= 2, "the stream to be closed")


def test_whatever_goes_wrong_in_connecting_is_told_and_what_waits_is_refused(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> None:
        raise RuntimeError("a library's own fault")

    monkeypatch.setattr("cutaway.engine.remote.connecting.discover", fail)
    with core("http://127.0.0.1:9/v1") as running:
        running.send(Load(), Submit("r", (Message("user", "hi"),)))
        assert running.first(Failed).loading
        assert "RuntimeError" in running.first(Failed).message
        assert running.first(Rejected, "r").message


def test_oa_08_a_server_that_is_down_at_the_start_is_asked_until_it_is_there():
    with serving(simple(stream(piece("ok"), end(), DONE))) as server:
        url = server.url
        server.stop()
        with core(url) as running:
            running.send(Load())
            failed = running.first(Failed)
            assert not failed.fatal
            assert url.removesuffix("/v1") in failed.message
            assert "refused" in failed.message
            running.send(Submit("r", (Message("user", "hi"),)))  # waits for the server
            server.start()
            assert running.first(Finished, "r").reason == "end"
            assert running.text() == "ok"


def test_oa_08_a_server_that_goes_away_fails_one_reply_and_is_found_again():
    with serving(simple(stream(piece("ok"), end(), DONE))) as server, core(server.url) as running:
        running.connect()
        server.stop()
        ended = running.ask()
        assert ended.reason == "failed"
        assert server.url in ended.detail
        server.start()
        running.first(Ready, after=1)
        assert running.ask("again").reason == "end"


def test_oa_08_going_away_while_idle_is_noticed_by_the_poll_and_told():
    with serving(vllm()) as server, core(server.url) as running:
        running.connect()
        server.stop()
        running.send(Inspect())
        assert running.first(Failed).kind == "unreachable"
        server.start()
        running.first(Ready, after=1)


@pytest.mark.parametrize("status", [401, 403])
def test_oa_09_a_wrong_key_names_its_variable_and_shows_nowhere(status: int, monkeypatch: pytest.MonkeyPatch):
    secret = "sk-wrong-0123456789"
    monkeypatch.setenv("MY_KEY", secret)
    wrong = plain({"error": {"message": f"Incorrect API key provided: {secret[:12]}***"}}, status)
    with serving({("GET", "/v1/models"): wrong}) as server, core(server.url, key_variable="MY_KEY") as running:
        running.send(Load())
        failed = running.first(Failed)
        assert server.requests[0].headers["authorization"] == f"Bearer {secret}"
        assert len(server.requests) == 1
    assert "$MY_KEY" in f"{failed.message} {failed.action}"
    assert secret[:8] not in repr(failed)
    assert failed.kind == "key"


def test_oa_09_a_missing_key_says_how_to_give_one():
    wrong = plain({"error": {"message": "no key"}}, 401)
    with serving({("GET", "/v1/models"): wrong}) as server, core(server.url) as running:
        running.send(Load())
        failed = running.first(Failed)
    assert "CUTAWAY_API_KEY" in failed.action


def test_oa_09_an_unknown_model_is_told_with_the_nearest_and_the_list():
    with serving(simple(stream(), models=("llama-3-8b", "qwen-2"))) as server, core(server.url) as running:
        running.send(Load("llama-3-7b"))
        failed = running.first(Failed)
        assert failed.kind == "model"
        assert "llama-3-7b" in failed.message
        assert "Did you mean 'llama-3-8b'?" in failed.action
        running.send(Load(""))
        assert "llama-3-8b, qwen-2" in running.first(Failed, after=1).message
        running.send(Load("qwen-2"))
        assert running.first(Ready).card.name == "qwen-2"


@pytest.mark.parametrize("base", ["/v1", "/proxy/v1", "/proxy", ""])
def test_oa_14_the_api_is_found_below_every_base(base: str):
    with serving(simple(stream(piece("ok"), end(), DONE), base=base)) as server:
        address = f"http://127.0.0.1:{server.port}{base.removesuffix('/v1')}/"
        with core(address) as running:
            running.connect()
            assert running.ask().reason == "end"
            assert server.asked(f"{base}/chat/completions")


def test_oa_14_without_a_list_of_models_the_name_can_be_given():
    def chat(request: Request) -> Answer:
        return plain({"error": "no model"}, 400) if request.body == b"{}" else stream(piece("ok"), end(), DONE)

    with serving({("POST", "/v1/chat/completions"): chat}) as server, core(server.url) as running:
        running.send(Load())
        assert "--model" in running.first(Failed).action
        assert running.connect("typed").name == "typed"
        running.ask()
        assert server.asked()[0].json["model"] == "typed"


def test_something_else_than_such_a_server_is_told_with_what_was_tried():
    page = Answer([b"<!doctype html><p>hello"], headers=(("Content-Type", "text/html"),))
    with serving({("GET", "/v1/models"): page, ("GET", "/models"): page}) as server, core(server.url[:-3]) as running:
        running.send(Load())
        failed = running.first(Failed)
    assert "/v1/models" in failed.message
    assert "web page" in failed.message


# ------------------------------------------------------------------------------------------- what is asked for


def test_a_plain_text_goes_to_plain_completions():
    chunk = data({"choices": [{"index": 0, "text": " Paris", "token_ids": [7, 8]}]})
    last = data({"choices": [{"index": 0, "text": ".", "token_ids": [9], "finish_reason": "length"}]})
    with connected(vllm(), inspect=False) as (running, server):
        server.routes[("POST", "/v1/completions")] = stream(chunk, last, DONE)
        running.send(Submit("r", text="The capital of France is", settings=SamplingSettings(max_tokens=3)))
        ended = running.first(Finished)
        assert server.asked("/v1/completions")[0].json["prompt"] == "The capital of France is"
        assert running.text() == " Paris."
    assert (ended.token_ids, ended.detail) == ((7, 8, 9), "cut at 3 tokens")


def test_several_samples_come_side_by_side():
    parts = [piece("a", 0), piece("x", 1), piece("b", 0), end("stop", 0), piece("y", 1), end("length", 1), DONE]
    with connected(simple(stream(*parts))) as (running, server):
        running.ask(samples=2)
        assert server.asked()[0].json["n"] == 2
        assert (running.text(sample=0), running.text(sample=1)) == ("ab", "xy")
        assert {ended.sample: ended.reason for ended in running.all(Finished)} == {0: "end", 1: "length"}


def test_a_server_without_n_is_asked_once_for_each_sample_with_seeds_of_their_own():
    with connected(llama_cpp_python(stream(piece("a"), end(), DONE))) as (running, server):
        running.ask(samples=3, settings=SamplingSettings(seed=5))
        assert sorted(request.json["seed"] for request in server.asked()) == [5, 6, 7]
        assert [running.text(sample=sample) for sample in range(3)] == ["a", "a", "a"]


def test_a_sample_that_the_server_leaves_out_has_failed():
    with connected(simple(stream(piece("a"), end(), DONE))) as (running, _):
        running.ask(samples=2)
        assert {ended.sample: ended.reason for ended in running.all(Finished)} == {0: "end", 1: "failed"}


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_told_apart_by_either_name(field: str):
    thought = data({"choices": [{"index": 0, "delta": {field: "hm"}}]})
    with connected(simple(stream(thought, piece("<think> is text here"), end(), DONE))) as (running, _):
        running.ask()
        assert running.text(channel="reasoning") == "hm"
        assert running.text() == "<think> is text here"


def test_reasoning_inside_the_content_is_told_apart_as_the_local_engine_does():
    with connected(simple(stream(piece("<thi"), piece("nk>hm</think>yes"), end(), DONE))) as (running, _):
        running.ask()
        assert (running.text(channel="reasoning"), running.text()) == ("hm", "yes")


def test_a_json_schema_is_sent_and_a_server_that_takes_none_says_so():
    schema = '{"type": "object"}'
    with connected(vllm()) as (running, server):
        running.ask(json_schema=schema)
        assert server.asked()[0].json["response_format"]["json_schema"]["schema"] == {"type": "object"}
        assert "JSON" in running.refused("bad", json_schema="{").message
    with connected(llama_cpp_python()) as (running, server):
        assert "JSON schema" in running.refused(json_schema=schema).message
        assert server.asked() == []


def test_a_stop_string_of_the_servers_is_told():
    stopped = data({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": "END"}]})
    with connected(simple(stream(piece("a"), stopped, DONE))) as (running, _):
        ended = running.ask()
    assert (ended.reason, ended.detail) == ("stop", "END")


def test_an_answer_that_is_not_streamed_is_taken_whole():
    with connected(vllm(recorded("vllm-0.32", "chat"))) as (running, _):
        assert running.ask().prompt_tokens == 37
        assert running.text()


def test_buffered_delivery_holds_the_text_until_the_end():
    with connected(simple(stream(piece("a"), piece("b"), end(), DONE))) as (running, _):
        running.ask(delivery="buffered")
        assert [delta.text for delta in running.all(TextDelta)] == ["a", "b"]
        texts = [type(event) for event in running.events if isinstance(event, TextDelta | Finished)]
    assert texts == [TextDelta, TextDelta, Finished]


def test_what_a_server_can_not_do_is_refused_in_one_sentence():
    with connected(vllm()) as (running, _):
        running.ask()
        running.send(Fork("f", "r", 3), Pause(), Configure(policy="static"))
        running.until(lambda: len(running.all(Failed)) >= 2, "two refusals")
        assert "vLLM 0.32.0" in running.all(Failed)[0].message
        assert not running.all(Failed)[0].fatal


def test_going_on_is_asked_for_in_the_servers_way_or_refused():
    messages = (Message("user", "hi"), Message("assistant", "I am"))
    with connected(vllm()) as (running, server):
        running.send(Submit("r", messages, continue_last=True))
        running.first(Finished)
        assert server.asked()[0].json["continue_final_message"] is True
    with connected(simple(stream())) as (running, server):
        running.send(Submit("r", messages, continue_last=True))
        running.until(lambda: running.all(Finished) or server.asked() or len(running.events) > 3, "a refusal")
        assert server.asked() == []


# ------------------------------------------------------------------------------------------------ properties


def _cut(whole: bytes, cuts: Iterable[int], text: str, complete: int) -> None:
    """Cut a stream at each of these bytes: a beginning of the text is kept, and only a full one looks full."""
    at = iter(cuts := list(cuts))
    with connected(simple(lambda request: stream(whole[: next(at)], cut=True))) as (running, _):
        for cut in cuts:
            ended = running.ask(f"cut-{cut}")
            kept = running.text(f"cut-{cut}")
            assert text.startswith(kept)
            assert (ended.reason == "failed") == (cut < complete)
            assert kept == text or cut < complete
            running.events.clear()


def test_a_stream_cut_at_any_byte_keeps_a_beginning_and_never_looks_full():
    whole = (piece("Pa") + piece("r\u00eds ✅") + end() + DONE).encode()
    complete = whole.index(b"}]}", whole.index(b'"stop"')) + 4  # the line that says why it ended has ended
    _cut(whole, range(len(whole) + 1), "Par\u00eds ✅", complete)


def test_a_recorded_stream_cut_at_many_bytes_does_the_same():
    whole = body("vllm-0.32", "chat_stream_logprobs")
    complete = whole.index(b"\n", whole.index(b'"finish_reason":"length"')) + 1
    _cut(whole, sorted({*range(0, len(whole), 83), complete - 1, complete}), VLLM_TEXT, complete)


def test_sixty_four_streams_at_once_lose_no_delta():
    words = [f"w{number} " for number in range(100)]

    def chat(request: Request) -> Answer:
        mine = request.json["messages"][0]["content"]
        return stream(*(piece(f"{mine}-{word}") for word in words), end(), DONE, pause=0.001)

    with connected(simple(chat), inspect=False) as (running, _):
        names = [f"r{number}" for number in range(64)]
        running.send(*(Submit(name, (Message("user", name),)) for name in names))
        running.until(lambda: len(running.all(Finished)) == len(names), "64 ends")
        for name in names:
            assert running.text(name) == "".join(f"{name}-{word}" for word in words)
            assert len(running.all(TextDelta, name)) == len(words)
