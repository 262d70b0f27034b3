"""EngineState under any order of any events: it never raises, stays bounded, and its pool is the last word told."""

from __future__ import annotations

from cutaway.engine.protocol import (
    Configured,
    Event,
    Failed,
    Finished,
    Lane,
    LoadProgress,
    Metrics,
    PageChange,
    PageDetail,
    PoolTotals,
    PromptRendered,
    Ready,
    Rejected,
    Sampled,
    Step,
    Switches,
    TextDelta,
    Wait,
    Welcome,
)
from cutaway.tui.state import EngineState, Limits, Selection, resolve
from hypothesis import given, settings
from hypothesis import strategies as st

from .hand_events import candidates_of, card, prompt_tokens

SMALL = Limits(
    requests=3, samples=2, tokens=40, candidates=5, characters=20, chunks=4, iterations=6, finishes=4,
    measurements=8, pages=12, details=2, flashes=3,
)  # fmt: skip

names = st.sampled_from(["r1", "r2", "r3", "r4", "", "r/1"])
samples = st.integers(-1, 4)
small = st.integers(-2, 30)
times = st.integers(0, 10**6)
owners = st.tuples(names, st.sampled_from(["0", "1", "x", ""])).map("/".join)
candidates = st.sampled_from([(), candidates_of((1.0, 0.5))])

lanes = st.builds(
    Lane, lane=st.integers(-1, 5), request=names, sample=samples,
    phase=st.sampled_from(["prefill", "decode", "recompute", "padding"]), start=small, count=small, length=small,
    prompt=small, cached=small, reuse_needs=small, admitted=st.booleans(),
    block_table=st.lists(small, max_size=4).map(tuple),
)  # fmt: skip
waits = st.builds(Wait, names, samples, st.text(max_size=5))
changes = st.builds(
    PageChange, page=small, state=st.sampled_from(["used", "cached", "free"]),
    owners=st.lists(owners, max_size=3).map(tuple), fill=small, refs=small, evicted=st.booleans(), copied_from=small,
)  # fmt: skip
sampled = st.builds(
    Sampled, request=names, sample=samples, index=st.one_of(small, st.just(10**12)), position=small, id=small,
    piece=st.text(max_size=3), bytes=st.binary(max_size=3), time_ns=times,
    logprob=st.one_of(st.none(), st.floats(allow_nan=False, max_value=0)), candidates=candidates,
)  # fmt: skip


def many(strategy: st.SearchStrategy, most: int = 3) -> st.SearchStrategy:
    return st.lists(strategy, max_size=most).map(tuple)


totals = st.builds(PoolTotals, small, small, small, small, small)
steps = st.builds(
    Step, iteration=small, started_ns=times, schedule_ns=times, run_ns=times, lanes=many(lanes), waits=many(waits),
    pages=many(changes), sampled=many(sampled), preempted=many(owners), computed=small, padding=small,
    pool=totals, policy=st.sampled_from(["continuous", "static"]), merged=st.integers(0, 3),
)  # fmt: skip
events: st.SearchStrategy[Event] = st.one_of(
    steps,
    st.builds(Welcome, st.just(1), st.just("0"), small, times),
    st.builds(LoadProgress, st.text(max_size=3), small, small),
    st.integers(0, 20).map(lambda pages: Ready(card(pages=pages, page_size=pages % 3))),
    st.builds(Configured, st.builds(Switches, max_lanes=small, paused=st.booleans())),
    st.builds(
        PromptRendered, names, st.text(max_size=3),
        st.integers(0, 60).map(lambda n: prompt_tokens(["x"] * n)), times, times, times, times, small,
        source=names, samples=small, kept=many(sampled),
    ),
    st.builds(TextDelta, names, samples, st.text(max_size=9), small, times),
    st.builds(Finished, names, samples, st.sampled_from(["end", "length", "failed"]), prompt_tokens=small),
    st.builds(Rejected, names, st.text(max_size=3)),
    st.builds(Failed, st.text(max_size=3), fatal=st.booleans(), request=names),
    st.builds(PageDetail, small, st.just("used"), many(small), many(st.text(max_size=2))),
    st.builds(Metrics, small),
)  # fmt: skip


def check_bounds(state: EngineState, limits: Limits) -> None:
    requests = state.requests.values()
    assert len(requests) <= limits.requests
    assert sum(request.tokens_kept for request in requests) == state.kept.tokens <= limits.tokens
    kept = [token for request in requests for s in request.samples.values() for token in s.tokens if token]
    assert len(state.kept._with_candidates) <= limits.candidates
    assert len(state.kept._letters) <= limits.requests
    for request in requests:
        assert len(request.samples) <= limits.samples
        for sample in request.samples.values():
            assert len(sample.made) == len(sample.tokens)
            assert len(sample.text()) <= limits.characters
            assert len(sample.chunks) <= limits.chunks
    assert len(kept) <= limits.tokens
    assert len(state.lanes.records) <= limits.iterations
    assert len(state.lanes.finishes) <= limits.finishes
    timings = state.timeline
    assert max(map(len, (timings.ttft_ns, timings.itl_ns, timings.total_ns))) <= limits.measurements
    assert len(state.pool.pages) <= max(limits.pages, state.pool.size)
    assert len(state.pool.details) <= limits.details
    assert len(state.pool.flashes) <= limits.flashes


@settings(max_examples=200, deadline=None)
@given(st.lists(events, max_size=30), st.lists(st.tuples(names, samples, small), max_size=3))
def test_any_sequence_of_events_is_taken_and_memory_stays_bounded(sequence, selections):
    state = EngineState(SMALL)
    selection = Selection()
    for at, event in enumerate(sequence):
        state.apply(event, at * 1_000)
        state.mark_painted("r1", at)
        check_bounds(state, SMALL)
        resolve(selection, state)
    for request, sample, position in selections:
        selection.select_token(request, sample, position)
        resolve(selection, state)
        selection.select_page(position)
        resolve(selection, state)
        selection.live()
        resolve(selection, state)
    state.lanes.compare()
    state.lanes.useful_share()
    state.timeline.throughput()
    for request in state.requests.values():
        assert request.phase
        assert request.length() >= 0


@settings(max_examples=150, deadline=None)
@given(st.lists(many(changes, 6), max_size=12))
def test_the_pool_is_a_dictionary_of_the_latest_change_of_each_page(batches):
    state = EngineState()
    state.apply(Ready(card(pages=20)))
    model: dict[int, PageChange] = {}
    evictions = 0
    for at, batch in enumerate(batches):
        state.apply(Step(at, at, pages=batch, pool=PoolTotals(20, 1, 0, 0, 19)))
        model.update({change.page: change for change in batch if 0 <= change.page < 20})
        evictions += sum(change.evicted for change in batch if 0 <= change.page < 20)
    assert state.pool.pages == model
    assert state.pool.evictions == evictions
    assert all(state.pool.page_fill(page) == (model[page].fill if page in model else 0) for page in range(20))
