"""`cutaway chats`, `cutaway ask -c` and `@file`, as a shell sees them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cutaway.tui.state.conversation import Reply
from cutaway.tui.store import opening
from cutaway.tui.store.chats import ChatStore
from cutaway.tui.store.records import is_key, new_key

from .cli_run import CUTAWAY, ENGINE, ask, cutaway


@pytest.fixture
def key() -> str:
    """A kept chat with an edited question; its key."""
    store = ChatStore(opening.path())
    conversation = store.create("be brief")
    question = conversation.add("user", "why is the sky blue?")
    conversation.add("assistant", "scattering ✓", reply=Reply("", status="end", model="gone-1b"))
    store.save(conversation)
    conversation.branch(question, "why is the sea blue?")
    conversation.show(question)
    store.save(conversation)
    assert store.end() == ""
    return conversation.key


def chats(*args: str, **more: object) -> tuple[int, str, str]:
    done = cutaway("chats", *args, **more)  # pyright: ignore[reportArgumentType]
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_no_chats_are_said_and_not_shown_as_nothing() -> None:
    assert chats() == (0, "", "No chat found.\n")
    assert chats("show")[::2] == (1, "cutaway: There is no chat yet.\n")


def test_list_show_and_search(key: str) -> None:
    code, out, _ = chats("list")
    assert (code, out.split()[0]) == (0, key)
    assert out.rstrip().endswith("3  why is the sky blue?")
    assert json.loads(chats("list", "--json")[1])["key"] == key
    assert chats("show", key[:4])[1] == (
        f"{key}  why is the sky blue?\n\nsystem\nbe brief\n\n"
        "[1] user  (other versions: 3)\nwhy is the sky blue?\n\n[2] gone-1b\nscattering ✓\n"
    )
    assert "[3] user  (other versions: 1)\nwhy is the sea" in chats("show", key, "--branch", "3")[1]
    assert chats("search", "scatter")[1].splitlines()[1].strip() == "scattering ✓"
    assert chats("search", "--in", "last", "sea")[1] == "[3]  why is the sea blue?\n"
    assert chats("search", "nowhere")[::2] == (1, "No chat found.\n")


def test_rename_delete_and_undelete(key: str) -> None:
    assert chats("rename", "last", "a", "new name")[0] == 0
    assert "a new name" in chats("list")[1]
    code, _, told = chats("delete", key)
    assert (code, told) == (0, f"{key} is deleted. `cutaway chats undelete {key}` brings it back.\n")
    assert chats("list")[1] == ""
    assert key in chats("list", "--deleted")[1]
    assert chats("undelete")[::2] == (0, f"{key}  a new name\n")
    assert key in chats("list")[1]
    assert "1 chats are gone for good" in chats("delete", key, "--for-good")[2]
    assert chats("undelete")[::2] == (1, "cutaway: There is no deleted chat.\n")


def test_export_and_import_round_trip_and_a_chat_of_that_key_is_not_overwritten(key: str, tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    assert chats("export", "-o", str(file))[::2] == (0, f"1 chat written to {file}.\n")
    assert chats("export")[1].encode() == file.read_bytes()
    assert "# why is the sky blue?" in chats("export", key, "--format", "markdown")[1]
    assert [m["text"] for m in json.loads(chats("export", key, "--branch", "3")[1])["chats"][0]["messages"]] == [
        "why is the sea blue?"
    ]
    assert cutaway("ask", "--engine", ENGINE, "-c", key, "count 2").returncode == 0
    assert chats("import", str(file))[::2] == (0, f"{file}: 1 chat imported.\n")
    assert len(chats("list")[1].splitlines()) == 2
    code, _, told = chats("import", str(tmp_path / "none.json"))
    assert (code, told) == (1, f"cutaway: {tmp_path / 'none.json'} can't be read: No such file or directory.\n")


@pytest.mark.parametrize("locale", ["C", "en_US.ISO-8859-1"])
def test_pe_08_an_export_is_utf_8_in_any_locale(key: str, tmp_path: Path, locale: str) -> None:
    env = {"LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    file = tmp_path / "out.md"
    assert chats("export", key, "-o", str(file), env=env)[0] == 0
    assert "scattering ✓" in file.read_text("utf-8")
    assert "scattering ✓" in chats("export", key, env=env)[1]


def test_a_wrong_key_is_said_and_nothing_happens(key: str) -> None:
    code, _, told = chats("show", "nosuchchat")
    assert (code, told) == (1, "cutaway: There is no chat 'nosuchchat'. `cutaway chats` lists those that there are.\n")


# --------------------------------------------------------------------------------------------------- ask -c


def _texts(key: str) -> list[str]:
    store = ChatStore(opening.path())
    conversation = store.open(key)
    assert conversation is not None
    texts = [node.text for node in conversation.path()]
    assert conversation.leaf.reply is not None
    assert conversation.leaf.reply.model
    store.end()
    return texts


def test_ask_c_goes_on_with_the_last_chat_and_keeps_the_reply(key: str) -> None:
    done = ask("-c", "recall", "--temperature", "0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().startswith("system: be brief | user: why is the sky blue? | assistant: scattering ✓")
    texts = _texts(key)
    assert texts[:3] == ["why is the sky blue?", "scattering ✓", "recall"]
    assert done.stdout.decode() == texts[3] + "\n"


def test_ask_c_takes_a_key_and_refuses_one_that_is_not_there(key: str) -> None:
    assert ask("-c", key, "count", "2").stdout == b"1 2 \n"
    assert _texts(key)[-1] == "1 2 "
    gone = new_key()
    assert is_key(gone)
    done = ask("-c", gone, "count", "2")
    assert (done.returncode, done.stdout) == (1, b"")
    assert f"There is no chat '{gone}'" in done.stderr.decode()


def test_ask_c_without_any_chat_or_with_several_samples_says_so() -> None:
    assert "There is no chat yet" in ask("-c", "last", "hello").stderr.decode()
    assert "by one reply" in ask("-c", "last", "-n", "2", "hello").stderr.decode()


# --------------------------------------------------------------------------------------------------- @file


def test_a_file_is_attached_between_the_question_and_stdin(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes("caf\u00e9 ``` fence\n".encode() + b"\xff")
    done = ask("recall", f"@{file}", stdin=b"piped")
    assert done.stdout.decode() == "user: recall\n\nnotes.txt:\n````\ncaf\u00e9 ``` fence\n\ufffd\n````\n\npiped\n"
    assert "not all UTF-8" in done.stderr.decode()


def test_a_system_prompt_can_be_a_file(tmp_path: Path) -> None:
    file = tmp_path / "system.md"
    file.write_text("be kind")
    assert ask("recall", "-s", f"@{file}").stdout == b"system: be kind | user: recall\n"


@pytest.mark.parametrize(
    ("word", "told"),
    [("@nowhere.txt", "There is no file 'nowhere.txt'"), ("@.", "can't be read"), ("@{null}", "is not text")],
)
def test_a_file_that_cannot_be_attached_is_wrong_usage(tmp_path: Path, word: str, told: str) -> None:
    null = tmp_path / "null"
    null.write_bytes(b"\0\1")
    done = ask("what?", word.format(null=null))
    assert done.returncode == 2
    assert told in done.stderr.decode()


def test_at_signs_that_name_no_file_are_text() -> None:
    assert ask("recall", "@@all", "@", "@alice said hi").stdout == b"user: recall @all @ @alice said hi\n"


def test_chats_are_not_said_to_be_there_when_the_store_cannot_be_opened(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    code, _, told = chats(env={"CUTAWAY_DATA_DIR": os.fspath(blocked)})
    assert code == 1
    assert "Chats can't be kept in" in told


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of files")
def test_pe_02_chats_on_a_full_disk_can_be_read_and_what_could_not_be_changed_fails(key: str, tmp_path: Path) -> None:
    import resource

    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # to programs that write, as a disk without any room

    def on_full(*args: str) -> tuple[int, str, str]:
        done = subprocess.run([*CUTAWAY, "chats", *args], capture_output=True, preexec_fn=full, check=False)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    code, out, said = on_full("list")
    assert (code, out.split()[0]) == (0, key)
    assert "can be read, but not saved" in said
    assert "scattering" in on_full("export", key)[1]
    code, _, said = on_full("rename", key, "new")
    assert code == 1
    assert "could not be saved" in said
    assert "why is the sky blue?" in chats("list")[1]


def test_what_is_here_already_is_not_imported_again(key: str, tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    assert chats("export", "-o", str(file))[0] == 0
    assert "0 chats imported, 1 were here already" in chats("import", str(file))[2]
    assert chats("rename", key, "a new name")[0] == 0
    assert "0 chats imported" in chats("import", str(file))[2]
    assert len(chats("list")[1].splitlines()) == 1
