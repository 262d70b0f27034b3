"""What a model's name means: paths never reach the network, and a typing error is answered with what is near."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from cutaway.engine import places
from cutaway.engine.errors import CutawayError, ModelError
from cutaway.engine.models import resolve
from cutaway.engine.models.spec import HubId, read_spec


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        pytest.fail("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr("subprocess.Popen", refuse)
    monkeypatch.setenv("CUTAWAY_CACHE_DIR", str(tmp_path / "cache"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)


def refusal(spec: str) -> str:
    with pytest.raises(ModelError) as caught:
        resolve(spec)
    return str(caught.value)


def test_ml_11_a_typo_in_a_file_name_is_answered_with_near_names() -> None:
    Path("models").mkdir()
    Path("models/tiny-chat.Q4_1.gguf").touch()
    Path("models/other.gguf").touch()
    said = refusal("./models/tiny-chat.Q4_0.gguf")
    assert f"no such file: {Path.cwd()}/models/tiny-chat.Q4_0.gguf" in said
    assert f"Near it: {Path.cwd()}/models/tiny-chat.Q4_1.gguf." in said


def test_ml_11_a_typo_in_the_folder_name_is_answered_one_folder_up() -> None:
    Path("models").mkdir()
    Path("models/x.gguf").touch()
    said = refusal("./modles/x.gguf")
    assert f"no such file: {Path.cwd()}/modles/x.gguf" in said
    assert f"Near it: {Path.cwd()}/models/x.gguf." in said


@pytest.mark.parametrize(
    "spec",
    [
        "./x",
        "../x",
        "~/models/x",
        "/nowhere/x",
        "x.gguf",
        "org/x.gguf",
        "org/x.safetensors",
        "a/b/c",
        "C:\\models\\x.gguf",
        "smollm",
        "org/name@",
        "org/",
        "/",
    ],
)
def test_ml_11_what_looks_like_a_path_is_never_looked_up_on_the_network(spec: str) -> None:
    said = refusal(spec)
    assert "no such file: " in said or "no config.json" in said


def test_ml_11_a_hub_like_name_beside_a_folder_spelled_like_it_is_a_typing_error() -> None:
    Path("models/tiny").mkdir(parents=True)
    assert f"Near it: {Path.cwd()}/models/tiny." in refusal("models/tinyy")


@pytest.mark.parametrize("spec", [" ", "\t", "a\0b"])
def test_ml_11_a_blank_name_is_refused(spec: str) -> None:
    assert "the model's name is blank" in refusal(spec)


def test_home_is_understood(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "here").mkdir()
    assert read_spec("~/here") == tmp_path / "here"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("org/name", HubId("org/name")),
        ("Org-1/na.me_2", HubId("Org-1/na.me_2")),
        ("org/name@v1.0", HubId("org/name", "v1.0")),
        ("org/name@refs/pr/1", HubId("org/name", "refs/pr/1")),
        ("org/name:m.Q4_K_M.gguf", HubId("org/name", "main", "m.Q4_K_M.gguf")),
        ("org/name@dev:sub/m.gguf", HubId("org/name", "dev", "sub/m.gguf")),
    ],
)
def test_hub_ids_are_read_and_written_alike(spec: str, expected: HubId) -> None:
    assert read_spec(spec) == expected
    assert str(expected) == spec


def test_an_existing_path_wins_over_a_hub_id() -> None:
    Path("org/name").mkdir(parents=True)
    assert read_spec("org/name") == Path.cwd() / "org/name"


# ------------------------------------------------------------------------------------------------- places


@pytest.mark.skipif(os.name != "posix", reason="XDG variables are a POSIX convention")
@pytest.mark.parametrize("value", ["", "relative/cache", "./x"])
def test_empty_and_relative_xdg_values_count_as_unset(
    value: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CUTAWAY_CACHE_DIR")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    expected = places.cache()
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert places.cache() == expected
    assert expected.is_absolute()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert tmp_path / "xdg" in places.cache().parents


@pytest.mark.parametrize("kind", ["cache", "config", "data", "state"])
def test_each_place_can_be_set_and_is_absolute(kind: places.Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(places.variable(kind), "here")
    assert places.folder(kind) == Path.cwd() / "here"


def test_no_home_folder_is_an_error_that_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTAWAY_CACHE_DIR", "~nobody-by-that-name/x")
    with pytest.raises(CutawayError, match="CUTAWAY_CACHE_DIR"):
        places.cache()
