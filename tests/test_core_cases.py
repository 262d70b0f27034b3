"""The engine as a whole on public bug reports: stops, lengths, cancels, pages, starvation, memory."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from cutaway.engine.plan import StepPlan
from cutaway.engine.protocol import (
    Abort,
    ClearCache,
    Configure,
    Fork,
    Inspect,
    Message,
    PageDetail,
    PromptRendered,
    Rejected,
    SamplingSettings,
    SettingsChanged,
    Step,
    Submit,
)

from . import engine_driver, tiny_folder, tiny_tokenizers
from .engine_driver import Driver

GREEDY8 = SamplingSettings(temperature=0.0, max_tokens=8, ignore_eos=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder.make(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def tiny(folder: Path) -> Driver:
    return engine_driver.start(folder, pages=64)


def letters(text: str, folder: Path) -> list[int]:
    """Ids of a text under the tiny tokenizer."""
    return tiny_folder.load_tokenizer(folder).encode(text)


# --------------------------------------------------------------------------------------------- 03 stops, lengths


def test_st_01_every_end_id_of_the_generation_config_ends_the_reply(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizers.byte_level(("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|eom|>"))
    generation = {"eos_token_id": [2, 3]}
    folder = tiny_tokenizers.save(
        tmp_path / "m", tokenizer, generation=generation, template=tiny_tokenizers.CHATML, eos_token="<|im_end|>"
    )
    a, b = tiny_folder.load_tokenizer(folder).encode("a b")[:2]
    driver, _ = tiny_folder.scripted(folder, {"r": [a, b, 3, a, a]})
    driver.submit("r", [5, 6, 7], SamplingSettings(temperature=0.0))
    driver.run()
    ended = driver.finished("r")
    assert ended.reason == "end"
    assert list(ended.token_ids) == [a, b, 3]
    assert driver.text("r") == tiny_folder.load_tokenizer(folder).decode([a, b])
    assert [token.end for token in driver.sampled("r")] == [False, False, True]


def test_st_02_a_stop_string_is_never_half_shown(folder: Path) -> None:
    ids = letters("ABCDEFG", folder)
    driver, _ = tiny_folder.scripted(folder, {"hit": ids, "miss": [*letters("ABCDEX", folder), 2]})
    driver.submit("hit", [5], SamplingSettings(temperature=0.0, stop=("DEFG",)))
    driver.run()
    assert driver.text("hit") == "ABC"
    assert (driver.finished("hit").reason, driver.finished("hit").detail) == ("stop", "DEFG")
    driver.submit("miss", [5], SamplingSettings(temperature=0.0, stop=("DEFG",)))
    driver.run()
    assert driver.text("miss") == "ABCDEX"


def test_st_04_a_reply_cut_by_the_limit_says_so(folder: Path) -> None:
    driver, _ = tiny_folder.scripted(folder, {"r": letters("a", folder)})
    driver.submit("r", [5], SamplingSettings(temperature=0.0, max_tokens=5))
    driver.run()
    ended = driver.finished("r")
    assert (ended.reason, ended.detail, ended.generated_tokens) == ("length", "cut at 5 tokens", 5)


def test_st_05_an_invented_user_turn_ends_the_reply_and_is_not_in_it(tmp_path: Path) -> None:
    template = (
        "{% for m in messages %}{{ '\nUser: ' if m['role'] == 'user' else '\nAssistant: ' }}{{ m['content'] }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '\nAssistant:' }}{% endif %}"
    )
    folder = tiny_tokenizers.save(
        tmp_path / "m", tiny_tokenizers.byte_level(), template=template, eos_token="<|im_end|>"
    )
    script = letters("Fine.", folder) + letters("\nUser", folder) + letters(": and?", folder)
    driver, _ = tiny_folder.scripted(folder, {"r": script})
    driver.send(Submit("r", messages=(Message("user", "how are you?"),), settings=SamplingSettings(temperature=0.0)))
    driver.run()
    assert driver.text("r").strip() == "Fine."
    assert driver.finished("r").reason == "stop"


# ----------------------------------------------------------------------------------------------------- 05 context


def test_cx_03_without_a_limit_the_reply_may_fill_the_window_and_no_more(folder: Path) -> None:
    driver, _ = tiny_folder.scripted(folder, {"r": letters("a", folder)}, window=64)
    driver.submit("r", [5] * 10, SamplingSettings(temperature=0.0))
    driver.run()
    assert driver.finished("r").generated_tokens == 54


def test_cx_05_a_full_window_ends_the_reply_and_the_engine_rests(folder: Path) -> None:
    driver, runner = tiny_folder.scripted(folder, {"r": letters("a", folder)}, window=32)
    driver.submit("r", [5] * 30, SamplingSettings(temperature=0.0, max_tokens=100))
    steps = driver.run(limit=4)
    ended = driver.finished("r")
    assert (ended.reason, ended.detail, ended.generated_tokens) == ("length", "window full", 2)
    assert steps <= 3
    assert not driver.core.has_work
    computed = runner.positions["r"]
    driver.core.step()
    assert runner.positions["r"] == computed


def test_cx_06_after_turns_left_out_the_tokens_are_those_of_a_fresh_engine(folder: Path) -> None:
    turns = []
    for n in range(8):
        turns += [Message("user", f"hello {n} " * 6), Message("assistant", f"it works {n} " * 6)]
    turns = [*turns, Message("user", "go on")]
    driver = engine_driver.start(folder, window=256)
    driver.send(Submit("long", messages=tuple(turns), settings=GREEDY8))
    driver.run()
    left_out = driver.prompt("long").left_out
    assert left_out
    fresh = engine_driver.start(folder, window=256)
    kept = tuple(turn for n, turn in enumerate(turns) if n not in left_out)
    fresh.send(Submit("trimmed", messages=kept, settings=GREEDY8))
    fresh.run()
    assert driver.ids("long") == fresh.ids("trimmed")


def test_cx_01_what_was_left_out_is_told(folder: Path) -> None:
    driver, _ = tiny_folder.scripted(folder, {"r": [2]}, window=128)
    messages = [Message("system", "be brief")]
    messages += [Message("user" if n % 2 == 0 else "assistant", f"turn {n} hello world") for n in range(19)]
    driver.send(Submit("r", messages=tuple(messages), settings=SamplingSettings(max_tokens=16)))
    rendered = driver.prompt("r")
    assert rendered.left_out == tuple(range(1, 1 + len(rendered.left_out)))
    assert 0 not in rendered.left_out
    assert rendered.text.rstrip().endswith("assistant")
    assert "turn 18" in rendered.text
    assert len(rendered.tokens) <= 128 - 16


# ------------------------------------------------------------------------------------------------------ 06 cancel


@pytest.mark.parametrize("moment", ["queued", "prefill", "decoding"])
def test_ca_02_a_cancel_empties_lane_and_pages_and_nothing_goes_on(folder: Path, moment: str) -> None:
    driver, runner = tiny_folder.scripted(folder, {"r": letters("a", folder), "other": [2]}, token_budget=16)
    driver.submit("r", [5] * 200, SamplingSettings(temperature=0.0))
    wanted = {"queued": 0, "prefill": 2, "decoding": 15}[moment]
    for _ in range(wanted):
        driver.core.step()
    assert len(driver.sampled("r")) == (3 if moment == "decoding" else 0)
    driver.send(Abort("r"))
    computed = runner.positions.get("r", 0)
    assert driver.finished("r").reason == "aborted"
    assert not driver.core.has_work
    assert driver.core.scheduler.pool.totals().used == 0
    assert driver.core.scheduler.running == ()
    driver.submit("other", [6, 7], SamplingSettings(temperature=0.0))
    driver.run()
    assert runner.positions.get("r", 0) == computed
    # What the panels were told is the same: the last state of every page is not "used".
    last = {change.page: change.state for step in driver.of(Step) for change in step.pages}
    assert "used" not in last.values()


def test_ca_05_a_cancel_is_noticed_at_the_next_chunk(folder: Path) -> None:
    driver, runner = tiny_folder.scripted(folder, {"r": [2]}, token_budget=10)
    driver.submit("r", [5] * 400, SamplingSettings(temperature=0.0))
    driver.core.step()
    driver.core.step()
    driver.send(Abort("r"))
    assert driver.run() == 0
    assert runner.positions["r"] == 20


def test_ca_04_an_interrupted_reply_stays_in_the_next_prompt(folder: Path) -> None:
    driver, _ = tiny_folder.scripted(folder, {"a": letters("The answer is", folder), "b": [2]})
    driver.send(Submit("a", messages=(Message("user", "what?"),), settings=SamplingSettings(temperature=0.0)))
    driver.run(until=lambda: driver.text("a") == "The answer is")
    driver.send(Abort("a"))
    assert driver.text("a") == "The answer is"
    turns = (Message("user", "what?"), Message("assistant", driver.text("a")), Message("user", "go on"))
    driver.send(Submit("b", messages=turns))
    assert "The answer is<|im_end|>\n<|im_start|>user\ngo on" in driver.prompt("b").text


# ------------------------------------------------------------------------------------------------------- 07 pages


def test_kv_01_a_prompt_cached_in_full_still_computes_its_last_token(tiny: Driver) -> None:
    prompt = list(range(10, 42))
    first, second = tiny.complete(prompt, name="first"), tiny.complete(prompt, name="second")
    assert first == second
    assert tiny.finished("first").cached_tokens == 0
    assert tiny.finished("second").cached_tokens in (16, 31)


def test_kv_02_the_cache_does_not_change_greedy_answers(tiny: Driver) -> None:
    prompt = [(7 * n) % 400 + 3 for n in range(40)]
    answers = [tiny.complete(prompt) for _ in range(3)]
    tiny.send(Configure(prefix_cache=False))
    answers += [tiny.complete(prompt) for _ in range(3)]
    assert answers == [answers[0]] * 6


def test_kv_04_a_page_is_not_matched_before_it_is_computed(tiny: Driver) -> None:
    shared = list(range(50, 82))
    tiny.send(Configure(prefix_cache=False))
    cold = [tiny.complete([*shared, 9]), tiny.complete([*shared, 8])]
    tiny.send(Configure(prefix_cache=True))
    tiny.submit("a", [*shared, 9])
    tiny.submit("b", [*shared, 8])
    tiny.run()
    assert [tiny.ids("a"), tiny.ids("b")] == cold


def test_kv_05_preempted_requests_finish_with_the_same_tokens(folder: Path) -> None:
    settings = SamplingSettings(temperature=0.0, max_tokens=40, ignore_eos=True)
    prompts = {"a": [(3 * n) % 400 + 3 for n in range(40)], "b": [(5 * n) % 400 + 3 for n in range(40)]}
    wide = engine_driver.start(folder, pages=64)
    expected = {name: wide.complete(prompt, settings, name) for name, prompt in prompts.items()}
    tight = engine_driver.start(folder, pages=6)
    for name, prompt in prompts.items():
        tight.submit(name, prompt, settings)
    tight.run()
    assert {name: tight.ids(name) for name in prompts} == expected
    assert sum(tight.finished(name).preemptions for name in prompts) > 0


def test_kv_07_pages_of_a_stopped_request_change_nothing(folder: Path) -> None:
    prompt = list(range(100, 137))
    cold = engine_driver.start(folder, pages=64)
    expected = cold.complete([*prompt, 9, 9, 9])
    warm = engine_driver.start(folder, pages=64)
    first = warm.complete(prompt, SamplingSettings(temperature=0.0, max_tokens=30, ignore_eos=True))
    piece = warm.core.tokenizer.piece(first[4])
    warm.submit("stopped", prompt, SamplingSettings(temperature=0.0, max_tokens=30, ignore_eos=True, stop=(piece,)))
    warm.run()
    assert warm.finished("stopped").reason == "stop"
    assert warm.complete([*prompt, 9, 9, 9], name="after") == expected
    assert warm.finished("after").cached_tokens == 32


def test_kv_09_one_prefix_filled_twice_in_one_step_leaves_no_page_behind(tiny: Driver) -> None:
    shared = list(range(200, 232))
    expected = tiny.complete([*shared, 11], name="reference")
    tiny.send(Configure(prefix_cache=False))
    tiny.send(Configure(prefix_cache=True))
    tiny.core.scheduler.pool.clear_cache()
    tiny.submit("a", [*shared, 12])
    tiny.submit("b", [*shared, 13])
    tiny.run()
    assert tiny.core.scheduler.pool.totals().used == 0
    assert tiny.complete([*shared, 11], name="c") == expected
    assert tiny.finished("c").cached_tokens == 32


# -------------------------------------------------------------------------------------------------- 08 scheduling


def test_sc_01_a_long_prompt_does_not_starve_a_short_one(folder: Path) -> None:
    script = {"a": letters("a", folder), "b": letters("b", folder), "talker": letters("t", folder)}
    driver, _ = tiny_folder.scripted(folder, script, window=8192, pages=600)
    driver.submit("talker", [5], SamplingSettings(temperature=0.0, max_tokens=200))
    driver.core.step()
    driver.submit("a", [5] * 4000, SamplingSettings(temperature=0.0, max_tokens=2))
    driver.core.step()
    driver.submit("b", letters("hi", folder), SamplingSettings(temperature=0.0, max_tokens=2))
    for _ in range(4):
        driver.core.step()
    assert driver.sampled("b")
    driver.run()
    assert driver.finished("a").generated_tokens == 2
    steps = list(driver.steps())[:100]
    assert all(any(token.request == "talker" for token in step.sampled) for step in steps)


def test_sc_02_what_can_never_fit_is_refused_with_the_numbers(folder: Path) -> None:
    driver, _ = tiny_folder.scripted(folder, {"b": [2]}, window=1024, pages=10)
    driver.submit("a", [5] * 200)
    driver.submit("b", letters("hi", folder))
    [refusal] = driver.of(Rejected)
    assert refusal.request == "a"
    assert "13" in refusal.message
    assert "10" in refusal.message
    driver.run()
    assert driver.finished("b").generated_tokens >= 1


def test_sc_05_preempted_twice_the_reply_is_whole_and_the_panel_shows_it(tiny: Driver) -> None:
    prompt = list(range(20, 45))
    settings = SamplingSettings(temperature=0.0, max_tokens=20, ignore_eos=True)
    expected = tiny.complete(prompt, settings, "plain")
    tiny.submit("r", prompt, settings)
    for count in (5, 9):
        tiny.run(until=lambda count=count: len(tiny.sampled("r")) == count)
        [sequence] = tiny.core.scheduler.running
        tiny.core.scheduler.preempt(sequence)
    tiny.run()
    assert tiny.ids("r") == expected
    assert [token.index for token in tiny.sampled("r")] == list(range(20))
    assert tiny.text("r") == tiny.text("plain")
    assert tiny.finished("r").preemptions == 2
    assert [key for step in tiny.of(Step) for key in step.preempted] == ["r/0", "r/0"]


# ----------------------------------------------------------------------------------------------------- 04 sampling


def test_sa_04_a_seeded_request_says_the_same_alone_and_among_others(tiny: Driver) -> None:
    seeded = SamplingSettings(temperature=0.8, seed=42, max_tokens=16, ignore_eos=True)
    alone = tiny.complete([9, 8, 7], seeded, "alone")
    for tag, seed in (("unseeded", None), ("other", 7)):
        tiny.submit(tag, [4, 5, 6, 7], SamplingSettings(temperature=0.8, seed=seed, max_tokens=16, ignore_eos=True))
        tiny.submit(f"with-{tag}", [9, 8, 7], seeded)
        tiny.run()
        assert tiny.ids(f"with-{tag}") == alone


def test_sa_07_lanes_of_one_batch_keep_their_own_settings(tiny: Driver) -> None:
    greedy = SamplingSettings(temperature=0.0, max_tokens=16, ignore_eos=True)
    only = SamplingSettings(temperature=1.5, top_k=1, max_tokens=10, ignore_eos=True)
    alone = {"a": tiny.complete([9, 8, 7], greedy), "c": tiny.complete([3, 4, 5], only)}
    tiny.submit("a", [9, 8, 7], greedy)
    tiny.run(until=lambda: len(tiny.sampled("a")) == 3)
    tiny.submit("b", [6, 6], SamplingSettings(temperature=2.0, seed=1, max_tokens=16, ignore_eos=True))
    tiny.run(until=lambda: len(tiny.sampled("a")) == 5)
    tiny.submit("c", [3, 4, 5], only)
    tiny.send(Configure(request="b", settings=SamplingSettings(temperature=0.1, max_tokens=16, ignore_eos=True)))
    tiny.run()
    assert {name: tiny.ids(name) for name in alone} == alone


def test_sa_05_masked_alternatives_are_told_without_infinities(tiny: Driver) -> None:
    settings = SamplingSettings(temperature=1.0, top_k=1, allowed_ids=(7, 8), candidates=5, max_tokens=2)
    tiny.submit("r", [9, 8, 7], settings)
    tiny.run()
    for token in tiny.sampled("r"):
        assert len(token.candidates) >= 5
        for candidate in token.candidates:
            assert candidate.logprob is None or math.isfinite(candidate.logprob)
            assert math.isfinite(candidate.prob)


# ------------------------------------------------------------------------------------------------------ 12 memory


def test_ml_08_one_lane_out_of_memory_leaves_the_other_alone(folder: Path) -> None:
    driver = engine_driver.start(folder, pages=64)
    expected = driver.complete([3, 4, 5], name="reference")
    real = driver.core.runner

    class Exhausted:
        """Runs out of memory whenever the greedy lane reaches its fifth token."""

        def run(self, plan: StepPlan) -> object:
            if any(w.sequence.request == "big" and len(w.sequence.generated) >= 5 for w in plan.work):
                raise MemoryError("out of memory")
            return real.run(plan)

        def release(self, key: str) -> None:
            real.release(key)

    driver.core.runner = Exhausted()  # type: ignore[assignment]
    driver.submit("big", [9, 9, 9])
    driver.submit("small", [3, 4, 5])
    driver.run()
    failed = driver.finished("big")
    assert failed.reason == "failed"
    assert "memory" in failed.detail
    assert failed.generated_tokens == 5
    assert driver.ids("small") == expected
    assert driver.core.scheduler.pool.totals().used == 0
    assert driver.complete([3, 4, 5], name="next") == expected


def test_pages_of_a_failed_forward_pass_are_never_matched(tiny: Driver) -> None:
    prompt = [(17 * n) % 400 + 3 for n in range(40)]
    expected = tiny.complete(prompt, name="reference")
    tiny.send(ClearCache())
    real = tiny.core.runner.run

    def fail(plan: StepPlan) -> object:
        raise MemoryError

    tiny.core.runner.run = fail  # type: ignore[method-assign,assignment]
    tiny.submit("failing", prompt)
    tiny.run()
    assert tiny.finished("failing").reason == "failed"
    tiny.core.runner.run = real  # type: ignore[method-assign]
    assert tiny.complete(prompt, name="after") == expected
    assert tiny.finished("after").cached_tokens == 0


def test_every_sample_asked_for_ends_when_the_first_one_fails_or_is_aborted(folder: Path) -> None:
    driver, runner = tiny_folder.scripted(folder, {"failing": [7], "aborted": [7]}, token_budget=8)

    def fail(plan: StepPlan) -> None:
        if any(work.sequence.request == "failing" for work in plan.work):
            raise MemoryError

    runner.before = fail
    driver.submit("failing", [5] * 20, samples=3)
    driver.submit("aborted", [6] * 20, samples=3)
    driver.core.step()
    driver.send(Abort("aborted"))
    assert [driver.finished("failing", n).reason for n in range(3)] == ["failed"] * 3
    assert [driver.finished("aborted", n).reason for n in range(3)] == ["aborted"] * 3
    assert not driver.core.has_work


# -------------------------------------------------------------------------------------------------------- branches


def test_fr_03_a_reply_goes_on_from_another_token_on_shared_pages(tiny: Driver) -> None:
    prompt = [(11 * n) % 400 + 3 for n in range(40)]
    settings = SamplingSettings(temperature=0.0, max_tokens=12, ignore_eos=True, candidates=5)
    tiny.submit("r", prompt, settings)
    tiny.run()
    third = tiny.sampled("r")[3]
    assert sum(candidate.prob for candidate in third.candidates) <= 1.0 + 1e-6
    other = next(candidate.id for candidate in third.candidates if candidate.id != third.id)
    tiny.send(Fork("branch", "r", at=3, forced=other))
    tiny.run()
    rendered = tiny.prompt("branch")
    assert [token.id for token in rendered.kept] == [*tiny.ids("r")[:3], other]
    assert rendered.kept[-1].forced
    [first] = [step for step in tiny.steps() for lane in step.lanes if lane.request == "branch"][:1]
    assert first.computed == 1, "the branch computed more than its own token"
    expected = tiny.complete(
        [*prompt, *tiny.ids("r")[:3], other], SamplingSettings(temperature=0.0, max_tokens=8, ignore_eos=True)
    )
    assert tiny.ids("branch") == [*tiny.ids("r")[:3], other, *expected]
    assert len(tiny.ids("branch")) == 12


def test_a_fork_past_the_limit_keeps_what_it_was_given_and_ends(tiny: Driver) -> None:
    settings = SamplingSettings(temperature=0.0, max_tokens=2, ignore_eos=True)
    tiny.complete([5, 6, 7], settings, "r")
    tiny.send(Fork("branch", "r", at=2, forced=9))
    tiny.run()
    assert tiny.ids("branch") == [*tiny.ids("r"), 9]
    assert tiny.finished("branch").reason == "length"
    assert tiny.core.scheduler.pool.totals().used == 0


def test_live_settings_are_told_and_take_effect_at_the_next_token(tiny: Driver) -> None:
    hot = SamplingSettings(temperature=1.0, allowed_ids=(7, 8), max_tokens=12, ignore_eos=True)
    tiny.submit("r", [5, 6, 7], hot)
    tiny.run(until=lambda: len(tiny.sampled("r")) == 4)
    only = SamplingSettings(temperature=1.0, allowed_ids=(9,), max_tokens=6, ignore_eos=True)
    tiny.send(Configure(request="r", settings=only))
    tiny.run()
    [told] = tiny.of(SettingsChanged)
    assert told.settings == only
    assert set(tiny.ids("r")[:4]) <= {7, 8}
    assert tiny.ids("r")[4:] == [9, 9]


def test_parallel_samples_share_the_prompt_and_differ_by_their_numbers(tiny: Driver) -> None:
    prompt = [(13 * n) % 400 + 3 for n in range(40)]
    settings = SamplingSettings(temperature=1.5, seed=3, max_tokens=10, ignore_eos=True)
    tiny.submit("n", prompt, settings, samples=3)
    tiny.run()
    ids = [tiny.ids("n", sample) for sample in range(3)]
    assert len({tuple(row) for row in ids}) == 3
    assert ids[0] == tiny.complete(prompt, settings)
    computed = sum(step.computed for step in tiny.steps() for lane in step.lanes[:1] if lane.request == "n")
    assert computed == 40 + 2 + 9 + 2 * 9, "the prompt was computed more than once"


def test_a_page_tells_its_tokens_and_owners(tiny: Driver) -> None:
    tiny.submit("r", list(range(10, 42)))
    tiny.core.step()
    tiny.send(Inspect(page=tiny.of(Step)[-1].lanes[0].block_table[1]))
    [detail] = tiny.of(PageDetail)
    assert list(detail.token_ids) == list(range(26, 42))
    assert detail.owners == ("r/0",)
    assert detail.positions == 16
    assert detail.pieces == tuple(tiny.core.tokenizer.piece(token) for token in range(26, 42))


def test_a_request_name_in_use_is_refused(tiny: Driver) -> None:
    tiny.submit("r", [3, 4])
    tiny.submit("r", [5, 6])
    assert len(tiny.of(PromptRendered)) == 1
    assert len(tiny.of(Rejected)) == 1
