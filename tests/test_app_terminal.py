"""The program in a real pseudo-terminal: the whole way of a question, and how the terminal is left."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from .patience import PATIENCE
from .scripted_engine import COMMAND
from .terminal import Terminal

COLOUR = re.compile(rb"\x1b\[[\d;:]*m")


@pytest.fixture
def opened() -> Iterator[list[Terminal]]:
    """Terminals to be closed at the end, whatever happens."""
    terminals: list[Terminal] = []
    yield terminals
    for terminal in terminals:
        terminal.kill()


def start(opened: list[Terminal], *arguments: str, ready: str = "Enter sends", **options: object) -> Terminal:
    terminal = Terminal(*arguments, **options)  # pyright: ignore[reportArgumentType]
    opened.append(terminal)
    terminal.shows(ready)
    return terminal


def colours(raw: bytes) -> list[int]:
    """Every SGR parameter that sets a colour, the default colours included."""
    parts = [int(part) for code in COLOUR.findall(raw) for part in re.split(rb"[;:]", code[2:-1]) if part]
    return [part for part in parts if 30 <= part <= 49 or 90 <= part <= 107]


def test_start_ask_see_the_reply_stop_one_and_quit(opened: list[Terminal]) -> None:
    terminal = start(opened)
    terminal.ask("count 3")
    terminal.shows("✓ end · 3 tokens")
    assert "1 2 3" in terminal.text()
    terminal.ask("slowly forever")
    terminal.shows("1 2 3 4 5 6 7")
    terminal.send("\x1b")
    terminal.shows("■ stopped after")
    terminal.send("\x11")
    assert terminal.ended() == 0
    terminal.assert_left_as_found()


def test_te_08_no_color_writes_no_colour_at_all(opened: list[Terminal]) -> None:
    terminal = start(opened, env={"NO_COLOR": "1"}, size=(120, 40))
    terminal.ask("**bold** `code`")
    terminal.shows("✓ end")
    terminal.send("\x10")
    terminal.shows("Search")
    terminal.send("\x1b")
    terminal.send("\x11")
    assert terminal.ended() == 0
    assert colours(terminal.raw) == []
    assert COLOUR.search(terminal.raw) is not None  # bold and reverse are still there


def test_te_08_an_empty_no_color_is_none(opened: list[Terminal]) -> None:
    terminal = start(opened, env={"NO_COLOR": ""})
    terminal.send("\x11")
    assert terminal.ended() == 0
    assert colours(terminal.raw)


def test_te_08_a_dumb_terminal_gets_plain_lines(opened: list[Terminal]) -> None:
    terminal = start(opened, ready=">", env={"TERM": "dumb"})
    terminal.send("count 3\r")
    terminal.shows("1 2 3")
    terminal.send("\x04")
    assert terminal.ended() == 0
    assert b"\x1b[?1049h" not in terminal.raw


def test_te_10_old_style_mouse_bytes_are_survived(opened: list[Terminal]) -> None:
    terminal = start(opened)
    terminal.send(b"\x1b[M\x20\x82\x30")
    terminal.ask("count 3")
    terminal.shows("✓ end · 3 tokens")
    before = terminal.raw.count(b"\x1b[?1003h")
    assert before >= 2  # asked for again
    terminal.send("\x11")
    assert terminal.ended() == 0
    terminal.assert_left_as_found()


def test_te_11_a_program_that_was_held_and_let_go_goes_on_and_can_be_quit(opened: list[Terminal]) -> None:
    terminal = start(opened)
    os.kill(terminal.child.pid, signal.SIGSTOP)
    os.kill(terminal.child.pid, signal.SIGCONT)
    terminal.ask("count 3")
    terminal.shows("✓ end · 3 tokens")
    terminal.send("\x11")
    assert terminal.ended() == 0
    terminal.assert_left_as_found()


def test_te_11_a_program_sent_back_to_the_shell_gives_the_terminal_away_and_paints_everything_when_it_returns(
    opened: list[Terminal],
) -> None:
    terminal = start(opened)
    terminal.ask("count 3")
    terminal.shows("✓ end · 3 tokens")
    terminal.send("\x1b")
    terminal.shows("i writes")
    terminal.send("Z")
    process = psutil.Process(terminal.child.pid)
    terminal.until(lambda: process.status() == psutil.STATUS_STOPPED, "the program to be stopped")
    while terminal.read():
        pass
    assert not terminal.modes_left_on()
    terminal.screen.reset()  # what the shell leaves behind
    os.kill(terminal.child.pid, signal.SIGCONT)
    for words in ("✓ end · 3 tokens", "chat 1/1", "╰", "? keys", "1 chat  2 tokens"):
        terminal.shows(words)
    terminal.send("\x11")
    assert terminal.ended() == 0
    terminal.assert_left_as_found()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_te_11_a_signal_leaves_the_terminal_as_found_and_no_engine_behind(
    opened: list[Terminal], number: signal.Signals
) -> None:
    terminal = start(opened)
    terminal.ask("slowly forever")
    terminal.shows("1 2 3 4 5 6 7")
    engines = psutil.Process(terminal.child.pid).children(recursive=True)
    assert engines
    os.kill(terminal.child.pid, number)
    assert terminal.ended() == 128 + number
    terminal.assert_left_as_found()
    psutil.wait_procs(engines, timeout=PATIENCE)
    assert not [engine for engine in engines if engine.is_running() and engine.status() != psutil.STATUS_ZOMBIE]


def test_te_11_the_engine_killed_in_the_middle_of_a_reply_is_told_and_restarted(opened: list[Terminal]) -> None:
    terminal = start(opened, size=(120, 30))
    terminal.ask("slowly forever")
    terminal.shows("1 2 3 4 5 6 7")
    engine = psutil.Process(terminal.child.pid).children()[0]
    engine.send_signal(signal.SIGKILL)
    terminal.shows("✗ failed")
    terminal.shows("no engine")
    assert "1 2 3 4 5 6 7" in terminal.text()
    terminal.send("\x1b")
    terminal.shows("i writes")
    terminal.send("R")
    terminal.shows("scripted  cpu")
    terminal.send("i")
    terminal.ask("count 4")
    terminal.shows("✓ end · 4 tokens")
    terminal.send("\x11")
    assert terminal.ended() == 0
    terminal.assert_left_as_found()


def test_te_11_a_terminal_that_is_closed_takes_program_and_engine_with_it(opened: list[Terminal]) -> None:
    terminal = start(opened)
    program = psutil.Process(terminal.child.pid)
    everything = [program, *program.children(recursive=True)]
    terminal.child.ptyproc.fileobj.close()
    _, alive = psutil.wait_procs(everything, timeout=PATIENCE)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize("given", [b"count 3", b""])
def test_te_06_piped_input_is_answered_in_plain_text_and_never_hangs(given: bytes) -> None:
    command = [
        sys.executable,
        "-P",
        "-m",
        "cutaway.tui.cli",
        "chat",
        "--engine",
        " ".join(COMMAND),
        "--model",
        "scripted",
    ]
    done = subprocess.run(command, input=given, capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0
    assert b"\x1b" not in done.stdout
    assert done.stdout.startswith(b"1 2 3" if given else b"")


def test_a_terminal_that_goes_away_ends_the_program_though_nobody_passes_the_signal_on() -> None:
    leader, follower = os.openpty()
    # A process that leads no session is told nothing when the terminal closes.
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "cutaway.tui.cli", "chat", "--engine", shlex.join(COMMAND), "--model", "scripted"],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**os.environ, "TERM": "xterm-256color"},
    )
    os.close(follower)
    try:
        written = b""
        while b"Ctrl+J" not in written:
            written += os.read(leader, 65536)
        os.close(leader)
        assert child.wait(timeout=PATIENCE) == 128 + signal.SIGHUP
    finally:
        child.kill()
        child.wait()
