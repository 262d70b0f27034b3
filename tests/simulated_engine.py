"""A scheduler driven over a simulated memory, in which every slot remembers the prefix it was computed from.

The "key and value" of a position is a hash of all tokens up to it, and the next token is a function of that hash:
a wrong page, slot, copy or page table shows as wrong content, and as a wrong token.
"""

from __future__ import annotations

from cutaway.engine.pages import PagePool
from cutaway.engine.plan import StepPlan, Work
from cutaway.engine.protocol import PageChange
from cutaway.engine.scheduler import Scheduler
from cutaway.engine.sequence import Sequence, Status

VOCABULARY = 7


def contents(tokens: list[int]) -> list[int]:
    """What the slots of these positions must hold."""
    found, state = [], 0
    for token in tokens:
        state = hash((state, token))
        found.append(state)
    return found


def next_token(content: int) -> int:
    return content % VOCABULARY


def reply(prompt: list[int], count: int) -> list[int]:
    """The `count` tokens that must follow `prompt`."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(next_token(contents(tokens)[-1]))
    return tokens[len(prompt) :]


def prompt(length: int, seed: int = 0) -> list[int]:
    return [(at * at + seed) % 5 for at in range(length)]


def work_of(plan: StepPlan | None, sequence: Sequence):
    assert plan is not None
    return next((work for work in plan.work if work.sequence is sequence), None)


def reason_of(plan: StepPlan | None, sequence: Sequence) -> str:
    assert plan is not None
    return next(w.reason for w in plan.waits if (w.request, w.sample) == (sequence.request, sequence.sample))


def step_until(engine: SimulatedEngine, condition) -> None:
    for _ in range(1000):
        if condition():
            return
        engine.step()
    raise AssertionError("it never came true")


class SimulatedEngine:
    """What the core and the runner do around a scheduler, with every promise of a plan checked on the way."""

    def __init__(self, pages: int, page_size: int = 16, **switches) -> None:
        self.pool = PagePool(pages, page_size, b"model")
        self.scheduler = Scheduler(self.pool, **switches)
        self.memory: dict[int, int] = {}
        self.told: dict[int, PageChange] = {}  # the pool as its changes tell it
        self.sequences: list[Sequence] = []
        self.given: dict[Sequence, int] = {}  # tokens that were there from the start; the others were drawn
        self.plans: list[StepPlan] = []

    @property
    def alive(self) -> list[Sequence]:
        return [s for s in self.sequences if s.status in (Status.WAITING, Status.RUNNING)]

    # ---------------------------------------------------------------------------------------------- commands

    def submit(self, prompt: list[int], new: int, name: str = "") -> Sequence:
        sequence = Sequence(name or f"r{len(self.sequences)}", 0, list(prompt), len(prompt), len(prompt) + new)
        self.scheduler.add(sequence)
        self.sequences.append(sequence)
        self.given[sequence] = len(sequence)
        return sequence

    def fork(self, source: Sequence, at: int, new: int, forced: int | None = None) -> Sequence:
        longest = source.prompt_length + at + (forced is not None) + new
        sequence = self.scheduler.fork(source, at, f"r{len(self.sequences)}", 1, forced, longest)
        self.sequences.append(sequence)
        self.given[sequence] = len(sequence)
        return sequence

    def check_replies(self) -> None:
        """Every token drawn must be the one that its sequence would have drawn alone."""
        for sequence, given in self.given.items():
            assert sequence.tokens[given:] == reply(sequence.tokens[:given], len(sequence) - given), sequence.key

    # ------------------------------------------------------------------------------------------- one iteration

    def step(self, between=lambda: None) -> StepPlan | None:
        """One iteration; `between` is called after the forward pass and before its commit."""
        plan = self.scheduler.schedule()
        if plan is None:
            self.check()
            return None
        self.plans.append(plan)
        self.check_plan(plan)
        drawn = self.run(plan)
        between()
        self.scheduler.commit(plan)
        for work, token in drawn:
            if work.sequence.status is Status.RUNNING:
                work.sequence.tokens.append(token)
                if len(work.sequence) >= work.sequence.max_length:
                    self.scheduler.finish(work.sequence)
        self.check()
        return plan

    def run_dry(self) -> int:
        """Step until nothing is alive; fail if that takes longer than the slowest honest way."""
        steps = 0
        bound = 50 + 10 * sum(s.max_length for s in self.alive)
        while self.alive:
            assert self.step() is not None, f"nothing runs while {[s.key for s in self.alive]} wait"
            steps += 1
            assert steps <= bound, f"{[s.key for s in self.alive]} starve"
        return steps

    def run(self, plan: StepPlan) -> list[tuple[Work, int]]:
        size = self.pool.page_size
        sources, targets = {c.source for c in plan.copies}, [c.target for c in plan.copies]
        assert len(set(targets)) == len(targets), "two copies to one page"
        assert not sources & set(targets), "the order of the copies matters"
        for copy in plan.copies:
            for offset in range(copy.fill):
                self.memory[copy.target * size + offset] = self.memory[copy.source * size + offset]
        for work in plan.work:
            self.expect(work, work.start)
        written: dict[int, int] = {}
        for work in plan.work:
            for slot, content in zip(work.slots, contents(work.sequence.tokens)[work.start : work.end], strict=True):
                assert written.setdefault(slot, content) == content, f"{work.sequence.key} overwrites slot {slot}"
        self.memory.update(written)
        for work in plan.work:
            self.expect(work, work.end)
        last = {id(w): self.memory[w.slots[-1]] for w in plan.work}
        return [(w, next_token(last[id(w)])) for w in plan.work if w.samples]

    def expect(self, work: Work, end: int) -> None:
        """Positions [0, end) of the block table must hold exactly what the sequence's own prefix computes."""
        size = self.pool.page_size
        held = [self.memory.get(work.block_table[at // size] * size + at % size) for at in range(end)]
        right = contents(work.sequence.tokens)[:end]
        wrong = next((at for at in range(end) if held[at] != right[at]), None)
        assert wrong is None, f"position {wrong} of {work.sequence.key} holds something else before {work.start}"

    # --------------------------------------------------------------------------------------------- promises

    def check_plan(self, plan: StepPlan) -> None:
        size, scheduler = self.pool.page_size, self.scheduler
        lanes = [work.lane for work in plan.work]
        assert len(set(lanes)) == len(lanes)
        order = {"decode": 0, "padding": 1, "prefill": 2, "recompute": 2}
        phases = [order[work.phase] for work in plan.work]
        assert phases == sorted(phases), "decodes come first"
        assert any(work.phase != "padding" for work in plan.work)
        for work in plan.work:
            assert work.lane == work.sequence.lane >= 0
            assert work.count == len(work.token_ids) == len(work.slots) >= 1
            assert list(work.token_ids) == work.sequence.tokens[work.start : work.end]
            assert list(work.slots) == [
                work.block_table[at // size] * size + at % size for at in range(work.start, work.end)
            ]
            assert work.samples == (work.phase != "padding" and work.end == len(work.sequence))
            if work.phase == "padding":
                assert work.sequence.status is Status.PADDING
                assert (work.count, work.end, work.reuse_needs) == (1, work.sequence.computed, 0)
            elif work.phase == "recompute":
                assert (work.start, work.end) == (0, len(work.sequence))
                assert work.reuse_needs == len(work.sequence) - work.sequence.computed >= 1
            else:
                assert work.start == work.sequence.computed
                assert work.reuse_needs == work.count
                generating = work.start >= work.sequence.prompt_length and work.end == work.start + 1
                assert work.phase == ("decode" if generating and work.samples else "prefill")
        if scheduler.kv_reuse:
            prefill = sum(work.count for work in plan.work if work.phase == "prefill")
            assert prefill <= max(1, scheduler.token_budget - plan.computed + prefill)
            stepped = {work.sequence for work in plan.work if work.phase == "decode"}
            for sequence in scheduler.running:
                if sequence.status is Status.RUNNING and len(sequence) - sequence.computed == 1:
                    assert sequence in stepped or sequence.computed < sequence.prompt_length, "no token this step"
        else:
            recomputed = [work.count for work in plan.work if work.phase == "recompute"]
            assert len(recomputed) == 1 or sum(recomputed) <= scheduler.token_budget
        assert [(w.request, w.sample) for w in plan.waits] == [(s.request, s.sample) for s in scheduler.waiting]
        assert all(wait.reason for wait in plan.waits)

    def check(self) -> None:
        """The scheduler's own integrity, and the pool as told by its changes against the pool as it is."""
        self.scheduler.check()
        for sequence in self.sequences:
            names: list[bytes] = []
            for index in range(len(sequence.chain)):
                self.pool.index.name(names, sequence.tokens, index)
            assert sequence.chain == names, f"{sequence.key} names its pages by another's tokens"
        for change in self.pool.drain_changes():
            self.told[change.page] = change
        for page in range(self.pool.pages):
            detail, told = self.pool.detail(page), self.told.get(page, PageChange(page, "free"))
            assert (told.state, told.owners, told.fill, told.refs, told.hash) == (
                detail.state,
                detail.owners,
                detail.fill,
                detail.refs,
                detail.hash,
            )
        totals = self.pool.totals()
        states = [self.pool.state(page) for page in range(self.pool.pages)]
        assert totals.used + totals.cached + totals.free == totals.total == self.pool.pages
        assert [totals.used, totals.cached, totals.free] == [states.count(s) for s in ("used", "cached", "free")]
        assert totals.shared == sum(change.refs > 1 for change in self.told.values())
        assert self.pool.available == totals.cached + totals.free
