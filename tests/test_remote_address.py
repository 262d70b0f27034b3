"""Addresses however they are spelled, and keys that show nowhere."""

from __future__ import annotations

import re
import sys
import types

import pytest
from cutaway.engine.errors import SettingError
from cutaway.engine.remote import keys
from cutaway.engine.remote.address import parse, root_of
from cutaway.engine.remote.keys import Key, KeyMissing
from cutaway.engine.remote.limits import Limits
from cutaway.tui.commands import servers
from cutaway.tui.settings import document
from hypothesis import given
from hypothesis import strategies as st

SECRET = "sk-cutaway-0123456789abcdef"


@pytest.mark.parametrize("text", ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/", "h:1", "h:1/v1//"])
def test_oa_14_every_spelling_leads_to_v1_first(text: str):
    assert parse(text).bases[0] == "http://h:1/v1"


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("http://h/proxy/openai", "http://h/proxy/openai/v1"),
        ("https://h/api/v1/chat/completions", "https://h/api/v1"),
        ("http://h:1/v1/models", "http://h:1/v1"),
        ("http://[::1]:8000", "http://[::1]:8000/v1"),
    ],
)
def test_a_proxys_path_and_an_endpoint_are_understood(text: str, first: str):
    assert parse(text).bases[0] == first


def test_what_the_server_keeps_for_itself_lies_beside_v1():
    assert root_of("http://h/p/v1") == "http://h/p"
    assert root_of("http://h/p") == "http://h/p"


@pytest.mark.parametrize(
    "text",
    [
        "", "ftp://h", "http://", "http://h:no", "http://h/v1?key=1", "http://h#x",
        "http://a..b/v1", f"http://{'x' * 70}.com", "http://my box/v1", "http://h\x1b[2J/v1",
    ],
)  # fmt: skip
def test_what_is_no_address_is_told_with_an_example(text: str):
    with pytest.raises(SettingError) as told:
        parse(text)
    assert told.value.action


def test_a_password_in_the_address_is_refused_and_not_quoted():
    with pytest.raises(SettingError) as told:
        parse(f"http://user:{SECRET}@h/v1")
    assert SECRET not in str(told.value)
    assert "--key-env" in str(told.value)


@pytest.mark.parametrize(
    ("text", "loopback"),
    [("localhost:1", True), ("127.0.0.2:1", True), ("[::1]:1", True), ("gpu-box:1", False), ("10.0.0.1:1", False)],
)
def test_this_machine_is_known_so_that_no_proxy_is_asked(text: str, loopback: bool):
    assert parse(text).loopback is loopback


# ----------------------------------------------------------------------------------------------------- keys


def test_a_named_variable_comes_first_and_must_be_set():
    address = parse("gpu-box:1")
    environment = {"MINE": SECRET, "CUTAWAY_API_KEY": "other-key-entirely"}
    assert keys.find(address, "MINE", environment).secret == SECRET
    assert keys.find(address, "", environment).source == "$CUTAWAY_API_KEY"
    with pytest.raises(KeyMissing, match="YOURS"):
        keys.find(address, "YOURS", environment)


def test_openais_key_goes_to_openai_alone():
    environment = {"OPENAI_API_KEY": SECRET}
    assert keys.find(parse("https://api.openai.com"), "", environment).secret == SECRET
    assert keys.find(parse("gpu-box:1"), "", environment).secret == ""


def test_the_keyring_is_asked_for_the_servers_origin(monkeypatch: pytest.MonkeyPatch):
    asked = []
    ring = types.ModuleType("keyring")
    ring.get_password = lambda service, account: asked.append((service, account)) or SECRET  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "keyring", ring)
    assert keys.find(parse("http://gpu-box:1/v1"), "", {}) == Key(SECRET, "the keyring")
    assert asked == [("cutaway", "http://gpu-box:1")]


def test_a_key_that_no_header_can_carry_is_refused_without_quoting_it():
    with pytest.raises(KeyMissing) as told:
        keys.find(parse("h:1"), "MINE", {"MINE": "caf\u00e9-secret"})
    assert "secret" not in str(told.value)


@given(st.text(max_size=30), st.text(max_size=30), st.integers(8, len(SECRET)))
def test_the_key_and_every_telling_beginning_of_it_are_redacted(before: str, after: str, size: int):
    shown = Key(SECRET).redact(f"{before} {SECRET[:size]} {after} {SECRET}")
    assert SECRET[:8] not in shown.replace(before, "").replace(after, "") or SECRET[:8] in before + after


@given(st.text("key[]abc ,", min_size=1, max_size=12), st.text("key[]abc ,", max_size=40))
def test_any_key_is_redacted_in_one_go_however_short_it_is(secret: str, text: str):
    shown = Key(secret).redact(f"{text}{secret}")
    assert "[key]" in shown
    assert secret not in shown.replace("[key]", "\0")


def test_a_key_shows_in_no_representation():
    assert SECRET not in repr(Key(SECRET))


# ------------------------------------------------------------------------------------------------ the flag


def test_fr_02_the_flag_takes_an_address_or_a_name(monkeypatch: pytest.MonkeyPatch):
    entry = servers.Server("http://gpu-box:8000/v1", "big", "BOX_KEY")
    monkeypatch.setattr(servers, "named", lambda: {"box": document.Server(entry.url, "big", "BOX_KEY")})
    assert servers.resolve("") is None
    assert servers.resolve("box") == entry
    assert servers.resolve("box", model="small") == servers.Server(entry.url, "small", "BOX_KEY")
    assert servers.resolve("localhost:8000", "m", "K") == servers.Server("localhost:8000", "m", "K")
    assert entry.command()[-4:] == ["--server", entry.url, "--key-env", "BOX_KEY"]
    patient = servers.Server(entry.url, limits=Limits(900, 0))
    assert patient.command()[-6:] == ["--first-token-limit-s", "900", "--gap-limit-s", "0", "--server", entry.url]
    with pytest.raises(SettingError, match=r"bax.*box"):
        servers.resolve("bax")


def test_a_server_is_waited_for_as_its_own_entry_says_unless_a_flag_says_otherwise(monkeypatch: pytest.MonkeyPatch):
    text = '[servers.slow]\nurl = "http://h/v1"\nfirst_token_limit_s = 1800\n[servers.usual]\nurl = "http://i/v1"\n'
    file = document.read(text)
    assert file.problems == ()
    monkeypatch.setattr(servers, "named", lambda: file.servers)
    everywhere = servers.Patience(Limits(60, 30))

    def limits(name: str, patience: servers.Patience) -> Limits:
        found = servers.resolve(name, patience=patience)
        assert found is not None
        return found.limits

    assert limits("slow", everywhere) == Limits(1800, 30)
    assert limits("usual", everywhere) == Limits(60, 30)
    assert limits("http://h/v1", everywhere) == Limits(60, 30)
    assert limits("slow", servers.Patience(Limits(5, 30), ("first_token_limit_s",))) == Limits(5, 30)


@pytest.mark.parametrize(("wrong", "said"), [("-1", "from 0"), ('"long"', "whole number"), ("true", "whole number")])
def test_a_limit_of_a_server_that_is_none_is_told_and_left_out(wrong: str, said: str):
    file = document.read(f'[servers.slow]\nurl = "http://h/v1"\ngap_limit_s = {wrong}\n')
    assert file.servers["slow"].gap_limit_s is None
    assert re.search(f"line 3: gap_limit_s.*{said}", file.problems[0])
