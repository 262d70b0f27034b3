"""`cutaway doctor`: everything looked at, what is wrong told with one thing to do, nothing private."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from cutaway.engine.protocol import Machine
from cutaway.tui.doctor import folders, machine, terminal
from cutaway.tui.doctor.findings import Finding, concealed, lines, private_names
from msgspec.structs import replace

from .cli_run import ENGINE, cutaway

UTF8 = {"PYTHONUTF8": "1", "TERM": "xterm-256color", "COLORTERM": "truecolor"}


def by_name(found: list[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in found}


@pytest.mark.model
def test_a_healthy_machine_is_told_in_full_with_measured_speeds() -> None:
    done = cutaway("doctor", "--json", env=UTF8)
    told = json.loads(done.stdout)
    found = {(f["group"], f["name"]): f for f in told["findings"]}
    wrong = [f for f in told["findings"] if f["state"] == "wrong"]
    assert (done.returncode, told["wrong"]) == (1 if wrong else 0, len(wrong))
    for name in ("system", "processor", "memory", "device", "kernels", "precision", "versions"):
        assert found["machine", name]["value"]
    for name in ("prefill", "decode"):
        assert "tokens a second" in found["measured", name]["value"]
    assert {name for group, name in found if group == "folders"} >= {"config", "data", "cache", "state", "hub cache"}
    assert found["terminal", "colours"]["value"] == "16 million"
    assert all(f["action"] for f in wrong)


def test_without_measuring_no_model_is_loaded_and_nothing_private_is_told(tmp_path: Path) -> None:
    home = tmp_path / "marianne"
    home.mkdir()
    env = {
        "HOME": str(home), "USER": "marianne", "LOGNAME": "marianne", "SSH_CONNECTION": "10.1.2.3 5 10.9.9.9 22",
        "HF_TOKEN": "hf_verysecret", "CUTAWAY_DATA_DIR": str(home / "data"), **UTF8,
    }  # fmt: skip
    text = cutaway("doctor", "--no-measure", "--engine", ENGINE, env=env).stdout.decode()
    groups = [line for line in text.splitlines() if line and not line.startswith(" ")][:-1]
    assert groups == ["machine", "terminal", "folders"]
    assert "tokens a second" not in text
    assert "torch" in text
    assert "~/data" in text
    for secret in ("marianne", "10.1.2.3", "hf_verysecret", *private_names()):
        assert secret not in text


def test_an_engine_that_can_not_be_started_is_a_finding_and_the_rest_is_told() -> None:
    done = cutaway("doctor", "--engine", "no-such-program", env=UTF8)
    text = done.stdout.decode()
    assert done.returncode == 1
    assert "no-such-program" in text
    assert "folders" in text
    assert "wrong: see what the arrows say" in text.splitlines()[-1]


def test_a_missing_model_is_told_and_not_fetched(tmp_path: Path) -> None:
    env = {**UTF8, "CUTAWAY_CACHE_DIR": str(tmp_path), "HF_HOME": str(tmp_path / "hf")}
    done = cutaway("doctor", "--json", "--precision", "float32", env=env)
    (speed,) = [f for f in json.loads(done.stdout)["findings"] if f["group"] == "measured"]
    assert speed["state"] == "wrong"
    assert "is not on this machine" in speed["value"]
    assert "cutaway models pull" in speed["action"]


def test_a_folder_that_can_not_be_written_says_which_and_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a-file"
    file.write_text("")
    monkeypatch.setenv("CUTAWAY_STATE_DIR", str(file / "state"))
    found = by_name(folders.look())
    assert found["state"].state == "wrong"
    assert "CUTAWAY_STATE_DIR" in found["state"].action
    assert found["cache"].state != "wrong"


def test_chats_that_others_can_read_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o755)
    monkeypatch.setenv("CUTAWAY_DATA_DIR", str(data))
    monkeypatch.setattr(folders, "_walled", lambda folder: False)
    assert "chmod 700" in by_name(folders.look())["data"].action
    data.chmod(0o700)
    assert by_name(folders.look())["data"].state == "ok"
    assert stat.S_IMODE(data.stat().st_mode) == 0o700


def test_a_damaged_store_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTAWAY_DATA_DIR", str(tmp_path))
    (tmp_path / "chats.db").write_bytes(b"")
    (tmp_path / "chats.damaged").touch()
    assert by_name(folders.look())["chats"].state == "wrong"


@pytest.mark.parametrize(
    ("env", "encoding", "name", "state", "said"),
    [
        ({"TERM": "dumb"}, "utf-8", "kind", "wrong", "cutaway chat --plain"),
        ({"TERM": "xterm-256color"}, "utf-8", "colours", "note", "COLORTERM=truecolor"),
        ({"TERM": "xterm", "NO_COLOR": "1"}, "utf-8", "colours", "ok", ""),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, "utf-8", "colours", "ok", ""),
        ({"TERM": "xterm"}, "ANSI_X3.4-1968", "characters", "wrong", "UTF-8 locale"),
        ({"TERM": "xterm"}, "UTF-8", "characters", "ok", ""),
        ({"TERM": "tmux-256color", "TMUX": "/tmp/x"}, "utf-8", "clipboard", "note", "set-clipboard"),
        ({"TERM": "xterm", "SSH_TTY": "/dev/pts/1", "DISPLAY": ":0"}, "utf-8", "clipboard", "note", "xclip"),
    ],
)
def test_what_a_terminal_lacks(env: dict[str, str], encoding: str, name: str, state: str, said: str) -> None:
    found = by_name(terminal.look(env, True, encoding))[name]
    assert found.state == state
    assert said in found.action


WELL = Machine(
    system="Linux 6 x86_64", processor="A Processor", cores=2, hardware_threads=4, instructions="AVX2",
    memory_bytes=16 << 30, available_bytes=8 << 30, device="cpu", precision="int8", kernels="cutaway int8 (AVX2)",
    compiler="g++ 13", versions={"cutaway": "1", "torch": "2"},
)  # fmt: skip


def test_what_a_machine_lacks_has_one_thing_to_do_each() -> None:
    assert all(finding.state != "wrong" for finding in machine.look(WELL))
    for change, name, said in (
        ({"available_bytes": 100 << 20}, "memory", "Close what takes it"),
        ({"kernels": "", "compiler": "", "kernels_problem": "no C++ compiler found"}, "kernels", "Install a C++"),
        ({"kernels": "", "kernels_problem": "g++ can't compile"}, "kernels", "Set CXX"),
        ({"device_problem": "there is an NVIDIA driver, but"}, "device", "Install torch"),
    ):
        found = by_name(machine.look(replace(WELL, **change)))[name]
        assert found.state == "wrong"
        assert said in found.action


def test_home_and_names_are_concealed_as_whole_words_only() -> None:
    home = Path("/home/ada")
    assert concealed("/home/ada/x and /home/adalbert and ada@box", home, ("ada", "box")) == (
        "~/x and /home/adalbert and …@…"
    )
    assert concealed("/data", Path("/"), ()) == "/data"


def test_the_report_as_it_was_looked_at() -> None:
    wrong = replace(WELL, kernels="", compiler="", kernels_problem="no C++ compiler found")
    env = {"TERM": "xterm-256color", "NO_COLOR": "1", "LANG": "C.UTF-8"}
    found = [*machine.look(wrong), terminal._colours(env), terminal._characters("UTF-8")]
    assert "\n".join(lines(found, 72)) == REPORT.strip("\n")


REPORT = """
machine
  ✓ system        Linux 6 x86_64
  ✓ processor     A Processor, 2 cores to use, 4 hardware threads
  ✓ instructions  AVX2
  ✓ memory        17.2 GB, 8.6 GB available
  ✓ device        cpu
  ✗ kernels       none: no C++ compiler found
                  → Install a C++ compiler (g++ or clang++): decoding is
                    then several times faster.
  ✓ precision     int8 where none is asked for
  ✓ versions      cutaway 1, torch 2
  ✓ libraries

terminal
  ✓ colours       none: NO_COLOR is set
  ✓ characters    UTF-8
"""


def test_the_report_wraps_to_the_terminal_and_not_into_a_pipe() -> None:
    found = [Finding("g", "name", "word " * 40, "wrong", "do " * 40)]
    assert max(map(len, lines(found, 80))) <= 80
    assert len(lines(found)) == 3
