"""The page pool as the page changes tell it."""

from __future__ import annotations

from typing import Literal

import msgspec

from ...engine.protocol import ModelCard, PageChange, PageDetail, PoolTotals
from .limits import Limits

FLASH_NS = 1_000_000_000
UNTOLD = PoolTotals()


class Flash(msgspec.Struct, frozen=True):
    """Something that happened to a page and is shown for a moment."""

    kind: Literal["evicted", "copied"]
    until_ns: int  # the UI's clock


class PoolState:
    """Latest state of every page that ever changed; pages without an entry are free."""

    def __init__(self, limits: Limits) -> None:
        self.version = 0
        self.pages: dict[int, PageChange] = {}
        self.totals = PoolTotals()
        self.flashes: dict[int, Flash] = {}
        self.details: dict[int, PageDetail] = {}  # answers to Inspect, newest last
        self.page_size = 0  # tokens a page; 0: not known
        self.page_bytes = 0
        self.size = 0  # pages; 0: not known
        self.evictions = 0
        self.copies = 0
        self.queried = 0  # prompt tokens of admitted samples
        self.hit = 0  # of which the prefix cache gave
        self._limits = limits

    def reset(self, card: ModelCard) -> None:
        """Start over with the pool of a newly loaded model."""
        self.pages.clear()
        self.flashes.clear()
        self.details.clear()
        self.totals = PoolTotals(total=card.pages, free=card.pages)
        self.page_size, self.page_bytes, self.size = card.page_size, card.page_bytes, card.pages
        self.evictions = self.copies = self.queried = self.hit = 0
        self.version += 1

    def change(self, changes: tuple[PageChange, ...], totals: PoolTotals, now_ns: int) -> None:
        """Take the page changes and totals of one step."""
        if not changes and totals == self.totals:
            return
        known = totals != UNTOLD
        bound = self.size or self._limits.pages
        for change in changes:
            if not 0 <= change.page < bound or (
                change.page not in self.pages and len(self.pages) >= self._limits.pages
            ):
                continue
            self.pages[change.page] = change
            self.details.pop(change.page, None)
            if change.evicted:
                self.evictions += 1
                self._flash(change.page, "evicted", now_ns)
            if change.copied_from >= 0:
                self.copies += 1
                self._flash(change.page, "copied", now_ns)
        if known:
            self.totals = totals
            self.size = self.size or totals.total
        self.version += 1

    def inspected(self, detail: PageDetail) -> None:
        """Take an answer to `Inspect(page=…)`; it is kept until the page changes."""
        self.details.pop(detail.page, None)
        self.details[detail.page] = detail
        while len(self.details) > self._limits.details:
            del self.details[next(iter(self.details))]
        self.version += 1

    def admitted(self, prompt: int, cached: int) -> None:
        """Count a sample's first admission for the hit rate."""
        self.queried += prompt
        self.hit += cached
        self.version += 1

    def expire(self, now_ns: int) -> None:
        """Put out the flashes whose moment is over; a panel that shows them calls this as it polls."""
        over = [page for page, flash in self.flashes.items() if flash.until_ns <= now_ns]
        for page in over:
            del self.flashes[page]
        if over:
            self.version += 1

    def _flash(self, page: int, kind: Literal["evicted", "copied"], now_ns: int) -> None:
        self.flashes[page] = Flash(kind, now_ns + FLASH_NS)
        while len(self.flashes) > self._limits.flashes:
            del self.flashes[next(iter(self.flashes))]

    @property
    def hit_rate(self) -> float | None:
        """Share of admitted prompt tokens that the prefix cache spared; None: nothing admitted yet."""
        return self.hit / self.queried if self.queried else None

    def bytes_of(self, pages: int) -> int:
        return pages * self.page_bytes

    def page_fill(self, page: int) -> int:
        """Tokens written in a page."""
        change = self.pages.get(page)
        return change.fill if change else 0
