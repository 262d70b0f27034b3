"""The parts of the application that need no screen: tree, exchange, clipboard, drafts, themes, traffic, settings."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest
from cutaway.engine.errors import SettingError
from cutaway.engine.protocol import (
    Finished,
    Lane,
    PromptRendered,
    Sampled,
    SamplingSettings,
    Step,
    Submit,
    TextDelta,
    Wait,
)
from cutaway.tui import traffic
from cutaway.tui.chat import clipboard, places
from cutaway.tui.chat.drafts import HISTORY_BYTES, HISTORY_LIMIT, Drafts, History
from cutaway.tui.chat.exchange import Exchange
from cutaway.tui.chat.meter import Meter
from cutaway.tui.chat.status import ending
from cutaway.tui.chat.visible import visible
from cutaway.tui.controls.model import NUMBERS
from cutaway.tui.looks import Colourless, ThemeError, load_themes, no_colour, read_theme
from cutaway.tui.printable import printable
from cutaway.tui.state import EngineState
from cutaway.tui.state.conversation import Conversation, Node
from cutaway.tui.state.keeping import MemoryStore
from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment
from rich.style import Style
from textual.color import Color

# ------------------------------------------------------------------------------------------------- the tree


@given(st.lists(st.tuples(st.sampled_from(["add", "branch", "turn"]), st.integers(0, 20), st.integers(-1, 1))))
def test_no_branch_is_ever_lost_and_the_path_is_always_one(deeds: list[tuple[str, int, int]]) -> None:
    conversation = Conversation("c")
    made: list[Node] = []
    for deed, at, by in deeds:
        path = conversation.path()
        node = path[at % len(path)] if path else None
        if deed == "add" or node is None:
            made.append(conversation.add("user", str(len(made))))
        elif deed == "branch":
            made.append(conversation.branch(node, str(len(made))))
        else:
            conversation.turn(node, by)
        path = conversation.path()
        assert set(conversation.walk()) == set(made)
        for above, below in zip([conversation.root, *path], path, strict=False):
            assert below.parent is above
            assert above.children[above.chosen] is below
        assert not conversation.leaf.children


def test_showing_a_far_branch_chooses_the_whole_way_to_it() -> None:
    conversation = Conversation("c")
    first = conversation.add("user", "a")
    deep = conversation.add("assistant", "b")
    conversation.branch(first, "other")
    assert deep not in conversation.path()
    conversation.show(deep)
    assert conversation.path() == [first, deep]


def test_the_title_is_the_name_or_the_first_question() -> None:
    store = MemoryStore()
    conversation = store.create()
    assert conversation.title == "new chat"
    conversation.add("user", "Why\nis the sky blue, and the sea too, on most days?")
    assert conversation.title == "Why is the sky blue, and the sea too, o…"
    store.delete(conversation)
    assert store.all() == []


# ----------------------------------------------------------------------------------------------- the exchange


def asked(text: str = "hi") -> tuple[Exchange, Conversation, Node, str]:
    exchange, conversation = Exchange(), Conversation("c", system="be brief")
    node, (command,) = exchange.ask(conversation, text)
    assert isinstance(command, Submit)
    assert [message.role for message in command.messages] == ["system", "user"]
    return exchange, conversation, node, command.request


def test_a_reply_says_what_it_waits_for_until_its_text_comes() -> None:
    exchange, _, node, request = asked()
    exchange.apply(Step(1, 0, waits=(Wait(request, 0, "4 pages needed, 2 free"),)))
    assert ending(node)[1] == "in the queue: 4 pages needed, 2 free"
    exchange.apply(Step(2, 0, lanes=(Lane(0, request, 0, "prefill", 0, 128, 512, 512),)))
    assert ending(node)[1] == "reading the prompt, 128 of 512 tokens"
    exchange.apply(Step(3, 0, lanes=(Lane(0, request, 0, "decode", 512, 1, 516, 512),)))
    assert ending(node)[1] == "writing, 4 tokens so far"
    exchange.apply(TextDelta(request, 0, "x", 1, 0))
    assert ending(node)[1] == "writing"


@pytest.mark.parametrize(
    ("reason", "detail", "words"),
    [
        ("end", "", "✓ end · 7 tokens"),
        ("stop", "END", "◼ stopped by its stop text 'END' · 7 tokens"),
        ("length", "cut at 7 tokens", "✂ cut at 7 tokens — c goes on"),
        ("aborted", "", "■ stopped after 7 tokens — c goes on"),
        ("failed", "out of memory", "✗ failed: out of memory — r tries again"),
    ],
)
def test_every_ending_is_told_by_its_own_glyph(reason, detail: str, words: str) -> None:
    exchange, _, node, request = asked()
    exchange.apply(Finished(request, 0, reason, detail, generated_tokens=7))
    assert " ".join(ending(node)[:2]) == words


def test_events_of_a_request_that_was_replaced_change_nothing() -> None:
    exchange, conversation, node, request = asked()
    exchange.apply(TextDelta(request, 0, "one ", 1, 0))
    exchange.apply(Finished(request, 0, "aborted"))
    exchange.go_on(conversation, node)
    assert exchange.apply(TextDelta(request, 0, "late", 2, 0)) == []
    assert node.text == "one "


def test_messages_left_out_of_the_window_are_told() -> None:
    exchange, _, node, request = asked()
    notes = ("2 older messages are outside the window of 64 tokens.",)
    told = PromptRendered(request, "", (), 0, 0, 0, 0, 64, left_out=(1, 2), repairs=("system was folded",), notes=notes)
    exchange.apply(told)
    assert node.reply is not None
    assert node.reply.note == "system was folded; 2 older messages are outside the window of 64 tokens"


def test_tokens_and_characters_find_each_other_across_split_characters() -> None:
    _, _, node, request = asked()
    state = EngineState()
    pieces = [b" Sky", " é".encode()[:2], " é".encode()[2:], b" blue"]
    state.apply(PromptRendered(request, "", (), 0, 0, 0, 0, 64))
    for index, piece in enumerate(pieces):
        sampled = Sampled(request, 0, index, index, 1, "", piece, index + 1)
        state.apply(Step(index, 0, lanes=(Lane(0, request, 0, "decode", index, 1, index + 1, 0),), sampled=(sampled,)))
    node.text = "Sky é blue"
    found = state.requests[request]
    assert places.span(node, found, 0, 0) == (0, 3)
    assert places.span(node, found, 0, 2) == (4, 5)
    assert places.span(node, found, 0, 3) == (5, 10)
    assert places.position(node, found, 0, 6) == 3
    assert places.span(node, found, 0, 9) is None


# ----------------------------------------------------------------------------------------------- clipboard


def test_a_local_desktop_uses_its_own_program_and_ssh_the_terminal() -> None:
    have = {"wl-copy", "xclip", "pbcopy", "clip.exe"}

    def which(name: str) -> str | None:
        return name if name in have else None

    assert clipboard.native_command({"WAYLAND_DISPLAY": "w"}, which) == ["wl-copy"]
    assert clipboard.native_command({"DISPLAY": ":0"}, which) == ["xclip", "-selection", "clipboard"]
    assert clipboard.native_command({"DISPLAY": ":0", "SSH_TTY": "/dev/pts/1"}, which) is None
    assert clipboard.native_command({}, which) is None


@pytest.mark.parametrize(
    ("env", "before", "after"),
    [
        ({}, "\x1b]52;c;", "\x07"),
        ({"TMUX": "x"}, "\x1bPtmux;\x1b\x1b]52;c;", "\x07\x1b\\"),
        ({"TERM": "screen-256color"}, "\x1bP\x1b]52;c;", "\x07\x1b\\"),
    ],
)
def test_osc_52_is_wrapped_as_the_terminal_needs_it(env: dict[str, str], before: str, after: str) -> None:
    text = "tab\there é 漢"
    sequence = clipboard.osc52(text, env)
    assert sequence is not None
    assert sequence.startswith(before)
    assert sequence.endswith(after)
    assert base64.b64decode(sequence.removeprefix(before).removesuffix(after)).decode() == text


def test_what_was_done_is_said_and_too_much_for_the_terminal_is_refused() -> None:
    written: list[str] = []
    assert "OSC 52" in clipboard.copy("hello", written.append, {})
    assert len(written) == 1
    assert clipboard.copy("x" * 100_000, written.append, {}).startswith("Not copied: 100,000 characters")
    assert len(written) == 1


def test_saving_never_overwrites(tmp_path: Path) -> None:
    first = clipboard.save("one\r\n", tmp_path, "a/b: c")
    second = clipboard.save("two", tmp_path, "a/b: c")
    assert first.read_bytes() == b"one\r\n"
    assert first != second
    assert first.parent == second.parent == tmp_path


# -------------------------------------------------------------------------------------- drafts and history


def test_a_draft_is_found_again_only_after_its_program_is_gone(tmp_path: Path) -> None:
    mine = Drafts(tmp_path)
    mine.keep("half a thought\n\ud800")
    assert Drafts(tmp_path).left_behind() == ""
    mine.path.rename(tmp_path / "draft-999999999.txt")
    assert Drafts(tmp_path).left_behind() == "half a thought\n\ud800"
    assert Drafts(tmp_path).left_behind() == ""
    mine.keep("  ")
    assert not mine.path.exists()


def test_a_folder_that_can_not_be_written_does_not_disturb(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    drafts = Drafts(blocked / "below")
    drafts.keep("text")
    assert drafts.left_behind() == ""
    History(blocked / "below" / "prompts.jsonl").add("text")


def test_the_history_is_kept_bounded_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    history = History(path)
    for number in range(HISTORY_LIMIT + 10):
        history.add(f"line {number}\nand more")
    history.add(f"line {HISTORY_LIMIT + 9}\nand more")
    again = History(path)
    assert len(again.entries) == HISTORY_LIMIT
    assert again.older("draft") == f"line {HISTORY_LIMIT + 9}\nand more"
    assert again.newer() == "draft"
    assert again.newer() is None
    path.write_text("not json\n[1]\n" + '"fine"\n')
    assert History(path).entries == ["fine"]


def test_of_very_long_prompts_the_newest_are_kept_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    history = History(path)
    for number in range(6):
        history.add(f"{number}" + "x" * (HISTORY_BYTES // 4))
    assert [entry[0] for entry in History(path).entries] == ["3", "4", "5"]


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX's")
def test_what_was_typed_is_nobody_else_s_to_read(tmp_path: Path) -> None:
    drafts, history = Drafts(tmp_path / "state"), History(tmp_path / "state" / "prompts.jsonl")
    drafts.keep("a secret")
    history.add("another")
    for path in (drafts.path, history.path, tmp_path / "state"):
        assert path is not None
        assert path.stat().st_mode & 0o077 == 0
    assert len(list((tmp_path / "state").iterdir())) == 2


# -------------------------------------------------------------------------------------------------- looks


def test_the_themes_we_ship_are_there_and_the_users_folder_comes_last(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('name = "cutaway-dark"\n[colours]\nprimary = "#123456"\n')
    (tmp_path / "broken.toml").write_text("name = ")
    themes, problems = load_themes(tmp_path)
    assert {"cutaway-dark", "cutaway-light", "cutaway-high-contrast", "cutaway-colour-blind"} <= set(themes)
    assert themes["cutaway-dark"].primary == "#123456"
    assert len(problems) == 1
    assert "broken.toml" in problems[0]
    assert not themes["cutaway-light"].dark


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[colours]\nprimary = "#12345z"', "primary = '#12345z' is no colour"),
        ('[colours]\nprimary = "red"\nink = "blue"', "unknown colour 'ink'"),
        ("[colours]\nprimary = 3", "[colours] must hold strings only"),
        ('colors = 1\n[colours]\nprimary = "red"', "unknown key 'colors'"),
        ("dark = true", "lacks the colour primary"),
        ('[colours]\nprimary = "red"\n[variables]\ntext-muted = "red; }"', "text-muted = 'red; }' is no colour"),
        ('[colours]\nprimary = "red"\n[variables]\nborder = "auto 50%"', "border = 'auto 50%' is no colour"),
        ('[colours]\nprimary = "red"\n[variables]\nlink-style = "bold none"', "link-style = 'bold none' is no style"),
        ('[colours]\nprimary = "red"\n[variables]\n"a }" = "red"', "'a }' is no variable's name"),
    ],
)
def test_a_wrong_theme_file_is_named_with_what_is_wrong(text: str, words: str) -> None:
    with pytest.raises(ThemeError) as error:
        read_theme("mine.toml", text)
    assert words in str(error.value)
    assert "mine.toml" in str(error.value)


def test_variables_of_a_theme_may_be_whatever_textual_takes_for_them() -> None:
    given = {
        "text": "auto 80%",
        "border": "#123",
        "link-style": "bold not underline",
        "button-focus-text-style": "none",
    }
    lines = "\n".join(f'{name} = "{value}"' for name, value in given.items())
    theme = read_theme("mine.toml", f'[colours]\nprimary = "red"\n[variables]\n{lines}')
    assert given.items() <= theme.variables.items()


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG 2.2 defines it."""
    parts = [c / 255 for c in Color.parse(colour).rgb]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def test_every_theme_of_ours_can_be_read() -> None:
    themes, _ = load_themes()
    for theme in themes.values():
        assert theme.background is not None
        least = 7.0 if "high" in theme.name else 4.5
        for colour in (theme.foreground, theme.primary, theme.success, theme.warning, theme.error):
            assert colour is not None
            assert contrast(colour, theme.background) >= (4.0 if colour == theme.error else least), (theme.name, colour)


