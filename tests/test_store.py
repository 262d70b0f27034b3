"""The store of chats: what is said is kept, found, renamed, deleted and brought back; two programs at once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from cutaway.engine.protocol import Finished, SamplingSettings, Submit, TextDelta, Timeline
from cutaway.tui.chat.exchange import Exchange
from cutaway.tui.state.conversation import Conversation, Node, Reply
from cutaway.tui.state.keeping import Listed
from cutaway.tui.store import opening, schema, words
from cutaway.tui.store.chats import ChatStore, default_store
from cutaway.tui.store.errors import NewerStore
from cutaway.tui.store.records import made_ms, new_number, now_ms
from cutaway.tui.store.trees import CUT_OFF, grow
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from .patience import PATIENCE


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "chats.db"


def chat(store: ChatStore, *texts: str, system: str = "") -> Conversation:
    """A chat with these messages, a question and a reply in turn, kept."""
    conversation = store.create(system)
    for index, text in enumerate(texts):
        if index % 2:
            conversation.add("assistant", text, reply=Reply("", status="end", model="tiny", tokens=3))
        else:
            conversation.add("user", text)
    store.save(conversation)
    return conversation


def shape(conversation: Conversation) -> list[object]:
    """The whole tree with its chosen path, to compare."""

    def of(node: Node) -> tuple[object, ...]:
        return (node.role, node.text, node.chosen if node.children else 0, [of(child) for child in node.children])

    return [conversation.title, conversation.system, of(conversation.root)]


# ---------------------------------------------------------------------------------------------- keeping


def test_a_chat_comes_back_with_everything_a_message_has(file: Path) -> None:
    store = ChatStore(file)
    conversation = store.create("be brief")
    conversation.add("user", "why?\0 ✓ \ud800")
    reply = Reply(
        "chat-1",
        status="length",
        detail="cut at 5 tokens",
        action="go on",
        tokens=5,
        prompt_tokens=9,
        cached_tokens=4,
        prefix="Be",
        reasoning="hm",
        note="folded",
        settings=SamplingSettings(temperature=0.1, seed=7, stop=("x",), logit_bias={5: -1.0}),
        model="tiny",
        identity="abc",
        ttft_ns=1_500_000,
        speed=12.5,
        token_ids=(1, 2, 70_000),
    )
    conversation.add("assistant", "Because", reply=reply)
    store.save(conversation)
    assert store.end() == ""

    again = ChatStore(file).open(conversation.key)
    assert again is not None
    assert again.system == "be brief"
    asked, answered = again.path()
    assert asked.text == "why?\0 ✓ \ufffd"
    reply.request = ""  # another run's names mean nothing
    assert answered.reply == reply
    assert abs(made_ms(answered.number) - now_ms()) < 60_000


def test_a_moment_that_no_calendar_has_is_not_shown() -> None:
    assert [Listed("k", "t", changed_ms=ms).when for ms in (0, 10**30, -(10**30))] == ["", "", ""]
    assert Listed("k", "t", changed_ms=1_700_000_000_000).when.startswith("2023-11-1")


def test_a_chat_without_messages_is_not_kept(file: Path) -> None:
    store = ChatStore(file)
    store.save(store.create())
    assert store.listed() == []
    assert store.end() == ""


def test_the_measured_figures_of_a_reply_come_from_its_timeline() -> None:
    exchange = Exchange(SamplingSettings(seed=3))
    conversation = Conversation("c")
    node, commands = exchange.ask(conversation, "hello")
    assert isinstance(commands[0], Submit)
    name = commands[0].request
    exchange.apply(TextDelta(name, 0, "hi", 1, 0))
    times = Timeline(submitted_ns=1_000, first_token_ns=5_000, tokens_ns=(5_000, 6_000, 7_000))
    exchange.apply(Finished(name, 0, "end", generated_tokens=3, token_ids=(1, 2, 3), timeline=times))
    assert node.reply is not None
    assert (node.reply.ttft_ns, node.reply.speed) == (4_000, 1e6)
    assert node.reply.token_ids == (1, 2, 3)
    assert node.reply.settings == SamplingSettings(seed=3)


def test_only_what_changed_is_written_again(file: Path) -> None:
    store = ChatStore(file)
    conversation = chat(store, "a", "b", "c", "d")
    store._writer.flush(PATIENCE)
    seen: list[set[int]] = []
    put = store._writer.put
    store._writer.put = lambda changes: (seen.append(set(changes.messages)), put(changes))[1]
    store.save(conversation)
    leaf = conversation.leaf
    leaf.text += "!"
    leaf.touch()
    store.save(conversation)
    assert seen == [set(), {leaf.number}]
    store.end()


def test_a_growing_reply_is_in_the_file_within_a_second_or_so(file: Path) -> None:
    store = ChatStore(file)
    conversation = chat(store, "tell")
    node = conversation.add("assistant", "", reply=Reply("chat-1"))
    store.note(conversation, node)
    assert node.reply is not None
    node.reply.status = "writing"
    for piece in ("once ", "upon "):
        node.text += piece
        node.touch()
        store.note(conversation, node)
    assert store._writer.flush(PATIENCE)
    other = ChatStore(file)
    again = other.open(conversation.key)
    assert again is not None
    assert again.leaf.text == "once upon "
    assert again.leaf.reply is not None
    assert (again.leaf.reply.status, again.leaf.reply.detail) == ("stopped", CUT_OFF)
    store.end()
    other.end()


def test_the_chat_changed_last_is_first_and_lists_come_in_pages(file: Path) -> None:
    store = ChatStore(file)
    chats = [chat(store, f"question {i}", "answer") for i in range(5)]
    for number, conversation in enumerate(chats):
        conversation.changed_ms = 1000 + number
        store.save(conversation)
    assert [item.title for item in store.listed(2)] == ["question 4", "question 3"]
    assert [item.title for item in store.listed(9, offset=2)] == ["question 2", "question 1", "question 0"]
    assert (store.listed(1)[0].messages, store.listed(1)[0].model) == (2, "tiny")
    assert store.last() == chats[4].key
    store.end()


def test_renamed_deleted_brought_back_and_purged(file: Path) -> None:
    store = ChatStore(file)
    one, two = chat(store, "one", "1"), chat(store, "two", "2")
    store.rename(one, "uno")
    store.delete(two)
    assert [item.title for item in store.listed()] == ["uno"]
    assert two not in store.all()
    back = store.undelete()
    assert back is not None
    assert shape(back) == shape(two)
    assert {item.title for item in store.listed()} == {"uno", "two"}
    assert store.undelete() is None
    store.delete(back)
    store.end()

    again = ChatStore(file)
    assert again.database.purge() == 0  # kept for a month
    assert again.database.purge(now_ms() + 1) == 1
    assert again.load(two.key) is None
    assert again.undelete() is None
    assert again.find("2") == []
    again.end()


def test_a_reply_that_ends_after_its_chat_was_deleted_does_not_bring_it_back(file: Path) -> None:
    store = ChatStore(file)
    conversation = chat(store, "one", "1")
    store.delete(conversation)
    conversation.leaf.text = "late"
    conversation.leaf.touch()
    store.save(conversation)
    store.note(conversation, conversation.leaf)
    assert store.listed() == []
    store.end()


# --------------------------------------------------------------------------------------------- searching


@pytest.fixture
def searched(file: Path) -> ChatStore:
    store = ChatStore(file)
    chat(store, "Why is the sky blue?", "Rayleigh scattering of light.")
    chat(store, "Tell of Paris", "Le café est fermé. 'Quoted' C++ text 100%.")
    chat(store, "空はなぜ青いのですか", "レイリー散乱のためです")
    return store


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("rayleigh", ["Why is the sky blue?"]),
        ("sky blue", ["Why is the sky blue?"]),
        ("blu", ["Why is the sky blue?"]),
        ('"is the sky"', ["Why is the sky blue?"]),
        ("sky scattering", []),
        ("c++", ["Tell of Paris"]),
        ("100%", ["Tell of Paris"]),
        ("なぜ青い", ["空はなぜ青いのですか"]),
        ("NEAR(a b) OR *", []),
        ("'", ["Tell of Paris"]),
        ("", []),
    ],
)
def test_words_are_found_with_and_without_the_index(
    searched: ChatStore, text: str, titles: list[str], indexed: bool
) -> None:
    assert words.available(searched.database.connection)
    searched._writer.flush(PATIENCE)
    searched.database.indexed = indexed
    assert [item.title for item in searched.find(text)] == titles
    searched.end()


def test_the_index_ignores_accents_and_follows_edits(searched: ChatStore) -> None:
    assert [item.title for item in searched.find("cafe")] == ["Tell of Paris"]
    conversation = searched.all()[0]
    conversation.leaf.text = "Something else"
    conversation.leaf.touch()
    searched.save(conversation)
    assert searched.find("rayleigh") == []
    assert searched.find("something")[0].found == "Something else"
    searched.end()


def test_a_chat_is_found_by_its_name_and_its_passages_inside(searched: ChatStore) -> None:
    conversation = searched.all()[0]
    searched.rename(conversation, "Optics for BEGINNERS")
    assert searched.find("beginners")[0].key == conversation.key
    searched._writer.flush(PATIENCE)
    assert searched.database.passages("sky", conversation.key) == [
        (conversation.path()[0].number, "Why is the sky blue?")
    ]
    searched.end()


def test_a_program_without_fts5_can_write_and_the_next_one_with_it_finds_all(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ChatStore(file)
    chat(store, "first")
    store.end()
    with monkeypatch.context() as without:
        without.setattr(words, "available", lambda connection: False)
        store = ChatStore(file)
        chat(store, "second")
        assert [item.title for item in store.find("second")] == ["second"]
        store.end()
    store = ChatStore(file)
    assert store.database.indexed
    assert [item.title for item in store.find("second")] == ["second"]
    store.end()


# --------------------------------------------------------------------------------------------- migrations


def test_migrations_run_once_and_a_failing_one_leaves_the_file_as_it_was(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ChatStore(file)
    kept = chat(store, "old", "chat")
    store.end()
    broken = (*schema.MIGRATIONS, "ALTER TABLE chats ADD COLUMN colour TEXT; ALTER TABLE nowhere ADD COLUMN x")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", broken)
        with pytest.raises(sqlite3.OperationalError, match="nowhere"):
            schema.migrate(opening._connect(file))
    assert schema.version(opening._connect(file)) == len(schema.MIGRATIONS)

    good = (*schema.MIGRATIONS, "ALTER TABLE chats ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'")
    monkeypatch.setattr(schema, "MIGRATIONS", good)
    connection = opening._connect(file)
    assert schema.migrate(connection) == 1
    assert schema.migrate(connection) == 0
    assert connection.execute("SELECT key, colour FROM chats").fetchall() == [(kept.key, "red")]
    connection.close()


def test_pe_09_a_newer_store_is_refused_politely_and_left_untouched(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ChatStore(file)
    chat(store, "from the future")
    store.end()
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    before = (file.read_bytes(), file.stat().st_mtime_ns)
    with pytest.raises(NewerStore, match=r"newer cutaway .*left untouched.*up to date"):
        ChatStore(file)
    monkeypatch.setenv("CUTAWAY_DATA_DIR", str(file.parent))
    instead = default_store()
    assert instead.trouble == "it was written by a newer cutaway"
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before


def test_pe_09_a_chat_whose_model_is_gone_opens_and_says_which_it_was(file: Path) -> None:
    store = ChatStore(file)
    conversation = store.create()
    conversation.add("user", "hi")
    conversation.add("assistant", "ho", reply=Reply("", status="end", model="gone-1b", identity="x"))
    store.save(conversation)
    store.end()
    store = ChatStore(file)
    assert store.listed()[0].model == "gone-1b"
    again = store.open(conversation.key)
    assert again is not None
    assert again.leaf.reply is not None
    assert again.leaf.reply.model == "gone-1b"
    _, commands = Exchange().ask(again, "and now?")  # whatever model is there goes on with it
    assert isinstance(commands[0], Submit)
    assert [m.content for m in commands[0].messages] == ["hi", "ho", "and now?"]
    store.end()


# ---------------------------------------------------------------------------------------- the tree is whole


def test_fr_06_an_edited_question_and_a_new_reply_keep_the_turns_after_them(file: Path) -> None:
    store = ChatStore(file)
    conversation = chat(store, "q1", "a1", "q2", "a2", "q3", "a3")
    exchange = Exchange()
    first, last = conversation.path()[0], conversation.path()[-1]
    exchange.edit(conversation, conversation.path()[1], "a1, by me")
    store.save(conversation)
    exchange.regenerate(conversation, last)
    store.save(conversation)
    _, commands = exchange.edit(conversation, first, "q1 again")
    store.save(conversation)
    assert isinstance(commands[0], Submit)
    assert [m.content for m in commands[0].messages] == ["q1 again"]
    store.end()

    store = ChatStore(file)
    again = store.open(conversation.key)
    assert again is not None
    assert [node.text for node in again.path()] == ["q1 again", ""]
    again.turn(again.path()[0], -1)
    texts = {node.text for node in again.walk()}
    assert {"q1", "a1", "a1, by me", "q2", "a2", "q3", "a3"} <= texts
    assert shape(again)[2] != shape(conversation)[2]  # the branch turned is another choice ...
    store.save(again)
    store.end()
    store = ChatStore(file)
    once_more = store.open(again.key)
    assert once_more is not None
    assert shape(once_more) == shape(again)  # ... and is kept
    store.end()


class Trees(RuleBasedStateMachine):
    """Any sequence of asking, editing, forking, turning, deleting and undoing: the file has what the screen has."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.file = Path(self.folder.name) / "chats.db"
        self.store = ChatStore(self.file)
        self.exchange = Exchange()
        self.chats = [self.store.create("s")]
        self.gone: list[Conversation] = []

    def teardown(self) -> None:
        assert self.store.end() == ""
        self.folder.cleanup()

    def _some(self, at: int) -> tuple[Conversation, list[Node]]:
        conversation = self.chats[at % len(self.chats)]
        return conversation, sorted(conversation.walk(), key=lambda node: node.number)

    @rule(at=st.integers(0, 9), text=st.text(max_size=5))
    def ask(self, at: int, text: str) -> None:
        conversation, _ = self._some(at)
        reply, _ = self.exchange.ask(conversation, text)
        assert reply.reply is not None
        reply.reply.status = "end"
        reply.text = "said"
        self.store.save(conversation)

    @rule(at=st.integers(0, 9), which=st.integers(0, 50), text=st.text(max_size=5))
    def edit(self, at: int, which: int, text: str) -> None:
        conversation, nodes = self._some(at)
        if nodes:
            reply, _ = self.exchange.edit(conversation, nodes[which % len(nodes)], text)
            assert reply.reply is not None
            reply.reply.status = "edited"
            self.store.save(conversation)

    @rule(at=st.integers(0, 9), which=st.integers(0, 50), by=st.sampled_from([-1, 1]))
    def turn(self, at: int, which: int, by: int) -> None:
        conversation, nodes = self._some(at)
        if nodes and conversation.turn(nodes[which % len(nodes)], by):
            self.store.save(conversation)

    @rule()
    def new(self) -> None:
        self.chats.append(self.store.create())

    @rule(at=st.integers(0, 9))
    def delete(self, at: int) -> None:
        conversation, nodes = self._some(at)
        self.chats.remove(conversation)
        self.store.delete(conversation)
        if nodes:
            self.gone.append(conversation)
        if not self.chats:
            self.chats.append(self.store.create())

    @rule()
    def undo(self) -> None:
        back = self.store.undelete()
        assert (back is not None) == bool(self.gone)
        if back is not None:
            assert shape(back) == shape(self.gone.pop())
            self.chats.append(back)

    @rule()
    def start_again(self) -> None:
        assert self.store.end() == ""
        self.store = ChatStore(self.file)
        self.store._deleted = [chat.key for chat in self.gone]
        opened = [self.store.open(chat.key) for chat in self.chats if chat.root.children]
        assert all(opened)
        self.chats = [chat for chat in opened if chat is not None] or [self.store.create()]

    @invariant()
    def the_file_has_what_the_screen_has(self) -> None:
        kept = [chat for chat in self.chats if chat.root.children]
        assert {item.key for item in self.store.listed(100)} == {chat.key for chat in kept}
        for conversation in kept:
            stored = self.store.load(conversation.key)
            assert stored is not None
            assert shape(grow(stored)) == shape(conversation)
            assert [m.number for m in stored.messages] == sorted(n.number for n in conversation.walk())


