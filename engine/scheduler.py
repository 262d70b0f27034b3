"""The scheduler: decides, for every iteration, who runs, how many positions of each, and in which pages. No torch.

Iteration-level scheduling after Orca (Yu et al., OSDI 2022) with chunked prefill after Sarathi-Serve (Agrawal et
al., OSDI 2024) over pages as in vLLM (Kwon et al., SOSP 2023). Running sequences come first: each that decodes gets
its token in every iteration; what is left of the token budget goes to prompts in fair shares. When a decode finds
no page, the youngest running sequence gives up its pages and computes its tokens again later.
"""

from __future__ import annotations

from .admission import Admission, check_fits, lane_limit
from .ahead import works_after
from .branching import borrow, branch
from .integrity import check
from .lanes import Lanes
from .pages import IntegrityError, PagePool
from .plan import PageCopy, StepPlan
from .portions import next_turn, whose_turn, with_reuse, without_reuse
from .protocol import Policy
from .sequence import Sequence, Status
from .work import by_page, lay_out


class Scheduler:
    """Owns the pool, the queue and the lanes. Single-threaded: every call may change them.

    The switches are plain attributes; a change takes effect at the next `schedule()`, while sequences run.
    One round is `schedule()`, running the plan, `commit(plan)`; then the caller appends what was sampled to the
    sequences' tokens and calls `finish` for those that have ended. While a plan runs, `ahead(plan)` may give the next
    one; it is committed after that, `settled` by what was sampled.
    """

    def __init__(
        self,
        pool: PagePool,
        *,
        policy: Policy = "continuous",
        max_lanes: int = 16,
        token_budget: int = 512,
        prefix_cache: bool = True,
        kv_reuse: bool = True,
    ) -> None:
        self.pool = pool
        self.policy: Policy = policy
        self.max_lanes = max_lanes
        self.token_budget = token_budget
        self.prefix_cache = prefix_cache
        self.kv_reuse = kv_reuse
        self.iteration = 0
        self._lanes = Lanes()
        self._admission = Admission(pool, self._lanes)
        self._arrivals = 0
        self._copies: dict[Sequence, PageCopy] = {}  # of waiting forks, for the next plan
        self._fresh: dict[Sequence, int] = {}  # entered a lane, not yet in a plan -> positions the index spared
        self._preempted: list[str] = []  # since the last plan
        self._turn = 0  # lane whose turn it is when whole prefixes are recomputed

    # --------------------------------------------------------------------------------------- coming and going

    @property
    def capacity(self) -> int:
        """Tokens that the pool holds: no sequence can grow longer."""
        return self.pool.pages * self.pool.page_size

    @property
    def running(self) -> tuple[Sequence, ...]:
        """Sequences in lanes, padding included, by lane."""
        return tuple(sequence for _, sequence in self._lanes)

    @property
    def waiting(self) -> tuple[Sequence, ...]:
        return tuple(self._admission)

    def check_admissible(self, prompt_length: int) -> None:
        """Raise `TooLongError` for a prompt that, with one new token, can never fit the pool."""
        check_fits(self.pool, prompt_length)

    def add(self, sequence: Sequence) -> None:
        """Put a new sequence at the queue's end; raises `TooLongError` if it can never run.

        Its `max_length` is clipped to the pool's capacity.
        """
        self.check_admissible(len(sequence))
        sequence.max_length = min(sequence.max_length, self.capacity)
        sequence.arrival = self._arrivals
        self._arrivals += 1
        self._admission.append(sequence)

    def fork(
        self, source: Sequence, at: int, request: str, sample: int, forced: int | None, max_length: int
    ) -> Sequence:
        """A new waiting sequence: the source's prompt, its first `at` generated tokens, then `forced`, if given.

        The full pages computed so far are shared, the partial one is copied before the next forward pass, and at
        least the last token is computed again. Nothing is shared by a source that waits, nor without KV reuse; what
        a finished source has lost is looked for in the prefix index when the fork is admitted, or computed again.
        Raises `SettingError` if `at` is out of range, `TooLongError` if the fork can never run.
        """
        fork = branch(source, at, request, sample, forced, max_length, self.pool.page_size)
        self.add(fork)
        if self.kv_reuse and source.status is not Status.WAITING:
            copy = borrow(self.pool, source, fork)
            if copy is not None:
                self._copies[fork] = copy
        return fork

    def finish(self, sequence: Sequence) -> None:
        """End a sequence. Under the static policy its lane goes on as padding until the batch has finished."""
        if sequence.status is Status.RUNNING and self.policy == "static" and sequence.computed:
            sequence.status = Status.PADDING
            self._fresh.pop(sequence, None)
        elif sequence.status is not Status.PADDING:
            self._end(sequence)
        self._end_batch()

    def abort(self, sequence: Sequence) -> None:
        """Stop a sequence, whatever it is doing, and give its pages back at once. Safe at any moment."""
        self._end(sequence)
        self._end_batch()

    def preempt(self, sequence: Sequence) -> None:
        """Take a running sequence's pages; it waits at the queue's front and computes its tokens again."""
        if sequence.status is not Status.RUNNING:
            raise IntegrityError(f"{sequence.key} is {sequence.status.value} and can't be preempted")
        self._lanes.leave(sequence)
        self._fresh.pop(sequence, None)
        self._give_back(sequence)
        sequence.status = Status.WAITING
        sequence.preemptions += 1
        sequence.overtaken = 0
        self._admission.push_front(sequence)
        self._preempted.append(sequence.key)

    def _end(self, sequence: Sequence) -> None:
        if sequence.status is Status.FINISHED:
            return
        if sequence.status is Status.WAITING:
            self._admission.remove(sequence)
        else:
            self._lanes.leave(sequence)
            self._fresh.pop(sequence, None)
        self._cancel_copy(sequence)
        computed = sequence.block_table[: self.pool.pages_for(sequence.computed)]
        sequence.remains = tuple([(page, self.pool.generation(page)) for page in computed])
        # The last pages first: a prefix whose beginning has been evicted can't be matched any more.
        for page in reversed(sequence.block_table):
            self.pool.release(page, sequence.key, remembered=True)
        sequence.block_table.clear()
        sequence.status = Status.FINISHED

    def _end_batch(self) -> None:
        """Free padding lanes once nothing else runs, or when the policy is no longer static."""
        padding = self._lanes.padding()
        if padding and (self.policy != "static" or len(padding) == self._lanes.occupied):
            for sequence in padding:
                self._end(sequence)

    def _give_back(self, sequence: Sequence) -> None:
        """Release all pages of a sequence that stays alive: it keeps no claim on them."""
        self._cancel_copy(sequence)
        for page in reversed(sequence.block_table):
            self.pool.release(page, sequence.key)
        sequence.block_table.clear()
        sequence.computed = 0

    def _cancel_copy(self, fork: Sequence) -> None:
        copy = self._copies.pop(fork, None)
        if copy is not None:
            self.pool.release(copy.source, fork.key)
            fork.computed -= copy.fill

    # ------------------------------------------------------------------------------------------ one iteration

    def schedule(self) -> StepPlan | None:
        """Plan the next iteration; None if there is nothing to compute."""
        self._end_batch()
        served = self._continue()
        self._admit()
        if self.kv_reuse:
            portions = with_reuse(self._lanes.running(), self._lanes.padding(), self.token_budget)
        else:
            portions = without_reuse(served, self._fresh, self._lanes.padding(), self.token_budget)
            self._turn = next_turn(self._lanes.running(), portions, self._turn)
        if not portions:
            return None
        self.iteration += 1
        plan = StepPlan(
            self.iteration,
            self.policy,
            tuple([lay_out(*portion, self.pool.page_size, self._fresh.pop(portion[0], None)) for portion in portions]),
            self._admission.waits(),
            self._flush_copies(),
            tuple(self._preempted),
        )
        self._preempted.clear()
        return plan

    def ahead(self, plan: StepPlan) -> StepPlan | str:
        """The iteration after `plan`, which still runs, as if all that it samples went on; or why that must wait.

        Nobody is admitted and nobody makes way: both depend on who ends.
        """
        if self.policy == "static" or not self.kv_reuse:
            return "a static batch ends together" if self.kv_reuse else "whole prefixes are computed"
        if len(self._admission) and self._lanes.occupied < lane_limit(self.max_lanes, self.token_budget)[0]:
            return "somebody waits and a lane is free"
        works = works_after(plan, self._lanes.running(), self.token_budget, self.pool, self._grow, self._fresh)
        if isinstance(works, str):
            return works
        self._admit()  # nobody; it tells those who wait why
        self.iteration += 1
        return StepPlan(self.iteration, self.policy, works, self._admission.waits(), ahead=True)

    def commit(self, plan: StepPlan) -> None:
        """Record that `plan` has run. Work of sequences that have ended or been preempted meanwhile is ignored."""
        size = self.pool.page_size
        for work in plan.work:
            sequence = work.sequence
            if sequence.status is not Status.RUNNING or work.phase == "padding":
                continue
            sequence.computed = work.end
            for index, offset, tokens in by_page(work, size):
                page = sequence.block_table[index]
                self.pool.write(page, offset, tokens)
                if self.prefix_cache and offset + len(tokens) == size:
                    self.pool.register(page, self.pool.index.name(sequence.chain, sequence.tokens, index))

    def _continue(self) -> list[Sequence]:
        """Those running sequences that are to be computed, with the pages they need; the others make way."""
        while True:
            turn = self._lanes.running()
            if not self.kv_reuse:
                turn = whose_turn(turn, self._turn, self.token_budget)
            for sequence in turn:
                self._grow(sequence)
            served = [s for s in turn if s.status is Status.RUNNING]
            # If all whose turn it was have made way, it is the turn of those they made way for.
            if served or not turn:
                return served

    def _grow(self, sequence: Sequence) -> None:
        """Get pages for all of a running sequence's tokens, or preempt it."""
        while len(sequence.tokens) > len(sequence.block_table) * self.pool.page_size:
            if sequence.status is not Status.RUNNING:
                return
            if self.pool.available:
                position = len(sequence.block_table) * self.pool.page_size
                sequence.block_table.append(self.pool.allocate(sequence.key, position))
            elif len(sequence.tokens) > self.capacity:
                raise IntegrityError(f"{sequence.key} has {len(sequence)} tokens, the pool holds {self.capacity}")
            else:
                self._reclaim()

    def _reclaim(self) -> None:
        """Take pages from whoever needs them least: padding, forks that wait, the youngest that runs."""
        padding = self._lanes.padding()
        alone = [s for s in self._admission if any(self.pool.refs(page) == 1 for page in s.block_table)]
        if padding:
            self._end(padding[0])
        elif alone:
            self._give_back(alone[-1])
        else:
            self.preempt(self._lanes.youngest())

    def _admit(self) -> None:
        if self.policy == "static" and self._lanes.occupied:
            self._admission.close("the static batch must end first")
        else:
            limit, full = lane_limit(self.max_lanes, self.token_budget)
            self._admission.admit(limit, full, self.prefix_cache and self.kv_reuse, self._enter, self._give_back)

    def _enter(self, sequence: Sequence, matched: list[int]) -> None:
        spared = 0
        if matched:
            # Taken before anything is allocated, which could evict them.
            for page in matched:
                self.pool.take(page, sequence.key)
            self._give_back(sequence)
            sequence.block_table = matched
            sequence.computed = spared = len(matched) * self.pool.page_size
        if not sequence.preemptions:
            sequence.cached = spared
        sequence.status = Status.RUNNING
        self._lanes.enter(sequence)
        self._fresh[sequence] = spared
        self._grow(sequence)

    def _flush_copies(self) -> tuple[PageCopy, ...]:
        copies = tuple(self._copies.values())
        for fork, copy in self._copies.items():
            self.pool.copy(copy.source, copy.target, copy.fill)
            self.pool.release(copy.source, fork.key)
        self._copies.clear()
        return copies

    # ---------------------------------------------------------------------------------------------- integrity

    def check(self) -> None:
        """Raise `IntegrityError` unless everything agrees; O(pages ever used + tokens alive), for idle moments."""
        check(self.pool, self._lanes, self._admission, self._copies)
