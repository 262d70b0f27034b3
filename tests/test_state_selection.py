"""Selection: from a token to its page, slot, candidates, step and lane, and back from a page."""

from __future__ import annotations

from cutaway.engine.protocol import PoolTotals, Sampled
from cutaway.tui.state import EngineState, Selection, page_tokens, resolve
from hypothesis import given, settings
from hypothesis import strategies as st

from .hand_events import PIECES, Story, card, conversation, used
from .panel_host import told


def test_nothing_selected_resolves_to_nothing():
    found = resolve(Selection(), EngineState())
    assert found.request is None
    assert (found.position, found.page, found.slot) == (-1, -1, -1)


def test_following_live_is_the_newest_token_of_the_newest_request():
    state = told(conversation().events)
    found = resolve(Selection(), state)
    assert found.request is state.requests["r2"]
    assert isinstance(found.token, Sampled)
    assert found.token.piece == " B"


def test_a_generated_token_resolves_to_page_slot_step_lane_and_candidates():
    state = told(conversation().events)
    selection = Selection()
    selection.select_token("r1", 0, 10)
    found = resolve(selection, state)
    assert isinstance(found.token, Sampled)
    assert found.token.piece == " The"
    assert (found.page, found.offset, found.slot) == (5, 2, 5 * 4 + 2)
    assert (found.iteration, found.lane) == (1, 0)
    assert len(found.candidates) == 5
    assert found.written
    assert found.held
    assert found.owners == ("r1/0",)


def test_the_newest_token_has_no_keys_and_values_yet():
    state = told(conversation().events)
    selection = Selection()
    selection.select_token("r1", 0, 12)
    found = resolve(selection, state)
    assert not found.written


def test_a_prompt_token_resolves_to_the_chunk_that_computed_it_and_a_cached_one_to_none():
    state = told(conversation().events)
    selection = Selection()
    selection.select_token("r1", 0, 8)
    assert (resolve(selection, state).iteration, resolve(selection, state).lane) == (1, 0)
    selection.select_token("r1", 0, 2)
    cached = resolve(selection, state)
    assert (cached.iteration, cached.page, cached.owners) == (-1, 3, ("r1/0", "r2/0"))


def test_a_selected_page_gives_its_owners_and_tokens_and_leaves_the_token():
    state = told(conversation().events)
    selection = Selection()
    selection.select_token("r1", 0, 10)
    selection.select_page(4)
    found = resolve(selection, state)
    assert found.position == 10
    assert (found.page, found.slot) == (4, -1)
    assert [at.position for at in found.page_tokens] == [4, 5, 6, 7]
    assert [at.token.piece for at in found.page_tokens if at.token] == list(PIECES[4:8])
    selection.live()
    assert resolve(selection, state).page == -1  # the newest token has no page yet
    assert selection.follow_live


def test_every_change_of_the_selection_grows_its_version():
    selection = Selection()
    versions = [selection.version]
    for change in (
        lambda: selection.select_request("r"),
        lambda: selection.select_token("r", 0, 3),
        lambda: selection.select_page(1),
        selection.live,
    ):
        change()
        versions.append(selection.version)
    assert versions == [0, 1, 2, 3, 4]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 5).flatmap(
        lambda size: st.tuples(st.just(size), st.integers(1, 40), st.permutations(list(range(48))))
    ),
    st.data(),
)
def test_every_position_resolves_through_the_block_table(shape, data):
    size, length, order = shape
    table = tuple(order[: -(-length // size)])
    story = Story().begin(card(pages=64, page_size=size)).ask("r", [f"w{i}" for i in range(length)])
    fills = [min(size, length - i * size) for i in range(len(table))]
    story.step(
        [story.lane(0, "r", "prefill", 0, length, table, admitted=True)],
        pages=[used(page, ("r/0",), fill) for page, fill in zip(table, fills, strict=True)],
        pool=PoolTotals(64, len(table), 0, 0, 64 - len(table)),
    )
    state = told(story.events)
    selection = Selection()
    position = data.draw(st.integers(0, length - 1))
    selection.select_token("r", 0, position)
    found = resolve(selection, state)
    assert found.slot == table[position // size] * size + position % size
    assert found.written
    here = [at for at in page_tokens(state, found.page) if at.position == position]
    assert len(here) == 1
    assert here[0].token is found.token
    assert len(page_tokens(state, found.page)) == fills[position // size]
