"""Random lives of many sequences in small pools: whatever happens, each reads only what its own prefix computed."""

from __future__ import annotations

from cutaway.engine.errors import TooLongError
from cutaway.engine.sequence import Status
from hypothesis import settings, stateful
from hypothesis import strategies as st

from .simulated_engine import VOCABULARY, SimulatedEngine

STREAMS = [[(7 * at * at + seed) % VOCABULARY for at in range(80)] for seed in range(2)]
token = st.integers(0, VOCABULARY - 1)


class SchedulerMachine(stateful.RuleBasedStateMachine):
    """Submit, fork, abort, preempt, finish and flip switches in any order; drive what is left to its end."""

    @stateful.initialize(
        tokens=st.integers(24, 120), size=st.sampled_from([4, 5, 1]), lanes=st.integers(1, 5), budget=st.integers(1, 24)
    )
    def load(self, tokens: int, size: int, lanes: int, budget: int) -> None:
        self.engine = SimulatedEngine(tokens // size, size, max_lanes=lanes, token_budget=budget)
        self.scheduler = self.engine.scheduler
        for stream in STREAMS:
            self.engine.submit(stream[: tokens // 3], tokens // 4)

    def any_of(self, data: st.DataObject, kind: str = "any"):
        found = [s for s in self.engine.sequences if kind in ("any", s.status.value)]
        return found[data.draw(st.integers(0, 99)) % len(found)] if found else None

    @stateful.rule(stream=st.sampled_from(STREAMS), shared=st.integers(0, 40), own=st.lists(token, max_size=9),
                   new=st.integers(1, 24))  # fmt: skip
    def submit(self, stream: list[int], shared: int, own: list[int], new: int) -> None:
        prompt = stream[:shared] + own or [0]
        if len(self.engine.alive) >= 7:
            return
        try:
            self.engine.submit(prompt, new)
        except TooLongError:
            assert self.engine.pool.pages_for(len(prompt) + 1) > self.engine.pool.pages

    @stateful.rule(data=st.data(), kind=st.sampled_from(["running", "padding", "finished", "any"]),
                   back=st.integers(0, 12), forced=st.none() | token, new=st.integers(1, 12))  # fmt: skip
    def fork(self, data: st.DataObject, kind: str, back: int, forced: int | None, new: int) -> None:
        source = self.any_of(data, kind)
        if source is None or len(self.engine.alive) >= 7:
            return
        at = max(0, len(source) - source.prompt_length - back)
        length = source.prompt_length + at + (forced is not None)
        if self.engine.pool.pages_for(length + 1) > self.engine.pool.pages:
            return
        held = len(source.block_table)
        fork = self.engine.fork(source, at, new, forced)
        assert fork.tokens == source.tokens[: source.prompt_length + at] + ([] if forced is None else [forced])
        assert fork.prompt_length == source.prompt_length
        assert fork.computed < len(fork)
        if not self.scheduler.kv_reuse or source.status is Status.WAITING:
            assert not fork.block_table
        elif held:
            usable = min(source.computed, source.prompt_length + at, len(fork) - 1)
            assert fork.computed >= usable // self.engine.pool.page_size * self.engine.pool.page_size

    @stateful.rule(times=st.integers(1, 3))
    def step(self, times: int) -> None:
        for _ in range(times):
            self.engine.step()

    @stateful.rule(data=st.data(), times=st.integers(4, 20), back=st.integers(0, 6))
    def fork_after_many_steps(self, data: st.DataObject, times: int, back: int) -> None:
        for _ in range(times):
            self.engine.step()
        self.fork(data, "any", back, None, times)

    @stateful.rule(data=st.data(), what=st.sampled_from(["abort", "finish", "fork", "preempt", "clear"]))
    def interrupted_step(self, data: st.DataObject, what: str) -> None:
        def meanwhile() -> None:
            sequence = self.any_of(data, "running")
            if what == "clear":
                self.engine.pool.clear_cache()
            elif sequence is not None and what == "fork":
                if self.engine.pool.pages_for(sequence.prompt_length + 1) <= self.engine.pool.pages:
                    self.engine.fork(sequence, 0, 3)
            elif sequence is not None:
                getattr(self.scheduler, what)(sequence)

        self.engine.step(meanwhile)

    @stateful.rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        sequence = self.any_of(data)
        if sequence is not None:
            self.scheduler.abort(sequence)
            assert sequence.status is Status.FINISHED
            assert sequence.lane == -1
            assert not sequence.block_table

    @stateful.rule(data=st.data())
    def finish_early(self, data: st.DataObject) -> None:
        sequence = self.any_of(data)
        if sequence is not None:
            self.scheduler.finish(sequence)

    @stateful.rule(data=st.data())
    def preempt(self, data: st.DataObject) -> None:
        sequence = self.any_of(data, "running")
        if sequence is not None:
            self.scheduler.preempt(sequence)
            assert self.scheduler.waiting[0] is sequence

    @stateful.rule()
    def clear_cache(self) -> None:
        self.engine.pool.clear_cache()
        assert self.engine.pool.totals().cached == 0

    @stateful.rule(policy=st.sampled_from(["continuous", "static"]))
    def flip_policy(self, policy) -> None:
        self.scheduler.policy = policy

    @stateful.rule(on=st.booleans())
    def flip_prefix_cache(self, on: bool) -> None:
        self.scheduler.prefix_cache = on

    @stateful.rule(on=st.booleans())
    def flip_kv_reuse(self, on: bool) -> None:
        self.scheduler.kv_reuse = on

    @stateful.rule(lanes=st.integers(1, 6), budget=st.integers(1, 32))
    def change_limits(self, lanes: int, budget: int) -> None:
        self.scheduler.max_lanes = lanes
        self.scheduler.token_budget = budget

    @stateful.invariant()
    def whole(self) -> None:
        if hasattr(self, "engine"):
            self.engine.check()

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        alive = self.engine.alive
        self.engine.run_dry()
        assert all(len(sequence) == sequence.max_length for sequence in alive)
        self.engine.check_replies()
        assert self.engine.pool.totals().used == 0
        self.engine.pool.clear_cache()
        self.engine.check()
        assert self.engine.pool.totals().free == self.engine.pool.pages


TestScheduler = SchedulerMachine.TestCase
TestScheduler.settings = settings(max_examples=300, stateful_step_count=50, deadline=None)
