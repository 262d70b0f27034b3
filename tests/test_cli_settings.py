"""`cutaway settings`, and what settings, presets and templates do to the other commands."""

from __future__ import annotations

import os
from pathlib import Path

import pexpect
import pytest
from cutaway.tui.settings.document import load
from cutaway.tui.settings.schema import SETTINGS

from .cli_run import ENGINE, ask, cutaway, terminal


@pytest.fixture
def file() -> Path:
    """The settings file of this test, empty so far."""
    path = Path(os.environ["CUTAWAY_CONFIG_DIR"]) / "settings.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    return path


def said(*args: str, **env: str) -> str:
    done = cutaway(*args, env=env)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


# ----------------------------------------------------------------------------------------------- settings


def test_every_setting_is_listed_with_where_its_value_comes_from(file: Path) -> None:
    file.write_text("[sampling]\ntemperature = 0.25\n[presets.p]\n")
    rows = {line.split()[0]: line.split()[1:] for line in said("settings", CUTAWAY_THREADS="2").splitlines()}
    assert {setting.name for setting in SETTINGS} <= set(rows)
    assert rows["temperature"] == ["0.25", "file"]
    assert rows["threads"] == ["2", "CUTAWAY_THREADS"]
    assert rows["top_p"] == ["1", "default"]
    assert rows["[presets]"] == ["p"]


def test_settings_are_set_read_and_unset_and_comments_stay(file: Path) -> None:
    file.write_text("# mine\n[sampling]\ntop_k = 3 # few\n")
    cutaway("settings", "set", "temperature", "0,5")
    cutaway("settings", "set", "presets.coder.system", "Be\nexact.")
    cutaway("settings", "set", "keys.quit", "ctrl+x Q")
    cutaway("settings", "set", "templates.t.text", "Say {x}")
    cutaway("settings", "set", "servers.box.url", "http://box/v1")
    cutaway("settings", "set", "servers.box.gap_limit_s", "900")
    assert file.read_text().startswith("# mine\n[sampling]\ntop_k = 3 # few\ntemperature = 0.5\n")
    read = load(file)
    assert read.problems == ()
    assert read.presets == {"coder": {"system": "Be\nexact."}}
    assert read.keys == {"quit": ("ctrl+x", "Q")}
    for name, value in (("temperature", "0.5"), ("presets.coder.system", "Be\nexact."), ("keys.quit", "ctrl+x Q"),
                        ("templates.t.text", "Say {x}"), ("servers.box.url", "http://box/v1"),
                        ("servers.box.gap_limit_s", "900")):  # fmt: skip
        assert said("settings", "get", name) == f"{value}\n"
    cutaway("settings", "unset", "sampling.temperature")
    assert said("settings", "get", "temperature") == "0.7\n"


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("set", "temperature", "-1"), "temperature must be a number from 0 (greedy) up, not '-1'."),
        (("set", "temprature", "1"), "there is no setting 'temprature'. Did you mean temperature?"),
        (("get", "presets.p.temprature"), "[presets.p] has no 'temprature'. Did you mean temperature?"),
        (("set", "keys.regenrate", "x"), "there is no action 'regenrate'. Did you mean regenerate?"),
        (("set", "keys.quit", "ctrl+nothing"), "is no key"),
        (("set", "servers.box.url", "box"), "must begin with http://"),
        (("set", "servers.box.gap_limit_s", "soon"), "gap_limit_s must be"),
        (("set", "presets", "x"), "presets.NAME.KEY"),
        (("get", "presets.p.system"), "presets.p.system is not set."),
    ],
)
def test_what_can_not_be_set_is_told_and_the_file_stays(file: Path, args: tuple[str, ...], sentence: str) -> None:
    done = cutaway("settings", *args)
    assert done.returncode == 2
    assert sentence in done.stderr.decode()
    assert file.read_text() == ""


