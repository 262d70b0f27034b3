"""EngineState: what it makes of single events and of a small story."""

from __future__ import annotations

import subprocess
import sys

import msgspec
from cutaway.engine.protocol import (
    Configured,
    Failed,
    Finished,
    LoadProgress,
    Metrics,
    PageDetail,
    PromptRendered,
    Ready,
    Rejected,
    Switches,
    TextDelta,
    Timeline,
    Wait,
    Welcome,
)
from cutaway.tui.state import Clock, EngineState, Letters, Limits, letter, percentile

from .hand_events import MS, PIECES, WORDS, Story, candidates_of, card, conversation
from .panel_host import told


def test_state_imports_neither_textual_nor_torch():
    code = (
        "import sys, cutaway.tui.state; print(sorted({'torch', 'textual', 'rich', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_loading_ends_when_the_model_is_ready_and_the_pool_starts_over():
    state = EngineState()
    state.apply(LoadProgress("weights", 3, 10, "tensors"))
    assert state.loading is not None
    state.apply(Ready(card(pages=9)))
    assert state.loading is None
    assert state.card is not None
    assert (state.pool.size, state.pool.totals.free) == (9, 9)
    state.apply(Configured(Switches(policy="static", max_lanes=3)))
    assert state.switches.policy == "static"
    assert state.lanes.max_lanes == 3


def test_every_event_makes_the_version_grow():
    state = EngineState()
    seen = [state.version]
    for event in conversation().events:
        state.apply(event)
        seen.append(state.version)
    assert seen == sorted(set(seen))


def test_a_missing_capability_gives_the_cards_reason():
    state = EngineState()
    assert state.lacks("pages") == ""
    state.apply(Ready(card(capabilities=("tokens",), missing={"pages": "Not served from pages."})))
    assert state.lacks("pages") == "Not served from pages."
    assert state.lacks("tokens") == ""


def test_a_request_gathers_its_tokens_text_chunks_and_counters():
    state = told(conversation().events)
    request = state.requests["r1"]
    sample = request.samples[0]
    assert (request.letter, request.phase, request.cached) == ("A", "decode", 4)
    assert [token.piece for token in sample.tokens if token] == [" The", " sky", " is"]
    assert sample.text() == " The sky is"
    assert [(chunk.start, chunk.count) for chunk in sample.chunks] == [(4, 4), (8, 2)]
    assert (request.computed, request.recomputed, request.spared) == (8, 0, 4)
    assert sample.block_table == (3, 4, 5)
    assert sample.made == [(1, 0), (2, 0), (3, 0)]
    assert request.length() == 13


def test_a_wait_is_kept_with_its_reason_until_the_request_runs():
    events = conversation().events
    until = next(i for i, event in enumerate(events) if getattr(event, "waits", ()))
    state = told(events[: until + 1])
    waiting = state.requests["r2"].samples[0]
    assert state.requests["r2"].phase == "queued"
    assert waiting.wait is not None
    assert waiting.wait.reason == "4 pages needed, 2 free"
    running = told(events).requests["r2"].samples[0]
    assert running.wait is None


def test_times_of_a_request_are_the_events_times():
    state = told(conversation().events)
    request, sample = state.requests["r1"], state.requests["r1"].samples[0]
    assert sample.scheduled_ns - request.submitted_ns == MS
    assert sample.prefill_ns == 16 * MS
    assert sample.decode_ns == 16 * MS
    assert sample.sample_ns == 4 * MS
    assert sample.intervals_ns() == [10 * MS, 10 * MS]
    assert sample.tokens_per_second() == 100
    assert list(state.timeline.itl_ns) == [10 * MS] * 3
    assert len(state.timeline.ttft_ns) == 2


def test_text_is_joined_in_order_and_by_channel():
    state = EngineState()
    for text, channel in (("a", "reasoning"), ("b", "answer"), ("c", "answer")):
        state.apply(TextDelta("r", 0, text, 1, 5, channel), 6)  # type: ignore[arg-type]
    sample = state.requests["r"].samples[0]
    assert (sample.text(), sample.text("reasoning")) == ("bc", "a")


def test_a_fork_shows_its_sources_prompt_and_the_tokens_it_took_over():
    story = conversation()
    kept = tuple(event.sampled[0] for event in story.events if getattr(event, "sampled", ()))[:2]
    story.events.append(PromptRendered("r3", "", (), 0, 0, story.now, story.now, 128, source="r1", kept=kept))
    state = told(story.events)
    fork = state.requests["r3"]
    assert [token.piece for token in fork.prompt] == list(PIECES)
    assert (fork.source, fork.length()) == ("r1", 12)
    token = fork.token_at(0, 11)
    assert token is not None
    assert token.piece == " sky"
    assert fork.samples[0].tokens_per_second() == 0


def test_a_fork_takes_its_pages_over_and_counts_as_no_miss_of_the_prefix_cache():
    story = conversation()
    before = told(story.events).pool.hit_rate
    story.events.append(PromptRendered("r3", "", (), 0, 0, story.now, story.now, 128, source="r1"))
    story.prompts["r3"] = len(PIECES)
    story.step([story.lane(0, "r3", "decode", 11, 1, admitted=True)])
    state = told(story.events)
    assert state.requests["r3"].samples[0].admitted
    assert state.pool.hit_rate == before


def test_with_the_engine_goes_what_was_under_way_and_what_is_done_stays_done():
    story = conversation()
    story.ask("r4", ("x",))
    story.step([], waits=[Wait("r4", 0, "needs 4 pages")])
    state = told(story.events)
    done = [name for name, request in state.requests.items() if request.done]
    under_way = [name for name, request in state.requests.items() if not request.done]
    assert "r4" in under_way
    version = state.requests["r4"].version
    state.lost("The engine was killed.")
    assert all(state.requests[name].phase == "failed" for name in under_way)
    assert all(state.requests[name].phase == "finished" for name in done)
    assert state.requests["r4"].version > version
    assert not state.lanes.waits


def test_merged_iterations_leave_no_hole_in_the_prefill_and_claim_no_step_for_their_tokens():
    story = Story().begin().ask("r", ["w"] * 40)
    story.step([story.lane(0, "r", "prefill", 0, 8, (1,))])
    lane = story.lane(0, "r", "prefill", 24, 16, (1, 2, 3))
    tokens = [story.token("r", "a"), story.token("r", "b")]
    story.step([lane], tokens)
    story.events = [
        msgspec.structs.replace(event, merged=2) if getattr(event, "sampled", ()) else event for event in story.events
    ]
    state = told(story.events)
    sample = state.requests["r"].samples[0]
    assert [(c.start, c.count, c.iteration) for c in sample.chunks] == [(0, 8, 0), (8, 16, -1), (24, 16, 1)]
    assert sample.made == [(-1, -1), (1, 0)]
    prefill = tuple((start, 8, start, start + 5) for start in range(0, 40, 8))
    end = Finished("r", 0, "end", timeline=Timeline(prefill=prefill))
    state.apply(end)
    assert [(c.start, c.count, c.iteration) for c in sample.chunks] == [
        (0, 8, 0), (8, 8, -1), (16, 8, -1), (24, 8, -1), (32, 8, -1)
    ]  # fmt: skip


def test_finish_times_come_side_by_side_for_the_same_work():
    state = EngineState()
    story = Story().begin()
    for request, policy, steps in (("c", "continuous", 2), ("s", "static", 5)):
        submitted = story.now
        story.ask(request, PIECES, label="short 1")
        for _ in range(steps):
            story.step(
                [story.lane(0, request, "prefill", 0, 10, (1,))],
                [story.token(request, " x")],
                policy=policy,  # type: ignore[arg-type]
            )
        story.finish(request, submitted=submitted)
    for event in story.events:
        state.apply(event)
    ((label, continuous, static),) = state.lanes.compare()
    assert label == "short 1"
    assert continuous is not None
    assert static is not None
    assert (continuous.total_ns, static.total_ns) == (21 * MS, 51 * MS)


def test_useful_share_counts_padding_and_idle_lanes_that_somebody_waits_for():
    story = Story().begin()
    story.step([story.lane(0, "a", "decode", 5, 1), story.lane(1, "b", "padding", 5, 1)])
    state = told(story.events)
    assert state.lanes.useful_share() == 0.5
    assert told(conversation().events).lanes.useful_share() == 6 / 7


def test_painting_is_noted_once_and_compared_with_completion():
    story = conversation().finish("r1")
    state = told(story.events)
    state.apply(Welcome(1, "0", 1, 10), 20)
    state.mark_painted("r1", 1_100 * MS)
    state.mark_painted("r1", 1_200 * MS)
    state.mark_painted("unknown", 5)
    shown = state.timeline.shown["streamed"]
    assert shown.first_paint_ns == 100 * MS
    assert shown.tokens == 3
    assert state.requests["r1"].samples[0].last_painted_ns == 1_200 * MS


def test_a_clock_of_another_host_is_lined_up_and_transport_is_called_derived():
    same, other = Clock(), Clock()
    same.welcome(1_000, 1_500)
    assert (same.transport_ns(2_000, 2_300), same.derived) == (300, False)
    other.welcome(1_000, 7_000_000_000_000)
    assert other.derived
    assert other.transport_ns(2_000, 7_000_000_000_500) == 0
    assert other.transport_ns(3_000, 7_000_000_002_500) == 1_000
    assert other.here(0) == 0


def test_errors_are_kept_and_belong_to_their_request():
    state = EngineState()
    state.apply(Rejected("r", "Too long.", "Shorten it."))
    assert state.requests["r"].phase == "rejected"
    assert state.failure is not None
    state.apply(TextDelta("q", 0, "x", 1, 1), 2)
    state.apply(Failed("Out of memory.", request="q"))
    assert state.requests["q"].phase == "failed"
    state.apply(Failed("Gone.", fatal=True, request="never seen"))
    assert "never seen" not in state.requests


def test_pages_follow_the_changes_and_flash_for_a_second():
    state = EngineState()
    for event in conversation().events:
        state.apply(event, 1_000)
    pool = state.pool
    assert {page: change.state for page, change in pool.pages.items()} == {
        3: "used", 4: "used", 5: "used", 6: "used", 7: "cached"
    }  # fmt: skip
    assert (pool.evictions, pool.hit, pool.queried) == (1, 4, 16)
    assert pool.hit_rate == 0.25
    assert set(pool.flashes) == {6}
    before = pool.version
    pool.expire(999_000_000)
    assert (set(pool.flashes), pool.version) == ({6}, before)
    pool.expire(1_000_001_000)
    assert (set(pool.flashes), pool.version) == (set(), before + 1)


def test_a_page_detail_is_kept_until_the_page_changes():
    state = told(conversation().events)
    state.apply(PageDetail(5, "used", (1, 2), ("a", "b")))
    assert state.pool.details[5].pieces == ("a", "b")
    story = conversation()
    for event in story.events:
        state.apply(event)
    assert 5 not in state.pool.details


def test_old_candidates_are_given_up_first():
    story = Story().begin().ask("r", ("a",))
    candidates = candidates_of((1.0, 0.0), pieces=WORDS[:2])
    for _ in range(5):
        story.step([story.lane(0, "r", "decode", 1, 1)], [story.token("r", " The", candidates)])
    state = told(story.events, Limits(candidates=2))
    assert [len(token.candidates) for token in state.requests["r"].samples[0].tokens if token] == [0, 0, 0, 2, 2]


def test_old_requests_go_finished_ones_first():
    state = EngineState(Limits(requests=3))
    for request in "abc":
        state.apply(TextDelta(request, 0, "x", 1, 1), 1)
    state.apply(conversation().finish("b").events[-1])
    state.apply(TextDelta("d", 0, "x", 1, 1), 1)
    assert list(state.requests) == ["a", "c", "d"]
    assert state.requests["d"].letter == "D"


def test_letters_are_stable_and_never_reused():
    letters = Letters()
    assert [letters.number(name) for name in ("x", "y", "x")] == [0, 1, 0]
    letters.forget("x")
    assert letters.number("x") == 2
    assert [letter(n) for n in (0, 25, 26, 51, 52)] == ["A", "Z", "a", "z", "A"]


def test_percentile_is_the_nearest_rank():
    assert percentile([], 50) == 0
    assert percentile([7], 95) == 7
    assert percentile(range(1, 101), 95) == 95
    assert percentile([3, 1, 2], 50) == 2


def test_metrics_are_kept():
    state = EngineState()
    state.apply(Metrics(iterations=7))
    assert state.metrics is not None
    assert state.metrics.iterations == 7
