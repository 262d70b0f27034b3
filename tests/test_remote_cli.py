"""`--server` as scripts see it, and keys that leave no trace anywhere."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from .cli_run import cutaway
from .http_server import DONE, Request, data, end, piece, plain, recorded, serving, simple, stream, vllm

SECRET = "sk-cutaway-secret-0123456789"


def test_a_question_is_answered_by_a_server_and_its_totals_are_told():
    with serving(vllm()) as server:
        done = cutaway("ask", "--server", server.url, "--stats", "--max-tokens", "16", "capital of France?")
    assert done.returncode == 0
    assert done.stdout.decode() == "L'Étoile, la Marseillaise, la femme,\n"
    told = done.stderr.decode()
    assert "prompt        37 tokens" in told
    assert "reply         16 tokens, length: cut at 16 tokens" in told
    assert "prompt speed" not in told  # when the server began to read is not known


def test_what_the_server_does_not_take_is_said_once():
    with serving(simple(stream(piece("hi"), end(), DONE))) as server:
        done = cutaway("ask", "--server", server.url, "--top-k", "5", "hi")
        assert "top_k" not in server.asked()[0].json
    assert done.stderr.decode().count("This server takes no top_k: left out") == 1


def test_a_reply_is_held_to_a_schema(tmp_path: Path):
    schema = tmp_path / "person.json"
    schema.write_text('{"type": "object", "required": ["name"]}')
    with serving(vllm(recorded("vllm-0.32", "chat_json_schema"))) as server:
        done = cutaway("ask", "--server", server.url, "--json-schema", str(schema), "a person")
        assert server.asked()[0].json["response_format"]["json_schema"]["schema"]["required"] == ["name"]
    assert json.loads(done.stdout) == {"name": "John", "age": 25}


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("--server", "http://127.0.0.1:9/v1"), 5, "No server answers at http://127.0.0.1:9"),
        (("--server", "nowhere"), 2, "no server called 'nowhere'"),
        (("--server", "http://h", "--engine", "x"), 2, "--server or --engine"),
    ],
)
def test_oa_08_a_server_that_can_not_be_used_is_one_sentence_and_an_exit_code(args, code: int, words: str):
    done = cutaway("ask", *args, "hi")
    assert (done.returncode, done.stdout) == (code, b"")
    assert words in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_oa_06_a_reply_that_broke_is_shown_marked_and_fails():
    broken = stream(piece("Par"), 'data: {"error": {"message": "overloaded"}}\n\n')
    with serving(simple(broken)) as server:
        done = cutaway("ask", "--server", server.url, "hi")
    assert (done.returncode, done.stdout) == (1, b"Par\n")
    assert b"[failed: overloaded]" in done.stderr


@pytest.mark.parametrize("wrong", [False, True])
def test_oa_09_the_key_is_in_no_output_log_trace_or_event(wrong: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MY_KEY", SECRET)
    monkeypatch.setenv("CUTAWAY_DEBUG", "1")

    def chat(request: Request):
        assert request.headers["authorization"] == f"Bearer {SECRET}"
        if wrong:
            return plain({"error": {"message": f"Incorrect API key provided: {SECRET}."}}, 401)
        return stream(piece("hi"), 'data: {"error": "no more for ' + SECRET[:14] + '…"}\n\n')

    trace = tmp_path / "run.trace"
    with serving(simple(chat)) as server:
        server.routes[("POST", "/v1/chat/completions")] = chat
        flags = ("--server", server.url, "--key-env", "MY_KEY", "--stats", "--trace", str(trace))
        done = cutaway("ask", *flags, "hi")
        events = cutaway("ask", *flags[:4], "--json", "hi")
    assert done.returncode != 0
    shown = done.stdout + done.stderr + events.stdout + events.stderr + gzip.decompress(trace.read_bytes())
    kept = [path.read_bytes() for path in tmp_path.parent.rglob("*") if path.is_file() and path != trace]
    assert b"[key]" in shown
    assert SECRET[:8].encode() not in shown
    assert not any(SECRET[:8].encode() in data for data in kept)


def test_fr_02_any_server_by_its_address_with_a_free_model_name_and_a_key_from_a_variable(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("ONE_KEY", SECRET)
    with serving(simple(stream(piece("one"), end(), DONE))) as one, serving(vllm()) as two:
        first = cutaway("ask", "--server", one.url, "--model", "m", "--key-env", "ONE_KEY", "hi")
        second = cutaway("ask", "--server", two.url, "hi")
        assert one.asked()[0].headers["authorization"] == f"Bearer {SECRET}"
        assert "authorization" not in two.asked()[0].headers
    assert (first.stdout, second.returncode) == (b"one\n", 0)


def test_the_benchmark_drives_a_server_as_it_drives_the_engine():
    def complete(request: Request):
        number = request.json["max_tokens"]
        usage = {"prompt_tokens": len(request.json["prompt"].split()), "completion_tokens": number}
        words = [data({"choices": [{"index": 0, "text": f" w{at}", "token_ids": [at]}]}) for at in range(number)]
        return stream(*words, end("length"), data({"choices": [], "usage": usage}), DONE, pause=0.001)

    with serving(vllm() | {("POST", "/v1/completions"): complete}) as server:
        flags = ("--streams", "1,8", "--rounds", "1", "--new-tokens", "8", "--json")
        done = cutaway("bench", "--server", server.url, *flags)
    run = json.loads(done.stdout)["run"]
    assert [result["streams"] for result in run["streams"]] == [1, 8]
    assert all(result["decode"]["p50"] > 0 for result in run["streams"])
    assert run["follow_up"] is None  # a server's cache can't be cleared from here
