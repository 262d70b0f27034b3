"""Help, version and shell completion: what a person finds out without reading anything else."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from cutaway.tui.cli import COMMANDS, cli
from cutaway.tui.state.conversation import Reply
from cutaway.tui.store import opening
from cutaway.tui.store.chats import ChatStore

from .cli_run import CUTAWAY, cutaway

TALKATIVE = [name for name in COMMANDS if name != "engine"]


def completed(words: str, shell: str = "bash", **env: str) -> list[str]:
    """What is offered for the last of these words."""
    parts = words.split(" ")
    asked = {"_CUTAWAY_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(parts) - 1), **env}
    done = cutaway(env=asked)
    assert done.stderr == b""
    return [line for line in done.stdout.decode().splitlines() if line]


@pytest.mark.parametrize("name", TALKATIVE)
def test_every_command_has_a_help_with_examples_that_it_understands(name: str) -> None:
    command: click.Command = importlib.import_module(f"cutaway.tui.commands.{name}").command
    done = CliRunner().invoke(command, ["--help"], prog_name=f"cutaway {name}", terminal_width=100)
    assert done.exit_code == 0
    assert "Examples:" in done.output
    context = click.Context(command, info_name=name)
    known = {flag for param in command.get_params(context) for flag in param.opts + param.secondary_opts}
    if isinstance(command, click.Group):
        subcommands = [command.commands[n] for n in command.commands]
        known |= {flag for sub in subcommands for p in sub.get_params(context) for flag in p.opts + p.secondary_opts}
    for line in done.output.split("Examples:")[1].splitlines():
        if f"cutaway {name} " in line:
            used = [word for word in line.split(f"cutaway {name} ")[1].split() if word.startswith("--")]
            assert set(used) <= known, line


def test_the_main_help_tells_where_things_are_kept_and_what_the_exit_codes_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("CACHE", "CONFIG", "DATA", "STATE"):
        monkeypatch.delenv(f"CUTAWAY_{kind}_DIR", raising=False)
    for kind in ("CACHE", "CONFIG", "DATA", "STATE"):
        monkeypatch.delenv(f"XDG_{kind}_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    text = CliRunner().invoke(cli, ["--help"], prog_name="cutaway").output
    assert "~/.cache/cutaway" in text or "~/Library/Caches/cutaway" in text
    assert str(tmp_path) not in text
    for needed in ("CUTAWAY_DATA_DIR", "130 interrupted", 'cutaway ask "Why is the sky blue?"', *COMMANDS):
        assert needed in text


def test_version_is_told() -> None:
    assert cutaway("--version").stdout.decode().split()[0] == "cutaway"


def test_commands_flags_and_choices_are_completed() -> None:
    assert {line.split(",")[1] for line in completed("cutaway ")} == set(COMMANDS)
    assert completed("cutaway mod") == ["plain,models"]
    assert completed("cutaway models p") == ["plain,path", "plain,pull"]
    assert completed("cutaway --mode") == ["plain,--model"]
    assert "plain,--seed" in completed("cutaway ask --s")
    assert completed("cutaway completion f") == ["plain,fish"]


def test_models_are_completed_and_files_where_no_model_is_meant(tmp_path: Path) -> None:
    assert "plain,Qwen/Qwen3-0.6B" in completed("cutaway --model Qw")
    assert completed("cutaway chat --model ./") == ["file,./"]
    assert completed("cutaway models remove zzz") == []


def test_chats_are_completed_by_key_and_by_a_word_of_their_title() -> None:
    assert completed("cutaway chats show ") == []
    store = ChatStore(opening.path())
    keys = []
    for title in ("why is the sky blue?", "name three sea birds"):
        conversation = store.create()
        conversation.add("user", title)
        conversation.add("assistant", "-", reply=Reply("", status="end"))
        store.save(conversation)
        keys.append(conversation.key)
    assert store.end() == ""
    assert completed("cutaway chats show ") in ([f"plain,{keys[1]}", f"plain,{keys[0]}"], [f"plain,{k}" for k in keys])
    assert completed(f"cutaway chats show {keys[0][:5]}") == [f"plain,{keys[0]}"]
    assert completed("cutaway ask -c birds", "zsh") == ["plain", keys[1], "name three sea birds"]


def test_a_damaged_store_completes_nothing_and_says_nothing() -> None:
    opening.path().parent.mkdir(parents=True, exist_ok=True)
    opening.path().write_bytes(b"not a database" * 100)
    assert completed("cutaway chats show ") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_one_that_the_shell_reads(shell: str, tmp_path: Path) -> None:
    done = cutaway("completion", shell)
    assert done.returncode == 0
    assert b"_CUTAWAY_COMPLETE" in done.stdout
    program = shutil.which(shell)
    if program is not None:  # where the shell is there, it must take the script
        file = tmp_path / "script"
        file.write_bytes(done.stdout)
        read = subprocess.run([program, "-n", str(file)], capture_output=True, check=False)
        assert read.returncode == 0, read.stderr


def test_bash_completes_with_the_script(tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("there is no bash here")
    program = tmp_path / "cutaway"
    program.write_text(f'#!/bin/sh\nexec {" ".join(CUTAWAY)} "$@"\n')
    program.chmod(0o755)
    script = (
        f'PATH="{tmp_path}:$PATH"; source <(cutaway completion bash); '
        "COMP_WORDS=(cutaway mod); COMP_CWORD=1; _cutaway_completion cutaway; echo ${COMPREPLY[@]}"
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=False)
    assert done.stdout.split() == [b"models"], done.stderr


def test_fish_shows_the_whole_of_what_is_said_of_a_command(tmp_path: Path) -> None:
    script = cutaway("completion", "fish").stdout
    assert b'string split "," ' not in script  # it would cut at the first comma of the sentence, too
    assert script.count(b'string split --max 1 "," ') == 1
    fish = shutil.which("fish")
    if fish is None:
        return
    program = tmp_path / "cutaway"
    program.write_text(f'#!/bin/sh\nexec {" ".join(CUTAWAY)} "$@"\n')
    program.chmod(0o755)
    (tmp_path / "script").write_bytes(script)
    line = f'set -x PATH {tmp_path} $PATH; source {tmp_path}/script; complete -C"cutaway chats l"'
    done = subprocess.run(
        [fish, "-c", line], capture_output=True, check=False, env={**os.environ, "HOME": str(tmp_path)}
    )
    assert done.stdout.decode().startswith("list\tList the chats, the one changed last first."), done.stderr


@pytest.mark.parametrize("name", ["settings", "chats", "models"])
def test_what_a_group_holds_is_told_in_whole_sentences(name: str) -> None:
    told = cutaway(name, "--help").stdout.decode().partition("Commands:")[2]
    assert told.strip()
    assert "..." not in told