TestTrees = Trees.TestCase
TestTrees.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)


@given(st.integers(1, 50))
def test_numbers_always_grow(many: int) -> None:
    numbers = [new_number() for _ in range(many)]
    assert numbers == sorted(set(numbers))
    assert max(numbers) < 2**63


# -------------------------------------------------------------------------------------------- two programs


def _save_many(file: str, name: str) -> None:
    store = ChatStore(Path(file))
    conversation = store.create()
    for number in range(100):
        conversation.add("user", f"{name} {number}")
        store.save(conversation)
    assert store.end() == "", store.trouble


def test_pe_01_two_programs_start_together_and_all_200_messages_are_there(file: Path) -> None:
    context = multiprocessing.get_context("fork")
    programs = [context.Process(target=_save_many, args=(str(file), name)) for name in ("left", "right")]
    for program in programs:
        program.start()
    for program in programs:
        program.join(PATIENCE)
        assert program.exitcode == 0
    store = ChatStore(file)
    assert sorted(item.messages for item in store.listed()) == [100, 100]
    assert store.find("left 99")
    assert store.find("right 99")
    assert schema.version(store.database.connection) == len(schema.MIGRATIONS)
    store.end()


_STREAMING = """
import sys, time
from pathlib import Path
from cutaway.tui.state.conversation import Reply
from cutaway.tui.store.chats import ChatStore
store = ChatStore(Path(sys.argv[1]))
conversation = store.create()
conversation.add("user", "count")
store.save(conversation)
node = conversation.add("assistant", "", reply=Reply("r", status="writing"))
store.save(conversation)
for number in range(10**9):
    node.text += f"{number} "
    node.touch()
    store.note(conversation, node)
    print(number, flush=True)
    time.sleep(0.005)
"""


