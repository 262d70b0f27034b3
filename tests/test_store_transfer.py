"""Chats out of the store and into it again: our own files, ChatGPT's and Open WebUI's."""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from pathlib import Path

import msgspec
import pytest
from cutaway.engine.protocol import SamplingSettings
from cutaway.tui.state.conversation import Conversation, Reply
from cutaway.tui.store import export, imports
from cutaway.tui.store.chats import ChatStore
from cutaway.tui.store.errors import StoreError
from cutaway.tui.store.records import Chat, ChatRecord, MessageRecord
from hypothesis import given, settings
from hypothesis import strategies as st

from .patience import PATIENCE

TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)
SIZES = st.integers(0, 2**40)


@st.composite
def chats(draw: st.DrawFn, key: str = "abcd2345") -> Chat:
    """Any tree that a chat can be."""
    messages: list[MessageRecord] = []
    for number in range(1, draw(st.integers(0, 8)) + 1):
        made = MessageRecord(
            number,
            draw(st.sampled_from(["user", "assistant", "system", "tool"])),
            draw(TEXTS),
            parent=draw(st.integers(0, number - 1)),
            made_ms=draw(SIZES),
            status=draw(st.sampled_from(["", "end", "length", "writing"])),
            detail=draw(TEXTS),
            reasoning=draw(TEXTS),
            model=draw(TEXTS),
            settings=draw(st.sampled_from([None, SamplingSettings(), SamplingSettings(seed=1, logit_bias={3: 0.5})])),
            tokens=draw(SIZES),
            ttft_ns=draw(SIZES),
            speed=draw(st.floats(0, 1e6)),
            token_ids=tuple(draw(st.lists(st.integers(0, 2**32 - 1), max_size=3))),
        )
        messages.append(made)
    below = {number: [m.number for m in messages if m.parent == number] for number in range(len(messages) + 1)}
    chosen = {number: draw(st.sampled_from(children)) if children else 0 for number, children in below.items()}
    replace = msgspec.structs.replace
    named = tuple(replace(message, chosen=chosen[message.number]) for message in messages)
    record = ChatRecord(key, draw(TEXTS), draw(st.booleans()), draw(TEXTS), draw(SIZES), draw(SIZES), chosen[0])
    return Chat(record, named)


# ------------------------------------------------------------------------------------------------- our own


@given(chats())
def test_reading_what_was_exported_gives_the_same_chat(chat: Chat) -> None:
    assert export.from_json(export.to_json([chat])) == [chat]


@settings(max_examples=20, deadline=None)
@given(st.lists(chats(), max_size=2))
def test_export_after_import_is_the_same_file(several: list[Chat]) -> None:

    with tempfile.TemporaryDirectory() as folder:
        store = ChatStore(Path(folder) / "chats.db")
        keys = imports.bring_in(store, export.to_json(several)).keys
        kept = [chat for chat in several if chat.messages]
        out = [chat for key in keys if (chat := store.load(key)) is not None]
        same = [
            Chat(msgspec.structs.replace(old.record, key=new.record.key,
                                                       changed_ms=new.record.changed_ms), old.messages)
            for old, new in zip(kept, out, strict=True)
        ]  # fmt: skip
        assert export.to_json(out) == export.to_json(same)
        assert [new.record.changed_ms for new in out if new.record.changed_ms] == [new.record.changed_ms for new in out]
        store.end()


def test_a_key_is_kept_where_it_is_free_and_changed_where_it_is_taken(tmp_path: Path) -> None:
    store = ChatStore(tmp_path / "chats.db")
    conversation = store.create()
    conversation.add("user", "hello")
    store.save(conversation)
    store._writer.flush(PATIENCE)
    exported = export.to_json([_loaded(store, conversation.key)])
    assert imports.bring_in(store, exported) == imports.Imported((), known=1)  # nothing was said since
    conversation.add("user", "and more")
    store.save(conversation)
    store._writer.flush(PATIENCE)
    (again,) = imports.bring_in(store, exported).keys
    assert again != conversation.key
    assert len(store.listed()) == 2
    other = ChatStore(tmp_path / "other.db")
    assert imports.bring_in(other, exported).keys == (conversation.key,)
    store.end()
    other.end()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "is no JSON"),
        (b"\xff\xfe", "is no JSON"),
        (b"[]", "holds no chats that cutaway knows"),
        (b"{}", "holds no chats that cutaway knows"),
        (b'{"format": "other"}', "is no export of cutaway"),
        (b'{"format": "cutaway-chats", "version": 2, "chats": 5}', "version 2 of the format"),
        (b'{"format": "cutaway-chats", "version": 1, "chats": [{"key": "a"}]}', r"missing required field .*chats\["),
        (
            b'{"format": "cutaway-chats", "version": 1, "chats": [{"key": "a", "title": "T", "messages": '
            b'[{"number": 1, "role": "user", "text": "", "parent": 2}]}]}',
            "message 1 of chat 'T'",
        ),
        (b"PK\x03\x04 and nothing", "can't be unpacked"),
    ],
)
def test_a_file_that_is_no_export_is_refused_by_name(tmp_path: Path, data: bytes, told: str) -> None:
    store = ChatStore(tmp_path / "chats.db")
    with pytest.raises(StoreError, match=told) as raised:
        imports.bring_in(store, data, "bad.json")
    assert "bad.json" in str(raised.value)
    assert store.listed() == []
    store.end()


