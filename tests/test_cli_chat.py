"""Ctrl+C, the line-by-line chat, and the models on this machine."""

from __future__ import annotations

import signal

import pexpect
import psutil

from .cli_run import ENGINE, cutaway, terminal
from .patience import PATIENCE


def children(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def test_ca_01_ctrl_c_stops_ask_keeps_what_came_and_exits_130():
    with terminal("ask", "--engine", ENGINE, "slowly forever") as child:
        child.expect("1 2 3 ")
        engines = children(child.pid)
        child.sendintr()
        child.expect(r"\[stopped\]")  # it would go on for ever
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
    with terminal("--plain", "--engine", ENGINE) as child:
        child.expect("> ")
        child.sendline("slowly forever")
        child.expect("1 2 3 ")
        child.sendintr()
        child.expect(r"\[stopped\]")
        child.expect("> ")
        child.sendline("recall")
        child.expect(r"user: slowly forever \| assistant: 1 2 3 [\d ]*\| user: recall")
        child.expect("> ")
        child.sendeof()
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 0


def test_the_chat_survives_a_refused_prompt_a_failed_step_and_a_dead_engine():
    with terminal("chat", "--plain", "--engine", ENGINE, "--window", "12") as child:
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
    with terminal("--plain", "--engine", ENGINE) as child:
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