def test_kill_9_in_the_middle_of_a_reply_loses_no_more_than_the_last_second_or_so(file: Path) -> None:
    program = subprocess.Popen([sys.executable, "-c", _STREAMING, str(file)], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    # Two seconds or more; on a disk that stalls, until the file has caught up, as it does once a second.
    for line in program.stdout:
        told = int(line)
        if told >= 400 and told % 50 == 0 and told - len(_stored(file)) <= 1.5 / 0.005:
            break
    seen = _stored(file)
    os.kill(program.pid, signal.SIGKILL)
    program.wait(PATIENCE)
    program.stdout.close()
    store = ChatStore(file)
    assert store.notice == ""
    conversation = store.open(store.last())
    assert conversation is not None
    numbers = conversation.leaf.text.split()
    assert numbers == [str(number) for number in range(len(numbers))]
    assert len(numbers) >= len(seen) > 0
    assert conversation.leaf.reply is not None
    assert conversation.leaf.reply.detail == CUT_OFF
    store.end()


def _stored(file: Path) -> list[str]:
    """The words of the chat's last message, as another program reads them."""
    connection = sqlite3.connect(file)
    try:
        (text,) = connection.execute("SELECT text FROM messages ORDER BY id DESC LIMIT 1").fetchone()
    finally:
        connection.close()
    return text.split()
