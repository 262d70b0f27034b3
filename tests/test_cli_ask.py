"""`cutaway ask` and the line-by-line chat, as a shell and a terminal see them."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pexpect
import psutil
import pytest

from .scripted_engine import COMMAND
from .talking import PATIENCE

ENGINE = shlex.join(COMMAND)
CUTAWAY = [sys.executable, "-m", "cutaway.tui.cli"]


def cutaway(*args: str, stdin: bytes | None = None, env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    """Run to the end, with nothing on standard input unless it is given."""
    given = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    return subprocess.run(
        [*CUTAWAY, *args], capture_output=True, timeout=PATIENCE, env={**os.environ, **(env or {})}, **given
    )


def ask(*args: str, stdin: bytes | None = None, env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    return cutaway("ask", "--engine", ENGINE, *args, stdin=stdin, env=env)


@contextlib.contextmanager
def terminal(*args: str, env: dict[str, str] | None = None) -> Iterator[pexpect.spawn]:
    """Run in a real pseudo-terminal."""
    child = pexpect.spawn(
        CUTAWAY[0],
        [*CUTAWAY[1:], *args],
        timeout=PATIENCE,
        env={**os.environ, "TERM": "xterm", **(env or {})},  # pyright: ignore[reportArgumentType]
        dimensions=(24, 200),
        echo=False,
    )
    try:
        yield child
    finally:
        child.close(force=True)


# -------------------------------------------------------------------------------------------------- the question


def test_the_reply_goes_to_stdout_and_everything_else_to_stderr():
    done = ask("count", "5")
    assert done.returncode == 0
    assert done.stdout == b"1 2 3 4 5 \n"
    assert done.stderr == "loading the default model …\n".encode()


def test_the_question_is_the_argument_then_what_was_piped_in():
    done = ask("recall", "--system", "be brief", stdin=b"from a pipe\n")
    assert done.stdout == b"system: be brief | user: recall\n\nfrom a pipe\n"


@pytest.mark.parametrize("args", [("ask",), ("ask", "--engine", ENGINE, "", "  ")])
def test_te_06_no_question_is_wrong_usage_and_never_a_hang(args):
    done = cutaway(*args)
    assert done.returncode == 2
    assert b"There is no question" in done.stderr


def test_te_06_an_open_stdin_that_stays_silent_is_not_waited_for_when_there_is_a_question(tmp_path):
    master, slave = os.openpty()  # not a pipe, not a file: a service's console
    try:
        done = subprocess.run(
            [*CUTAWAY, "ask", "--engine", ENGINE, "count 1"], stdin=slave, capture_output=True, timeout=PATIENCE
        )
    finally:
        os.close(master)
        os.close(slave)
    assert done.stdout == b"1 \n"


def test_te_06_chat_with_piped_input_answers_it_and_leaves():
    done = cutaway("--engine", ENGINE, stdin=b"count 2")
    assert (done.returncode, done.stdout) == (0, b"1 2 \n")
    done = cutaway("--engine", ENGINE)
    assert (done.returncode, done.stdout) == (0, b"")


def test_invalid_utf_8_is_replaced_and_that_is_said():
    done = ask(stdin=b"caf\xe9 \xff")
    assert done.returncode == 0
    assert done.stdout.decode() == "You said: caf\ufffd \ufffd\n"
    assert "not all UTF-8" in done.stderr.decode()
    assert "2 times" in done.stderr.decode()


def test_a_byte_order_mark_is_not_part_of_the_question():
    assert ask(stdin=b"\xef\xbb\xbfhi").stdout == b"You said: hi\n"


# ----------------------------------------------------------------------------------------------------- the reply


def test_st_04_a_reply_cut_by_the_limit_says_so():
    done = ask("count 20", "--max-tokens", "5")
    assert done.returncode == 0
    assert done.stdout == b"1 2 3 4 5 \n"
    assert done.stderr.decode().splitlines()[-1] == "[cut at 5 tokens]"


def test_several_samples_come_one_after_the_other():
    done = ask("count 3", "-n", "3")
    assert done.stdout == b"1 2 3 \n--- 2 of 3 ---\n1 2 3 \n--- 3 of 3 ---\n1 2 3 \n"


def test_a_pipe_gets_the_reply_as_it_is_and_no_codes_of_ours():
    done = ask("raw ✓\\x1b[2J\\r\\n")
    assert done.stdout == "✓\x1b[2J\r\n".encode()


def test_sa_05_json_lines_are_strict_and_hold_every_event():
    def refuse(word: str) -> float:
        raise AssertionError(f"{word} is not JSON")

    done = ask("count 2", "--json")
    events = [json.loads(line, parse_constant=refuse) for line in done.stdout.decode().splitlines()]
    kinds = [event["event"] for event in events]
    assert kinds[0] == "loadprogress"
    assert {"ready", "configured", "promptrendered", "step", "textdelta", "finished"} <= set(kinds)
    sampled = next(event for event in events if event["event"] == "step" and event.get("sampled"))["sampled"][0]
    assert sampled["candidates"][1]["logit"] is None


def test_stats_tell_load_cache_first_token_gaps_and_both_speeds():
    done = ask("count 30", "--stats")
    assert done.stdout.count(b"\n") == 1
    said = done.stderr.decode()
    for word in ("load ", "from the prefix cache", "TTFT ", "prompt speed", "ITL ", "p95", "reply speed", "30 tokens"):
        assert word in said


def test_a_trace_can_be_recorded_and_played_back(tmp_path):
    file = tmp_path / "a.trace"
    assert ask("count 4", "--trace", str(file)).returncode == 0
    done = cutaway("replay", "--instant", str(file))
    assert done.returncode == 0
    assert "1 2 3 4 " in done.stdout.decode()
    done = cutaway("replay", str(tmp_path / "none"))
    assert done.returncode == 1
    assert "none can't be read: No such file" in done.stderr.decode()


def test_re_06_no_control_byte_of_a_reply_reaches_a_terminal():
    with terminal("ask", "--engine", ENGINE, r"raw A\x1b]52;c;SEk=\x07B\x1b[2JC\x9b31mD\x1bcE") as child:
        child.expect(pexpect.EOF)
        shown = child.before.replace(b"\r\n", b"\n")
    assert "A␛]52;c;SEk=␇B␛[2JC⟨U+009B⟩31mD␛cE" in shown.decode()
    ours = shown.replace(b"\r", b"")  # of the progress line
    assert not [byte for byte in ours if (byte < 32 and byte != 10) or byte == 127]


def test_json_on_a_terminal_holds_no_control_character():
    with terminal("ask", "--json", "--engine", ENGINE, r"raw \x1b[2J\x9b31m") as child:
        child.expect(pexpect.EOF)
        shown = child.before
    assert b"\\u009b" in shown
    assert b"\x1b" not in shown
    assert "\x9b".encode() not in shown


@pytest.mark.parametrize("locale", ["C", "en_US.ISO-8859-1", "C.UTF-8"])
def test_pe_08_any_locale_shows_a_reply_and_the_help_and_writes_files_in_utf_8(locale, tmp_path):
    env = {"LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert ask(r"raw \u2713 \u2192", env=env).stdout == "✓ →\n".encode()
    assert cutaway("--help", env=env).returncode == 0
    assert cutaway("ask", "--help", env=env).returncode == 0
    if locale == "C":
        with terminal("ask", "--engine", ENGINE, r"raw \u2713 \u2192 caf\xe9", env=env) as child:
            child.expect(pexpect.EOF)
            assert b"v -> cafe\r\n" in child.before


# --------------------------------------------------------------------------------------------------- bad endings


@pytest.mark.parametrize(
    ("args", "code", "sentence"),
    [
        (("--temperature", "hot", "hi"), 2, "temperature must be a number from 0 (greedy) up, not 'hot'."),
        (("--temperature", "nan", "hi"), 2, "temperature must be a number"),
        (("--logit-bias", "5", "hi"), 2, "logit_bias must be ID=NUMBER, not '5'."),
        (("--stop", "", "hi"), 2, "stop must be up to 64 strings, none of them empty"),
        (("--temprature", "1", "hi"), 2, "--temperature"),
        (("--model", "missing", "hi"), 3, "There is no model called missing. Try another."),
        (("--model", "huge", "hi"), 3, "There was not enough memory for loading huge."),
        (("--window", "3", "a b c d"), 4, "The prompt has 4 tokens and the model's window is 3. Shorten it."),
        (("die",), 5, "The engine was killed, most likely because memory ran out."),
        (("fail",), 1, "[failed: A step failed with an unexpected RuntimeError.]"),
        (("--trace", "/no/such/folder/a", "hi"), 1, "can't be written"),
    ],
)
def test_what_goes_wrong_is_one_clear_sentence_and_an_exit_code(args, code, sentence):
    done = ask(*args)
    said = done.stderr.decode()
    assert done.returncode == code
    assert sentence in said
    assert "Traceback" not in said


def test_debug_shows_the_traceback():
    done = cutaway("--debug", "ask", "--engine", ENGINE, "fail")
    assert "RuntimeError: a kernel is broken" in done.stderr.decode()


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("aks",), "Did you mean 'ask'?"),
        (("fly",), "There are chat, ask"),
        (("modles", "list"), "Did you mean 'models'"),
    ],
)
def test_an_unknown_command_names_the_nearest(args, sentence):
    done = cutaway(*args)
    assert done.returncode == 2
    assert sentence in done.stderr.decode()


def test_an_engine_that_is_none_is_named():
    done = cutaway("ask", "--engine", "no-such-program", "hi")
    assert done.returncode == 5
    assert "'no-such-program' was not found" in done.stderr.decode()
    done = cutaway("ask", "--engine", "echo Welcome to the box", "hi")
    assert done.returncode == 5
    assert "'Welcome to the box'" in done.stderr.decode()


def test_a_reader_that_leaves_ends_it_quietly():
    child = subprocess.Popen(
        [*CUTAWAY, "ask", "--engine", ENGINE, "slowly forever"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stderr is not None
    assert child.stdout.read(4) == b"1 2 "
    child.stdout.close()
    assert child.wait(PATIENCE) == 1
    assert b"Traceback" not in child.stderr.read()
    child.stderr.close()


def test_the_version_needs_neither_torch_nor_the_screen():
    code = (
        "import sys; from cutaway.tui import cli; code = cli.run(['--version']);"
        "print(code, [m for m in ('torch', 'textual', 'asyncio', 'msgspec') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"


def test_the_engine_command_tells_a_person_that_it_is_for_programs():
    with terminal("engine") as child:
        child.expect("speaks with programs")
        child.expect(pexpect.EOF)


# -------------------------------------------------------------------------------------------------------- Ctrl+C


def children(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def test_ca_01_ctrl_c_stops_ask_keeps_what_came_and_exits_130():
    with terminal("ask", "--engine", ENGINE, "slowly forever") as child:
        child.expect("1 2 3 ")
        engines = children(child.pid)
        pressed = time.monotonic()
        child.sendintr()
        child.expect(r"\[stopped\]")
        assert time.monotonic() - pressed < 2.0
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 130
    gone, alive = psutil.wait_procs(engines, PATIENCE)
    assert gone
    assert not alive


def test_ctrl_c_during_the_load_exits_130_and_leaves_nothing():
    with terminal("ask", "--engine", ENGINE, "--model", "slow", "hi") as child:
        child.expect("reading weights")
        engines = children(child.pid)
        child.sendintr()
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 130
    assert not psutil.wait_procs(engines, PATIENCE)[1]


def test_ca_01_ctrl_c_in_the_chat_stops_only_the_reply_and_the_next_message_knows_of_it():
    with terminal("--engine", ENGINE) as child:
        child.expect("> ")
        child.sendline("slowly forever")
        child.expect("1 2 3 ")
        pressed = time.monotonic()
        child.sendintr()
        child.expect(r"\[stopped\]")
        assert time.monotonic() - pressed < 0.5
        child.expect("> ")
        child.sendline("recall")
        child.expect(r"user: slowly forever \| assistant: 1 2 3 [\d ]*\| user: recall")
        child.expect("> ")
        child.sendeof()
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 0


def test_the_chat_survives_a_refused_prompt_a_failed_step_and_a_dead_engine():
    with terminal("chat", "--engine", ENGINE, "--window", "12") as child:
        child.expect("> ")
        child.sendline("a b c d e f g h i j k l m")
        child.expect("The prompt has 13 tokens and the model's window is 12")
        child.expect("> ")
        child.sendline("fail")
        child.expect(r"one two  \[failed: A step failed")
        child.expect("> ")
        child.sendline("die")
        child.expect("The engine was killed")
        child.expect("Starting the engine again")
        child.expect("> ")
        child.sendline("recall")
        child.expect(r"user: fail \| assistant: one two  \| user: die .*\| user: recall")
        child.expect("> ")
        child.sendintr()
        child.expect(pexpect.EOF)


def test_an_engine_killed_while_the_chat_waits_is_noticed_at_the_next_message():
    with terminal("--engine", ENGINE) as child:
        child.expect("> ")
        (engine,) = children(child.pid)
        engine.send_signal(signal.SIGKILL)
        child.sendline("count 2")
        child.expect("The engine was killed")
        child.expect("> ")
        child.sendline("count 3")
        child.expect("1 2 3 ")


# -------------------------------------------------------------------------------------------------------- models


def test_models_are_listed_found_and_removed(tmp_path):
    env = {"CUTAWAY_CACHE_DIR": str(tmp_path), "HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    done = cutaway("models", env=env)
    assert (done.returncode, done.stdout) == (0, b"")
    assert "No model is on this machine yet" in done.stderr.decode()
    for action in ("path", "remove"):
        done = cutaway("models", action, *(["--yes"] if action == "remove" else []), env=env)
        assert done.returncode == 3
        assert "the default model" in done.stderr.decode()
    done = cutaway("models", "remove", env=env, stdin=b"n\n")
    assert done.returncode == 1
    done = cutaway("models", "path", str(tmp_path / "none.gguf"), env=env)
    assert done.returncode == 3
    assert "none.gguf" in done.stderr.decode()


def test_an_unknown_action_on_models_names_the_nearest():
    done = cutaway("models", "pul")
    assert done.returncode == 2
    assert "Did you mean 'pull'?" in done.stderr.decode()
