"""Messages survive the wire in any pieces, and anything else on it is named."""

from __future__ import annotations

import os
import string
from collections.abc import Iterator

import msgspec
import pytest
from cutaway.engine import events, step_events, wire
from cutaway.engine.errors import ProtocolError
from cutaway.engine.protocol import (
    Candidate,
    Configure,
    Finished,
    Hello,
    Load,
    Message,
    Sampled,
    SamplingSettings,
    Shutdown,
    Step,
    Submit,
    TextDelta,
)
from cutaway.tui.state.lanes import IterationRecord, LaneCell
from hypothesis import given
from hypothesis import strategies as st

TEXTS = st.text(max_size=40)
COMMANDS = st.one_of(
    st.builds(Submit, request=TEXTS, messages=st.lists(st.builds(Message, TEXTS, TEXTS), max_size=3).map(tuple)),
    st.builds(Load, model=TEXTS, pages=st.integers(0, 2**40)),
    st.builds(Configure, kv_reuse=st.none() | st.booleans()),
    st.just(Hello()),
    st.just(Shutdown()),
)


@given(st.lists(COMMANDS, max_size=8), st.data())
def test_commands_come_out_as_they_went_in_however_the_stream_is_cut(commands, data):
    stream = b"".join(wire.encode(command) for command in commands)
    reader, seen = wire.FrameReader(), []
    while stream:
        cut = data.draw(st.integers(1, len(stream)))
        seen += [wire.decode_command(payload) for payload in reader.feed(stream[:cut])]
        stream = stream[cut:]
    reader.end()
    assert seen == commands


def test_events_with_bytes_and_infinities_come_out_as_they_went_in():
    candidate = Candidate(1, "é", b"\xc3", float("-inf"), None, 0.0, 0.0, "top_k")
    sampled = Sampled("a", 0, 0, 7, 1, "\ufffd", b"\xc3", 12, candidates=(candidate,))
    event = Step(iteration=3, started_ns=2**62, sampled=(sampled,))
    (payload,) = wire.FrameReader().feed(wire.encode(event))
    assert wire.decode_event(payload) == event


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_lone_surrogates_become_replacement_characters_and_never_stop_the_stream(text):
    (payload,) = wire.FrameReader().feed(wire.encode(TextDelta("a", 0, text, 1, 0)))
    event = wire.decode_event(payload)
    assert isinstance(event, TextDelta)
    assert event.text == text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def test_bytes_and_number_keys_survive_the_removal_of_surrogates():
    settings = SamplingSettings(logit_bias={5: -1.5})
    (payload,) = wire.FrameReader().feed(wire.encode(Submit("a\ud800", text="b", settings=settings)))
    assert wire.decode_command(payload) == Submit("a\ufffd", text="b", settings=settings)


@given(st.text(string.printable, min_size=4))
def test_text_on_the_stream_is_refused_at_once_and_quoted(text):
    with pytest.raises(ProtocolError, match="something else than messages"):
        list(wire.FrameReader().feed(text.encode()))


def test_an_ssh_banner_is_quoted_up_to_its_first_line():
    banner = b"Welcome to Ubuntu 24.04 LTS\n\n * Documentation\n" + wire.encode(Hello())
    with pytest.raises(ProtocolError, match=r"'Welcome to Ubuntu 24.04 LTS'…\. The engine's command must print"):
        list(wire.FrameReader().feed(banner))


def test_escape_codes_in_a_banner_are_quoted_harmlessly():
    with pytest.raises(ProtocolError) as caught:
        list(wire.FrameReader().feed(b"\x1b[31mhello\x9b"))
    assert "\x1b" not in str(caught.value)


def test_a_message_larger_than_the_bound_is_refused_by_the_sender():
    with pytest.raises(ProtocolError, match="may have"):
        wire.encode(TextDelta("a", 0, "x" * wire.LARGEST, 1, 0))


def test_a_number_outside_64_bits_is_refused_by_the_sender():
    with pytest.raises(ProtocolError, match="64 bits"):
        wire.encode(Submit("a", settings=SamplingSettings(seed=2**70)))


def test_an_unknown_command_leaves_the_stream_readable():
    strange = msgspec.msgpack.encode({"command": "levitate"})
    stream = len(strange).to_bytes(4, "big") + strange + wire.encode(Shutdown())
    first, second = wire.FrameReader().feed(stream)
    with pytest.raises(wire.UnknownMessage, match="levitate"):
        wire.decode_command(first)
    assert wire.decode_command(second) == Shutdown()


def test_unknown_fields_are_ignored():
    later = msgspec.msgpack.encode({"event": "finished", "request": "a", "sample": 0, "reason": "end", "mood": "good"})
    assert wire.decode_event(later) == Finished("a", 0, "end")


def test_a_stream_that_ends_inside_a_message_says_so():
    reader = wire.FrameReader()
    list(reader.feed(wire.encode(Load(model="m"))[:-1]))
    with pytest.raises(ProtocolError, match="ended in the middle"):
        reader.end()


def test_payloads_are_read_from_a_descriptor_until_its_end():
    source, target = os.pipe()
    wire.write_all(target, wire.encode(Hello()) + wire.encode(Shutdown()))
    os.close(target)
    try:
        assert [wire.decode_command(p) for p in wire.read_payloads(source, size=3)] == [Hello(), Shutdown()]
    finally:
        os.close(source)


def held_by(kind: msgspec.inspect.Type) -> Iterator[msgspec.inspect.Type]:
    """Every type within a type, itself included, but for what stands in a struct of ours."""
    yield kind
    if isinstance(kind, msgspec.inspect.VarTupleType):
        yield from held_by(kind.item_type)
    elif isinstance(kind, msgspec.inspect.TupleType):
        for item in kind.item_types:
            yield from held_by(item)
    elif isinstance(kind, msgspec.inspect.UnionType):
        for item in kind.types:
            yield from held_by(item)


def test_what_no_garbage_is_looked_for_in_can_be_in_no_cycle():
    known = [*vars(step_events).values(), *vars(events).values(), IterationRecord, LaneCell]
    kinds = {kind for kind in known if isinstance(kind, type) and issubclass(kind, msgspec.Struct)}
    unseen = {kind for kind in kinds if not kind.__struct_config__.gc}
    assert {Step, Sampled, Candidate, TextDelta} <= unseen
    inside = msgspec.inspect
    plain = (
        inside.IntType, inside.FloatType, inside.StrType, inside.BytesType, inside.BoolType, inside.NoneType,
        inside.LiteralType, inside.TupleType, inside.VarTupleType, inside.UnionType,
    )  # fmt: skip
    for kind in unseen:
        assert kind.__struct_config__.frozen
        for field in inside.type_info(kind).fields:
            for held in held_by(field.type):
                assert isinstance(held, plain) or (isinstance(held, inside.StructType) and held.cls in unseen), field
