"""The page pool: who holds which page of keys and values, what is in it, and what can be found again. No torch.

A page is `used` (it has references), `cached` (it has none, but what it holds can still be matched by the prefix
index or revived by a fork) or `free`. Cached pages are given up in least-recently-used order, and only when no free
page is left. Every operation costs O(1) in the size of the pool.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping
from collections.abc import Sequence as Items
from typing import Literal

from .prefix_index import PrefixIndex
from .protocol import PageChange, PageDetail, PoolTotals

State = Literal["used", "cached", "free"]


class IntegrityError(AssertionError):
    """The pool or the scheduler broke one of its own rules: a bug, never a user's fault."""


@dataclasses.dataclass(slots=True)
class _Page:
    owners: tuple[str, ...] = ()  # one for each reference
    tokens: list[int] = dataclasses.field(default_factory=list)  # whose keys and values have been written
    name: bytes | None = None  # in the prefix index
    position: int = -1  # of the first token in its sequence
    generation: int = 0  # how often the page has been handed out
    revivable: bool = False  # a finished sequence remembers it
    evicted: bool = False  # since the last drain
    copied_from: int = -1  # since the last drain

    @property
    def worth_keeping(self) -> bool:
        return self.name is not None or (self.revivable and bool(self.tokens))


class PagePool:
    """`pages` pages of `page_size` tokens. `salt` is the model's identity: pages of another never match."""

    def __init__(self, pages: int, page_size: int, salt: bytes = b"") -> None:
        if pages < 1 or page_size < 1:
            raise ValueError(f"a pool needs at least one page of one token, not {pages} of {page_size}")
        self.pages = pages
        self.page_size = page_size
        self.index = PrefixIndex(page_size, salt)
        self._touched: list[_Page] = []  # pages from len(_touched) on have never been used: a big pool starts at once
        self._free: list[int] = []  # of the touched pages
        self._cached: collections.OrderedDict[int, None] = collections.OrderedDict()  # least recently used first
        self._shared = 0
        self._dirty: dict[int, None] = {}

    @property
    def available(self) -> int:
        """Pages that `allocate` can hand out: free and cached ones."""
        return self.pages - len(self._touched) + len(self._free) + len(self._cached)

    def pages_for(self, length: int) -> int:
        """Pages that `length` positions take."""
        return -(-length // self.page_size)

    def refs(self, page: int) -> int:
        return len(self._touched[page].owners)

    def generation(self, page: int) -> int:
        """Changes whenever the page is handed out anew; what `revive` compares."""
        return self._touched[page].generation

    # ------------------------------------------------------------------------------------------- references

    def allocate(self, owner: str, position: int) -> int:
        """Hand out a page for the tokens from `position` on, evicting the least recently used one if need be.

        Raises `IntegrityError` if nothing is `available`, which the caller has to ask first.
        """
        if self._free:
            number = self._free.pop()
        elif len(self._touched) < self.pages:
            number = len(self._touched)
            self._touched.append(_Page())
        elif self._cached:
            number, _ = self._cached.popitem(last=False)
            self._forget(number)
        else:
            raise IntegrityError(f"{owner} asked for a page, but all {self.pages} are in use")
        page = self._touched[number]
        page.generation += 1
        page.owners = (owner,)
        page.position = position
        page.copied_from = -1
        self._dirty[number] = None
        return number

    def take(self, number: int, owner: str) -> None:
        """Add a reference to a page that is used or cached."""
        page = self._touched[number]
        if not page.owners:
            if number not in self._cached:
                raise IntegrityError(f"{owner} takes page {number}, which is free")
            del self._cached[number]
        elif len(page.owners) == 1:
            self._shared += 1
        page.owners += (owner,)
        self._dirty[number] = None

    def release(self, number: int, owner: str, remembered: bool = False) -> None:
        """Give a reference back. `remembered`: a finished sequence may `revive` the page later."""
        page = self._touched[number]
        if owner not in page.owners:
            raise IntegrityError(f"{owner} releases page {number}, which belongs to {page.owners or 'nobody'}")
        at = page.owners.index(owner)
        page.owners = page.owners[:at] + page.owners[at + 1 :]
        page.revivable |= remembered
        if len(page.owners) == 1:
            self._shared -= 1
        elif not page.owners:
            if page.worth_keeping:
                self._cached[number] = None
            else:
                self._clear(page)
                self._free.append(number)
        self._dirty[number] = None

    def revive(self, number: int, generation: int, owner: str) -> bool:
        """Take a page that was seen at `generation`, unless it has been reused since or holds nothing any more."""
        page = self._touched[number]
        if page.generation != generation or not (page.owners or number in self._cached):
            return False
        self.take(number, owner)
        return True

    # ---------------------------------------------------------------------------------------------- content

    def write(self, number: int, offset: int, tokens: Items[int]) -> None:
        """Record that the keys and values of `tokens` are in the page's slots from `offset` on."""
        held = self._touched[number].tokens
        if not 0 <= offset <= len(held) or offset + len(tokens) > self.page_size:
            raise IntegrityError(f"{len(tokens)} tokens at slot {offset} of page {number}, which holds {len(held)}")
        new = offset + len(tokens) - len(held)
        if new > 0:
            held.extend(tokens[-new:])
            self._dirty[number] = None

    def copy(self, source: int, target: int, fill: int) -> None:
        """Record that the first `fill` slots of `source` have been copied to the empty page `target`."""
        self._touched[target].copied_from = source
        self.write(target, 0, self._touched[source].tokens[:fill])

    def register(self, number: int, name: bytes) -> None:
        """Make a full, computed page matchable; a page whose name another one has stays without."""
        page = self._touched[number]
        if len(page.tokens) != self.page_size:
            raise IntegrityError(f"page {number} is registered with {len(page.tokens)} of {self.page_size} tokens")
        if page.name is None and self.index.add(name, number):
            page.name = name
            self._dirty[number] = None

    def match(self, tokens: list[int], limit: int | None = None, chain: list[bytes] | None = None) -> list[int]:
        """Pages of the longest cached prefix of at most `limit` tokens, never covering the last token.

        The last token's logits are wanted, so something must be left to compute. The stored tokens are compared
        too. `chain` is the memory that `PrefixIndex.name` describes.
        """
        size = self.page_size
        chain = [] if chain is None else chain
        most = len(tokens) - 1 if limit is None else min(limit, len(tokens) - 1)
        found: list[int] = []
        for at in range(max(0, most) // size):
            number = self.index.find(self.index.name(chain, tokens, at))
            if number is None or self._touched[number].tokens != tokens[at * size : (at + 1) * size]:
                break
            found.append(number)
        return found

    def clear_cache(self) -> None:
        """Forget every unreferenced cached page."""
        for number in self._cached:
            self._forget(number)
            self._free.append(number)
        self._cached.clear()

    def _forget(self, number: int) -> None:
        page = self._touched[number]
        page.evicted = True
        self._clear(page)
        self._dirty[number] = None

    def _clear(self, page: _Page) -> None:
        if page.name is not None:
            # A name that outlived its content would match a page that holds something else by then.
            self.index.remove(page.name)
            page.name = None
        page.tokens = []
        page.position = -1
        page.revivable = False
        page.copied_from = -1

    # -------------------------------------------------------------------------------------------- reporting

    def state(self, number: int) -> State:
        if number < len(self._touched) and self._touched[number].owners:
            return "used"
        return "cached" if number in self._cached else "free"

    def totals(self) -> PoolTotals:
        used = self.pages - self.available
        cached = len(self._cached)
        return PoolTotals(self.pages, used, self._shared, cached, self.pages - used - cached)

    def drain_changes(self) -> tuple[PageChange, ...]:
        """The state of each page that changed since the last call."""
        changes = tuple([self._change(number) for number in self._dirty])
        self._dirty.clear()
        return changes

    def _change(self, number: int) -> PageChange:
        page = self._touched[number]
        owners = page.owners
        change = PageChange(
            number,
            "used" if owners else "cached" if number in self._cached else "free",
            owners,
            len(page.tokens),
            len(owners),
            page.name[:8].hex() if page.name else "",
            page.evicted,
            page.copied_from,
        )
        page.evicted = False
        page.copied_from = -1
        return change

    def detail(self, number: int) -> PageDetail:
        """What a page holds. Pieces of text are left to whoever knows the tokenizer."""
        if not 0 <= number < self.pages:
            raise IndexError(f"page {number} of {self.pages}")
        page = self._touched[number] if number < len(self._touched) else _Page()
        return PageDetail(
            page=number,
            state=self.state(number),
            token_ids=tuple(page.tokens),
            owners=page.owners,
            refs=len(page.owners),
            fill=len(page.tokens),
            hash=page.name[:8].hex() if page.name else "",
            positions=page.position,
        )

    def check(self, tables: Mapping[str, Items[int]]) -> None:
        """Raise `IntegrityError` unless the pool agrees with itself and with `tables`: the pages of each owner."""
        held: dict[int, list[str]] = collections.defaultdict(list)
        for owner, table in tables.items():
            for number in table:
                held[number].append(owner)
        problems = [f"{owner} has a page twice: {t}" for owner, t in tables.items() if len(set(t)) < len(t)]
        problems += [f"page {number} has never been handed out" for number in held if number >= len(self._touched)]
        free = set(self._free)
        if len(free) < len(self._free):
            problems.append("a page is in the free list twice")
        for number, page in enumerate(self._touched):
            where = (bool(page.owners), number in self._cached, number in free)
            if sum(where) != 1:
                problems.append(f"page {number} is (used, cached, free) = {where}")
            if sorted(page.owners) != sorted(held[number]):
                problems.append(f"page {number} says it belongs to {page.owners}, the tables say {held[number]}")
            if number in free and (page.tokens or page.name):
                problems.append(f"page {number} is free and holds {len(page.tokens)} tokens, name {page.name!r}")
            if number in self._cached and not page.worth_keeping:
                problems.append(f"page {number} is cached and can't be found again")
            if page.name is not None and (self.index.find(page.name) != number or len(page.tokens) != self.page_size):
                problems.append(f"page {number} has a name that the index gives to {self.index.find(page.name)}")
        problems += [
            f"the index gives a name to page {number}, which does not have it"
            for name, number in self.index.items()
            if self._touched[number].name != name
        ]
        if self._shared != sum(len(page.owners) > 1 for page in self._touched):
            problems.append(f"{self._shared} pages are counted as shared")
        if problems:
            raise IntegrityError("; ".join(problems))