def test_path_and_schema_are_printed(file: Path) -> None:
    assert said("settings", "path") == f"{file}\n"
    assert "# temperature = 0.7\n" in said("settings", "schema")


def test_the_actions_are_listed_with_their_keys_and_what_is_wrong_with_them(file: Path) -> None:
    file.write_text('[keys]\nquit = "ctrl+x"\nfly = "f"\n')
    done = cutaway("settings", "keys")
    rows = [line.split() for line in done.stdout.decode().splitlines()]
    assert ["quit", "Ctrl+X", "Quit"] in rows
    assert "line 3: there is no action 'fly'" in done.stderr.decode()


# ------------------------------------------------------------------------------------- what they do to others


def test_file_variable_and_flag_win_in_this_order(file: Path) -> None:
    assert ask("count 9").stdout == b"1 2 3 4 5 6 7 8 9 \n"
    file.write_text("[sampling]\nmax_tokens = 2\n")
    assert ask("count 9").stdout == b"1 2 \n"
    env = {"CUTAWAY_MAX_TOKENS": "3"}
    assert ask("count 9", env=env).stdout == b"1 2 3 \n"
    assert ask("count 9", "--max-tokens", "4", env=env).stdout == b"1 2 3 4 \n"


def test_a_wrong_file_never_stops_the_start_and_a_wrong_variable_is_named(file: Path) -> None:
    file.write_text('[chat]\nsystem = "@gone.txt"\npreset = "gone"\n[sampling]\nmax_tokens = 0\n[engine]\nthreads = -1')
    done = ask("count 2")
    assert (done.returncode, done.stdout) == (0, b"1 2 \n")
    for sentence in ("line 5: max_tokens must be", "line 7: threads must be", "gone.txt", "no preset 'gone'"):
        assert sentence in done.stderr.decode()
    file.write_text("[[[")
    assert ask("count 2").stdout == b"1 2 \n"
    done = ask("count 2", env={"CUTAWAY_STOP_IDS": "x"})
    assert done.returncode == 2
    assert "CUTAWAY_STOP_IDS: stop_ids must be token ids of this model, not 'x'." in done.stderr.decode()


def test_fr_02_servers_have_names_in_the_file(file: Path) -> None:
    file.write_text('[engine]\nserver = "none-here"\nmodel = "./mine"\n[servers.here]\nurl = "http://127.0.0.1:9/v1"\n')
    done = ask("count 2")
    assert done.stdout == b"1 2 \n"  # the flag --engine wins over a server in the file
    assert "line 2: there is no server 'none-here'" in done.stderr.decode()
    done = cutaway("ask", "--server", "here", "hi")
    assert done.returncode != 0
    assert "127.0.0.1:9" in done.stderr.decode()
    done = cutaway("ask", "--server", "her", "hi")
    assert done.returncode == 2
    assert "Did you mean 'here'?" in done.stderr.decode()


def test_a_preset_brings_its_system_prompt_and_flags_still_win(file: Path) -> None:
    file.write_text('[presets.short]\nsystem = "be brief"\nmax_tokens = 2\n')
    assert ask("--preset", "short", "recall").stdout == b"system: be brief | user: recall\n"
    assert ask("--preset", "short", "count 9").stdout == b"1 2 \n"
    assert ask("--preset", "short", "--max-tokens", "3", "count 9").stdout == b"1 2 3 \n"
    assert ask("count 9", env={"CUTAWAY_PRESET": "short"}).stdout == b"1 2 \n"
    done = ask("--preset", "shirt", "hi")
    assert done.returncode == 2
    assert "there is no preset 'shirt'. Did you mean short?" in done.stderr.decode()


TEMPLATE = '[templates.translate]\ntext = "recall {language}: {text} {{}}"\n'


