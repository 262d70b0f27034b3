"""Keys of the reader's own: read, checked against each other, and never without a way to quit."""

from __future__ import annotations

import pytest
from cutaway.engine.errors import SettingError
from cutaway.tui.actions import ACTIONS
from cutaway.tui.keymap import STANDARD, made
from cutaway.tui.keynames import acts_everywhere, display, read_key
from hypothesis import given
from hypothesis import strategies as st
from textual.keys import _character_to_key

IDS = [action.id for action in ACTIONS]


@pytest.mark.parametrize(
    ("text", "key", "shown"),
    [
        ("ctrl+x", "ctrl+x", "Ctrl+X"), ("Ctrl+X", "ctrl+x", "Ctrl+X"), ("F9", "f9", "F9"), ("?", "question_mark", "?"),
        ("question_mark", "question_mark", "?"), ("Esc", "escape", "Esc"), ("S", "S", "S"), ("shift+s", "S", "S"),
        ("s", "s", "s"), ("shift+ctrl+left", "ctrl+shift+left", "Ctrl+Shift+←"), ("+", "plus", "+"),
        ("ctrl++", "ctrl+plus", "Ctrl++"), ("space", "space", "Space"), (" ", "space", "Space"),
        ("PgUp", "pageup", "PgUp"), ("<", "less_than_sign", "<"),
        ("alt+f4", "alt+f4", "Alt+F4"), ("é", "é", "é"),
    ],
)  # fmt: skip
def test_keys_are_read_as_people_write_them(text: str, key: str, shown: str) -> None:
    assert read_key(text) == key
    assert display(key) == shown


@pytest.mark.parametrize(
    ("text", "near"), [("ctr+x", ""), ("f99", ""), ("escpe", "escape"), ("pagup", "pageup"), ("", "")]
)
def test_what_is_no_key_is_refused_with_the_nearest(text: str, near: str) -> None:
    with pytest.raises(SettingError, match=f"did you mean {near}" if near else "is no key"):
        read_key(text)


@given(st.characters(categories=("L", "N", "P", "S"), exclude_characters="←→↑↓⌫"))
def test_every_character_has_the_name_that_textual_gives_it(character: str) -> None:
    assert read_key(character) == _character_to_key(character)


def test_the_standard_keys_act_where_the_table_says_and_none_has_two_meanings() -> None:
    seen: dict[str, str] = {}
    for action in ACTIONS:
        assert STANDARD.keys(action.id) == tuple(k for ks in (action.keys, action.letters) for k in ks.split(",") if k)
        for key in STANDARD.keys(action.id):
            assert acts_everywhere(key) == (key in action.keys.split(","))
            assert read_key(key) == key
            assert seen.setdefault(key, action.id) == action.id


def test_ids_are_words_and_every_one_is_there_once() -> None:
    assert len(set(IDS)) == len(IDS)
    assert all(name.isidentifier() for name in IDS)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.id)
def test_every_action_can_have_another_key(action) -> None:
    keymap = made({action.id: ("ctrl+f9", "%")})
    assert keymap.problems == ()
    assert keymap.keys(action.id) == ("ctrl+f9", "percent_sign")
    assert [binding.action for binding in keymap.bindings(action)] == [action.name] * 2
    assert [binding.priority for binding in keymap.bindings(action)] == [True, False]


def test_a_key_taken_from_another_action_is_told() -> None:
    keymap = made({"copy_reply": ("ctrl+r",)}, {"copy_reply": 7})
    assert keymap.keys("copy_reply") == ("ctrl+r",)
    assert keymap.keys("regenerate") == ("r",)
    assert keymap.problems == ("line 7: Ctrl+R now belongs to copy_reply; regenerate keeps r.",)
    assert made({"copy_reply": ("ctrl+r",), "regenerate": ("ctrl+y",)}).problems == ()


def test_the_same_key_for_two_actions_stays_with_the_first() -> None:
    keymap = made({"jump": ("ctrl+k",), "live": ("Ctrl+K", "L")})
    assert keymap.problems == ("[keys]: Ctrl+K is given to jump and to live; jump keeps it.",)
    assert keymap.keys("live") == ("L",)


@pytest.mark.parametrize(
    ("own", "sentence"),
    [
        ({"regenrate": ("x",)}, "there is no action 'regenrate'; did you mean regenerate?"),
        ({"jump": ("ctrl+j",)}, "Ctrl+J makes a new line in a message, so jump can't have it."),
        ({"jump": ("escpe",)}, "jump: 'escpe' is no key; did you mean escape?"),
    ],
)
def test_what_can_not_be_is_told_in_one_sentence(own: dict[str, tuple[str, ...]], sentence: str) -> None:
    assert made(own).problems == (f"[keys]: {sentence}",)


@pytest.mark.parametrize(
    "own",
    [{"quit": ()}, {"quit": ("nonsense",)}, {"live": ("ctrl+q",)}, {"quit": ("Q",), "escape": ()}],
    ids=["none", "no key", "taken", "not to be reached"],
)
def test_a_keymap_without_a_way_to_quit_is_refused(own: dict[str, tuple[str, ...]]) -> None:
    keymap = made(own | {"jump": ("ctrl+k",)})
    assert keymap == STANDARD
    assert "nothing would quit" in keymap.problems[0]


@given(
    st.dictionaries(
        st.sampled_from(IDS), st.lists(st.sampled_from(["ctrl+q", "Q", "ctrl+x", "escape", "f1"])).map(tuple)
    )
)
def test_whatever_is_mapped_no_key_has_two_meanings_and_something_quits(own: dict[str, tuple[str, ...]]) -> None:
    keymap = made(own)
    keys = [key for name in IDS for key in keymap.keys(name)]
    assert len(keys) == len(set(keys))
    quits = keymap.keys("quit")
    assert any(map(acts_everywhere, quits)) or (quits and any(map(acts_everywhere, keymap.keys("escape"))))


def test_hints_name_the_first_key_and_nothing_where_there_is_none() -> None:
    keymap = made({"regenerate": ("ctrl+g", "g"), "go_on": ()})
    assert keymap.hint("regenerate", "tries again") == "Ctrl+G tries again"
    assert keymap.hint("regenerate", "tries again", letter=True) == "g tries again"
    assert keymap.all_shown("regenerate") == "Ctrl+G or g"
    assert keymap.hint("go_on", "goes on") == ""
