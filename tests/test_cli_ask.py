"""`cutaway ask`, as scripts and terminals see it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from .cli_run import CUTAWAY, ENGINE, ask, cutaway, terminal
from .patience import LONG, PATIENCE

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


def test_a_sentence_that_begins_with_at_is_no_file_however_long_it_is_and_whosever_home_it_names():
    for words in ("@~nobody-at-all look", "@" + "very long " * 40):
        assert ask(words).stdout.decode() == f"You said: {' '.join(words.split())}\n"


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


@pytest.mark.parametrize("closed", [">&-", "<&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_no_error(closed: str, tmp_path: Path) -> None:
    trace = tmp_path / "run.trace"
    command = shlex.join([*CUTAWAY, "ask", "--engine", ENGINE, "--trace", str(trace), "count 3"])
    done = subprocess.run(f"{command} {closed}", shell=True, capture_output=True, timeout=LONG)
    assert done.returncode == 0
    assert done.stdout == (b"" if closed.count(">&-") > closed.count("2>&-") else b"1 2 3 \n")
    assert b"Traceback" not in done.stderr
    assert b"1 2 3" in cutaway("replay", "--instant", str(trace)).stdout  # no file has taken a closed stream's place


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
    assert ask("count 4", "-n", "2", "--trace", str(file)).returncode == 0
    done = cutaway("replay", "--instant", str(file))
    assert done.returncode == 0
    assert done.stdout == b"--- ask ---\ncount 4\n1 2 3 4 \n--- 2 of 2 ---\n1 2 3 4 \n"
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