def test_numbers_beyond_what_sqlite_holds_import_nothing(tmp_path: Path) -> None:
    store = ChatStore(tmp_path / "chats.db")
    data = export.to_json([Chat(ChatRecord("k", "t"), (MessageRecord(1, "user", "x", tokens=2**70),))])
    with pytest.raises(StoreError, match="Nothing was imported"):
        imports.bring_in(store, data)
    assert store.listed() == []
    store.end()


def _loaded(store: ChatStore, key: str) -> Chat:
    chat = store.load(key)
    assert chat is not None
    return chat


def _branched(store: ChatStore) -> Conversation:
    conversation = store.create("be kind")
    question = conversation.add("user", "q1")
    reply = Reply("", status="length", detail="cut at 5 tokens", model="tiny", reasoning="hm")
    conversation.add("assistant", "a1", reply=reply)
    conversation.branch(question, "q1 edited")
    conversation.add("assistant", "a1 to the edited")
    conversation.show(question)
    store.save(conversation)
    store._writer.flush(PATIENCE)
    return conversation


def test_markdown_shows_the_path_and_tells_of_other_versions(tmp_path: Path) -> None:
    store = ChatStore(tmp_path / "chats.db")
    text = export.to_markdown(_loaded(store, _branched(store).key))
    assert text.startswith("# q1\n\n> System prompt:\n> be kind\n\n## You · 20")
    assert "one of 2 versions" in text
    assert "a1\n\n*(cut at 5 tokens)*" in text
    assert "## tiny" in text
    assert "hm\n\n</details>" in text
    assert "edited" not in text
    store.end()


def test_a_branch_is_exported_alone(tmp_path: Path) -> None:
    store = ChatStore(tmp_path / "chats.db")
    chat = _loaded(store, _branched(store).key)
    assert [m.text for m in export.branch(chat).messages] == ["q1", "a1"]
    edited = next(m for m in chat.messages if m.text == "q1 edited")
    alone = export.branch(chat, edited.number)
    assert [m.text for m in alone.messages] == ["q1 edited", "a1 to the edited"]
    (again,) = export.from_json(export.to_json([alone]))
    assert [(m.number, m.parent, m.chosen) for m in again.messages] == [(1, 0, 2), (2, 1, 0)]
    assert again.record.chosen == 1
    store.end()


# ------------------------------------------------------------------------------------------------ ChatGPT


def _said(role: str, *parts: object, **more: object) -> dict[str, object]:
    content = {"content_type": "text", "parts": list(parts)}
    return {"author": {"role": role}, "content": content, "create_time": 1700000000.5, "metadata": {}, **more}


CHATGPT = [
    {
        "title": "Sky",
        "create_time": 1700000000.0,
        "update_time": 1700000100.0,
        "conversation_id": "c-1",
        "current_node": "a2",
        "mapping": {
            "root": {"id": "root", "message": None, "parent": None, "children": ["sys"]},
            "sys": {"id": "sys", "message": _said("system", ""), "parent": "root", "children": ["u1"]},
            "u1": {"id": "u1", "message": _said("user", "Why blue?"), "parent": "sys", "children": ["a1", "t1"]},
            "a1": {
                "id": "a1",
                "message": _said("assistant", "Scattering.", metadata={"model_slug": "gpt-x"}),
                "parent": "u1",
                "children": [],
            },
            "t1": {"id": "t1", "message": _said("tool", "searched"), "parent": "u1", "children": ["a2"]},
            "a2": {
                "id": "a2",
                "message": _said("assistant", "Rayleigh.", {"content_type": "image_asset_pointer"}),
                "parent": "t1",
                "children": [],
            },
        },
    }
]
CHATGPT[0]["mapping"]["a2"]["message"]["content"]["content_type"] = "multimodal_text"  # pyright: ignore


