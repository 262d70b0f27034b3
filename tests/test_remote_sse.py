"""Server-sent events: cut at \\n, \\r\\n and \\r alone, in whatever pieces the bytes come."""

from __future__ import annotations

import pytest
from cutaway.engine.remote.sse import LARGEST, EventReader, ServerEvent, TooLarge
from hypothesis import given
from hypothesis import strategies as st

from .http_server import body


def read(*pieces: bytes) -> list[ServerEvent]:
    reader = EventReader()
    return [event for piece in pieces for event in reader.feed(piece)] + reader.end()


def test_oa_01_comments_are_no_events_but_signs_of_life():
    reader = EventReader()
    assert reader.feed(b":\n\n: ping\n\n") == []
    assert reader.signs == 4
    assert reader.feed(b'data: {"ok": 1}\n\n: OPENROUTER PROCESSING\n\ndata: [DONE]\n\n') == [
        ServerEvent("", (b'{"ok": 1}',)),
        ServerEvent("", (b"[DONE]",)),
    ]


def test_oa_04_only_line_feeds_and_carriage_returns_end_a_line():
    line = 'data: {"choices":[{"delta":{"content":"a\u2028b\u0085c \x0b\x0c\x1c ✅"}}]}\n\n'.encode()
    (event,) = read(line)
    assert event.data == (line[6:-2],)


@given(st.data())
def test_any_split_of_a_recorded_stream_gives_the_same_events(draw: st.DataObject):
    whole = body("vllm-0.32", "chat_stream")[:900]
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert read(*pieces) == read(whole)


@given(
    st.lists(st.sampled_from([b"data: a", b"data:b", b"data", b": c", b"event: error", b"id: 1", b""]), max_size=12),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.integers(1, 5),
)
def test_the_three_line_ends_mean_the_same(lines: list[bytes], end: bytes, size: int):
    whole = end.join([*lines, b"", b""])
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    assert read(*pieces) == read(b"\n".join([*lines, b"", b""]))


def test_names_belong_to_one_event_and_a_mark_at_the_start_to_none():
    events = read(b"\xef\xbb\xbfevent: error\ndata: x\n\ndata: y\n\n")
    assert events == [ServerEvent("error", (b"x",)), ServerEvent("", (b"y",))]


def test_an_unfinished_line_at_the_end_is_given_up_and_a_finished_one_kept():
    assert read(b"data: whole\ndata: ha") == [ServerEvent("", (b"whole",))]


def test_a_line_without_end_is_refused_rather_than_kept():
    endless = [b"x" * (1 << 20)] * (LARGEST // (1 << 20) + 2)
    with pytest.raises(TooLarge):
        read(*endless)
