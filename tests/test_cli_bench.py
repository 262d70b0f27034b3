"""`cutaway bench`, as a shell and a terminal see it."""

from __future__ import annotations

import json

import pytest
from cutaway.tui.bench import stored

from .cli_run import ENGINE, cutaway, terminal

SMALL = ("--streams", "1,3", "--prompt-tokens", "40", "--new-tokens", "8", "--rounds", "2")


def bench(*args: str) -> tuple[int, str, str]:
    done = cutaway("bench", "--engine", ENGINE, *SMALL, *args)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_json_is_one_object_with_this_run_and_the_one_before() -> None:
    code, out, _ = bench("--json")
    assert code == 0
    first = json.loads(out)
    assert first["before"] is None
    run = first["run"]
    assert [result["streams"] for result in run["streams"]] == [1, 3]
    assert all(result["decode"]["p50"] > 0 and result["prefill"]["p50"] > 0 for result in run["streams"])
    assert all(result["ttft_ms"]["p5"] <= result["ttft_ms"]["p95"] for result in run["streams"])
    assert run["follow_up"]["prompt_tokens"] > 40
    code, out, _ = bench("--json")
    assert (code, json.loads(out)["before"]) == (0, run)


def test_the_table_goes_to_stdout_and_progress_to_stderr() -> None:
    code, out, err = bench()
    assert code == 0
    assert "scripted" in out
    [head] = [number for number, line in enumerate(out.splitlines()) if line.startswith("streams")]
    assert [line.split()[0] for line in out.splitlines()[head + 2 : head + 4]] == ["1", "3"]
    assert "Against" not in out
    assert "3 streams, round 2 of 2" in err
    assert "Against the run of" in bench()[1]


def test_kernels_that_are_being_compiled_are_waited_for() -> None:
    code, out, err = bench("--model", "compiling", "--json")
    assert code == 0
    assert "waiting for the kernels" in err
    assert json.loads(out)["run"]["kernel"] == "the fast one"


def test_more_streams_than_lanes_get_lanes() -> None:
    code, out, _ = bench("--streams", "20", "--lanes", "2", "--pages", "2000", "--json")
    assert code == 0
    assert json.loads(out)["run"]["streams"][0]["streams"] == 20


def test_a_terminal_sees_a_bar_that_leaves_nothing_behind() -> None:
    with terminal("bench", "--engine", ENGINE, *SMALL) as child:
        child.expect("0% warming up")
        child.expect("scripted")
        child.expect("Follow-up")
        child.wait()
        assert child.exitstatus == 0


@pytest.mark.parametrize("streams", ["", "0", "1,x", "-3", "1,,2", "5000"])
def test_wrong_streams_are_wrong_usage_in_one_sentence(streams: str) -> None:
    code, out, err = bench("--streams", streams)
    assert (code, out) == (2, "")
    assert "whole numbers from 1 to 1024" in err


def test_a_prompt_longer_than_the_window_is_told_and_nothing_kept() -> None:
    code, out, err = bench("--window", "300", "--prompt-tokens", "400")
    assert (code, out) == (4, "")
    assert "the model's window is 300" in err
    assert not stored.folder().exists()


def test_an_engine_that_is_not_there_is_told() -> None:
    done = cutaway("bench", "--engine", "/nonexistent/engine")
    assert done.returncode == 5


def test_interrupted_it_leaves_with_130_and_keeps_nothing() -> None:
    with terminal("bench", "--engine", ENGINE, *SMALL, "--rounds", "1000") as child:
        child.expect("round")
        child.sendintr()
        child.wait()
        assert child.exitstatus == 130
    assert not stored.folder().exists()


@pytest.mark.model
def test_the_real_engine_tells_its_share_of_the_memory_limit_and_reuses_the_prefix() -> None:
    done = cutaway("bench", "--streams", "2", "--prompt-tokens", "48", "--new-tokens", "6", "--rounds", "1", "--json")
    assert done.returncode == 0, done.stderr.decode()
    run = json.loads(done.stdout)["run"]
    assert run["memory_bytes_per_s"] > 1e8
    assert 50e6 < run["step_bytes"] < 600e6
    [result] = run["streams"]
    assert result["decode"]["p50"] > 0
    weights_alone = 2 * run["memory_bytes_per_s"] / run["step_bytes"]  # a step reads them once for both streams
    assert 0.5 * weights_alone < result["limit"] < weights_alone
    assert run["follow_up"]["cached_tokens"] > 0.9 * run["follow_up"]["prompt_tokens"] > 1000
    assert run["follow_up"]["warm_ttft_ms"]["p50"] < run["follow_up"]["cold_ttft_ms"]["p50"]