def _tree(chat: Chat) -> list[tuple[int, int, str, str]]:
    return [(m.number, m.parent, m.role, m.text) for m in chat.messages]


def test_chatgpt_s_export_comes_in_as_a_tree_with_its_branches() -> None:
    found = imports.read(json.dumps(CHATGPT).encode())
    (chat,) = found.chats
    assert (chat.record.title, chat.record.source, chat.record.made_ms) == ("Sky", "chatgpt:c-1", 1700000000000)
    assert _tree(chat) == [
        (1, 0, "user", "Why blue?"),
        (2, 1, "assistant", "Scattering."),
        (3, 1, "assistant", "Rayleigh.\n\n[image that is not in the text]"),
    ]
    assert chat.messages[1].model == "gpt-x"
    assert [m.text for m in export.path(chat)][-1].startswith("Rayleigh")
    assert found.left_out == 1


def test_chatgpt_s_zip_file_is_read_and_the_same_chats_are_not_taken_twice(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("user.json", "{}")
        archive.writestr("conversations.json", json.dumps(CHATGPT))
    store = ChatStore(tmp_path / "chats.db")
    first = imports.bring_in(store, packed.getvalue())
    again = imports.bring_in(store, packed.getvalue())
    assert (len(first.keys), first.known) == (1, 0)
    assert (len(again.keys), again.known) == (0, 1)
    conversation = store.open(first.keys[0])
    assert conversation is not None
    conversation.add("user", "go on")
    store.save(conversation)
    store._writer.flush(PATIENCE)
    assert imports.bring_in(store, packed.getvalue()).known == 1  # it still knows where the chat is from
    store.end()


# --------------------------------------------------------------------------------------------- Open WebUI

WEBUI = [
    {
        "id": "w-1",
        "title": "Sea",
        "created_at": 1700000000,
        "updated_at": 1700000050,
        "chat": {
            "title": "Sea",
            "models": ["llama"],
            "params": {"system": "be wet"},
            "history": {
                "currentId": "m2",
                "messages": {
                    "m1": {"id": "m1", "parentId": None, "childrenIds": ["m2", "m3"], "role": "user",
                           "content": "deep?"},
                    "m2": {"id": "m2", "parentId": "m1", "childrenIds": [], "role": "assistant", "content": "very",
                           "model": "llama", "timestamp": 1700000001},
                    "m3": {"id": "m3", "parentId": "m1", "childrenIds": [], "role": "assistant", "content": "quite"},
                },
            },
            "messages": [{"role": "user", "content": "deep?"}],
        },
    }
]  # fmt: skip


def test_open_webui_s_export_comes_in_with_branches_and_system_prompt() -> None:
    (chat,) = imports.read(json.dumps(WEBUI).encode()).chats
    assert (chat.record.title, chat.record.system, chat.record.source) == ("Sea", "be wet", "open-webui:w-1")
    assert _tree(chat) == [(1, 0, "user", "deep?"), (2, 1, "assistant", "very"), (3, 1, "assistant", "quite")]
    assert [m.text for m in export.path(chat)] == ["deep?", "very"]
    assert (chat.messages[1].model, chat.messages[1].made_ms) == ("llama", 1700000001000)


def test_open_webui_s_older_list_comes_in_as_one_path() -> None:
    old = {
        "title": "Old",
        "chat": {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
    }
    (chat,) = imports.read(json.dumps(old).encode()).chats
    assert _tree(chat) == [(1, 0, "user", "a"), (2, 1, "assistant", "b")]
    assert [m.text for m in export.path(chat)] == ["a", "b"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**15) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["mapping", "message", "author", "role", "content", "parts", "parent", "children", "chat",
                         "history", "messages", "parentId", "a", "b"]), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(JSON)
def test_whatever_an_export_holds_it_is_read_or_refused(found: object) -> None:
    try:
        read = imports.read(json.dumps([found, CHATGPT[0]]).encode())
    except StoreError:
        return
    for chat in read.chats:
        assert all(message.parent < message.number for message in chat.messages)
        export.to_markdown(chat)