@pytest.mark.parametrize(
    ("args", "stdin"),
    [
        (("-f", "language=French", "-f", "text=hi you"), None),
        (("-f", "language=French", "hi", "you"), None),
        (("-f", "language=French"), b"hi you\n"),
        (("-f", "text=@hi.txt", "-f", "language=French"), None),
    ],
)
def test_a_template_is_filled_by_fields_by_the_question_or_by_a_pipe(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], stdin: bytes | None
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hi.txt").write_text("hi you")
    file.write_text(TEMPLATE)
    done = ask("--template", "translate", *args, stdin=stdin)
    assert done.stdout == b"user: recall French: hi you {}\n"


def test_what_is_asked_beside_a_full_template_comes_below_it(file: Path) -> None:
    file.write_text(TEMPLATE)
    done = ask("--template", "translate", "-f", "language=French", "-f", "text=a", "and b")
    assert done.stdout == b"user: recall French: a {}\n\nand b\n"


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("--template", "translate"), "the template needs the fields language, text."),
        (("--template", "translate", "-f", "lang=x", "-f", "text=a", "b"), "no field 'lang'. Did you mean language?"),
        (("--template", "translat"), "there is no template 'translat'. Did you mean translate?"),
        (("--template", "translate", "-f", "x"), "-f needs FIELD=VALUE, not 'x'."),
        (("-f", "x=y", "hi"), "name one with --template"),
    ],
)
def test_what_is_wrong_with_a_template_is_named(file: Path, args: tuple[str, ...], sentence: str) -> None:
    file.write_text(TEMPLATE)
    done = ask(*args)
    assert done.returncode == 2
    assert sentence in done.stderr.decode()


def test_missing_fields_are_asked_for_at_a_terminal(file: Path) -> None:
    file.write_text(TEMPLATE)
    with terminal("ask", "--engine", ENGINE, "--template", "translate") as child:
        child.expect("language: ")
        child.sendline("French")
        child.expect("text: ")
        child.sendline("hi")
        child.expect("user: recall French: hi {}")
        child.expect(pexpect.EOF)


def test_a_chat_that_goes_on_keeps_its_own_system_prompt(file: Path) -> None:
    with terminal("--engine", ENGINE, "--system", "first") as child:
        child.expect("Ask something")
        child.send("recall\r")
        child.expect("system: first")
        child.send("\x11")
        child.expect(pexpect.EOF)
    file.write_text('[chat]\nsystem = "second"\n[presets.p]\nsystem = "third"\n')
    assert ask("-c", "last", "recall").stdout.startswith(b"system: first | ")
    assert ask("-c", "last", "--preset", "p", "recall").stdout.startswith(b"system: third | ")
    assert ask("recall").stdout == b"system: second | user: recall\n"


def test_chats_are_not_kept_where_the_settings_say_so(file: Path) -> None:
    file.write_text("[privacy]\nkeep_chats = false\n")
    with terminal("--engine", ENGINE) as child:
        child.expect("Chats are not kept")
        child.send("count 2\r")
        child.expect_exact("end · 2 tokens".encode())
        child.send("\x11")
        child.expect(pexpect.EOF)
    assert cutaway("chats").stderr == b"No chat found.\n"
    state = Path(os.environ["CUTAWAY_STATE_DIR"])
    assert not (state / "prompts.jsonl").exists()
    assert b"give --keep-chats too" in cutaway("chat", "-c", "--engine", ENGINE).stderr


def test_an_action_whose_keys_are_not_set_has_its_usual_ones(file: Path) -> None:
    assert said("settings", "get", "keys.quit") == "ctrl+q\n"


def test_keys_may_be_set_as_the_file_writes_them(file: Path) -> None:
    said("settings", "set", "keys.maximise", '["f11", "z"]')
    assert load(file).keys["maximise"] == ("f11", "z")
    assert said("settings", "get", "keys.maximise") == "f11 z\n"
    said("settings", "set", "keys.maximise", "[]")
    assert load(file).keys["maximise"] == ()
    refused = cutaway("settings", "set", "keys.maximise", '["nokey!"]')
    assert (refused.returncode, load(file).keys["maximise"]) == (2, ())
