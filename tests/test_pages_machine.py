"""Random lives of pages: whatever happens, the pool agrees with itself, its users and its reports."""

from __future__ import annotations

import dataclasses

from cutaway.engine.pages import PagePool
from cutaway.engine.protocol import PageChange
from hypothesis import settings, stateful
from hypothesis import strategies as st


@dataclasses.dataclass
class Holder:
    """A sequence as the pool sees it."""

    name: str
    tokens: list[int]
    table: list[int] = dataclasses.field(default_factory=list)
    chain: list[bytes] = dataclasses.field(default_factory=list)
    filled: int = 0


class PoolMachine(stateful.RuleBasedStateMachine):
    """Sequences come, match, fill pages, go and are revived, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.holders: list[Holder] = []
        self.memories: list[tuple[int, int, tuple[int, ...]]] = []
        self.told: dict[int, PageChange] = {}
        self.names = 0

    @stateful.initialize(pages=st.integers(1, 8), size=st.integers(1, 3))
    def load(self, pages: int, size: int) -> None:
        self.pool = PagePool(pages, size, b"salt")

    @stateful.rule(tokens=st.lists(st.integers(0, 1), min_size=1, max_size=10))
    def come(self, tokens: list[int]) -> None:
        self.names += 1
        holder = Holder(f"{self.names}/0", tokens)
        for page in self.pool.match(tokens, chain=holder.chain):
            start = holder.filled
            assert self.pool.detail(page).token_ids == tuple(tokens[start : start + self.pool.page_size])
            self.pool.take(page, holder.name)
            holder.table.append(page)
            holder.filled += self.pool.page_size
        assert holder.filled < len(tokens)
        self.holders.append(holder)

    @stateful.precondition(lambda self: self.holders)
    @stateful.rule(which=st.integers(0, 99), count=st.integers(1, 5), register=st.booleans())
    def compute(self, which: int, count: int, register: bool) -> None:
        holder, size = self.holders[which % len(self.holders)], self.pool.page_size
        for token in holder.tokens[holder.filled : holder.filled + count]:
            if holder.filled == len(holder.table) * size:
                if not self.pool.available:
                    return
                holder.table.append(self.pool.allocate(holder.name, holder.filled))
            index = holder.filled // size
            self.pool.write(holder.table[index], holder.filled % size, [token])
            holder.filled += 1
            if register and holder.filled % size == 0:
                self.pool.register(holder.table[index], self.pool.index.name(holder.chain, holder.tokens, index))

    @stateful.precondition(lambda self: self.holders)
    @stateful.rule(which=st.integers(0, 99), remembered=st.booleans())
    def go(self, which: int, remembered: bool) -> None:
        holder = self.holders.pop(which % len(self.holders))
        for page in reversed(holder.table):
            if remembered and self.pool.detail(page).fill:
                self.memories.append((page, self.pool.generation(page), self.pool.detail(page).token_ids))
            self.pool.release(page, holder.name, remembered)

    @stateful.precondition(lambda self: self.memories)
    @stateful.rule(which=st.integers(0, 99))
    def revive(self, which: int) -> None:
        page, generation, tokens = self.memories[which % len(self.memories)]
        self.names += 1
        if self.pool.revive(page, generation, f"{self.names}/0"):
            assert self.pool.detail(page).token_ids == tokens
            self.holders.append(Holder(f"{self.names}/0", list(tokens), [page], filled=len(tokens)))

    @stateful.rule()
    def clear_cache(self) -> None:
        self.pool.clear_cache()
        assert self.pool.totals().cached == 0

    @stateful.invariant()
    def agrees(self) -> None:
        if not hasattr(self, "pool"):
            return
        self.pool.check({holder.name: holder.table for holder in self.holders})
        for change in self.pool.drain_changes():
            self.told[change.page] = change
        for page in range(self.pool.pages):
            detail, told = self.pool.detail(page), self.told.get(page, PageChange(page, "free"))
            assert (detail.state, detail.owners, detail.refs) == (told.state, told.owners, told.refs)
            assert (detail.fill, detail.hash) == (told.fill, told.hash)
        totals = self.pool.totals()
        assert totals.used + totals.cached + totals.free == totals.total == self.pool.pages
        assert totals.used == len({page for holder in self.holders for page in holder.table})

    def teardown(self) -> None:
        while self.holders:
            self.go(0, False)
            self.agrees()


TestPool = PoolMachine.TestCase
TestPool.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