def test_te_08_the_filter_takes_every_colour_and_keeps_the_rest() -> None:
    assert no_colour({"NO_COLOR": "1"})
    assert not no_colour({"NO_COLOR": ""})
    assert not no_colour({})
    style = Style.parse("bold reverse red on blue")
    (segment,) = Colourless().apply([Segment("x", style)], Color.parse("black"))
    assert segment.style is not None
    assert segment.style.color is None
    assert segment.style.bgcolor is None
    assert segment.style.bold
    assert segment.style.reverse


# ------------------------------------------------------------------------------------------------- the rest


@given(st.text() | st.text("a0\u200c\u200dक\x1b"))
def test_visible_text_keeps_its_length_and_holds_nothing_that_is_obeyed(text: str) -> None:
    shown = visible(text)
    assert len(shown) == len(text)
    assert printable(shown) == shown


@given(st.sampled_from(NUMBERS), st.integers(-2000, 2000))
def test_a_moved_number_stays_in_its_range(number, by: int) -> None:
    settings = SamplingSettings()
    for _ in range(3):
        settings = number.moved(settings, by)
        assert number.text(settings)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [("T", "0", 0.0), ("T", "0,5", 0.5), ("top-k", "off", 0), ("seed", "", None), ("max", "12", 12),
     ("seed", str(2**63 - 1), 2**63 - 1)],
)  # fmt: skip
def test_numbers_are_read_as_people_write_them(name: str, text: str, value: float | None) -> None:
    number = next(number for number in NUMBERS if number.name == name)
    assert getattr(number.read(SamplingSettings(), text), number.field) == value


@pytest.mark.parametrize(
    ("name", "text"), [("T", "-1"), ("T", "hot"), ("top-p", "0"), ("max", "0"), ("seed", "1.5"), ("T", "nan")]
)
def test_a_wrong_number_is_refused_with_its_range(name: str, text: str) -> None:
    number = next(number for number in NUMBERS if number.name == name)
    with pytest.raises(SettingError, match="must be"):
        number.read(SamplingSettings(), text)


def test_traffic_is_read_by_lines_or_by_paragraphs(tmp_path: Path) -> None:
    file = tmp_path / "p.txt"
    file.write_text("one\ntwo\n")
    assert traffic.read_prompts(file) == ["one", "two"]
    file.write_text("one\nmore\n\ntwo\n")
    assert traffic.read_prompts(file) == ["one\nmore", "two"]
    file.write_text("\n\n")
    with pytest.raises(traffic.TrafficError, match="no prompts"):
        traffic.read_prompts(file)
    file.write_bytes(os.urandom(64) + b"\xff")
    with pytest.raises(traffic.TrafficError, match="can't be read"):
        traffic.read_prompts(file)


def test_the_built_in_traffic_has_short_and_long_prompts_with_labels_of_their_own() -> None:
    made = traffic.submits([f"t{i}" for i in range(8)], SamplingSettings(seed=1))
    lengths = [len(submit.messages[0].content) for submit in made]
    assert min(lengths) < 40 < 500 < max(lengths)
    assert len({submit.label for submit in made}) == 8
    assert all(submit.settings.max_tokens for submit in made)


def test_the_meter_says_what_will_happen_before_it_does() -> None:
    assert Meter(10, 100).warning() == ""
    assert Meter(80, 100).warning().startswith("80% of the window is full. At 100 tokens")
    assert Meter(0, 0).text() == ""
