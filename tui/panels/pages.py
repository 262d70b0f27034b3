"""The pool of KV pages as a grid: who owns each, how full it is, what is shared, cached and just evicted."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from textual.binding import Binding, BindingType

from ...engine.protocol import PageChange
from .glyphs import ramp, superscript
from .line import Line, facts_rows, joined, spread
from .messages import InspectRequested
from .panel import Panel
from .server_totals import cache_rows
from .token_text import crop, token_text
from .units import count, percent, size

FREE, CACHED, EVICTED, COPIED = "·", "░", "✗", "»"
LEGEND = ("A owner", "▃ its last page", "² shared", "░ cached, free to take", "· free", "✗ evicted", "» copied")


class PagesPanel(Panel):
    """One cell a page, in page order; the facts and the selected page stay below while the grid scrolls."""

    TITLE = "KV pages"
    CAPABILITY = "pages"
    TOTALS = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1)", "Previous page", show=False, id="pages.left"),
        Binding("right", "move(1)", "Next page", show=False, id="pages.right"),
        Binding("up", "move_row(-1)", "Row up", show=False, id="pages.up"),
        Binding("down", "move_row(1)", "Row down", show=False, id="pages.down"),
        Binding("home", "first", "First page", show=False, id="pages.first"),
        Binding("end", "last", "Last page", show=False, id="pages.last"),
        Binding("enter", "inspect", "Inspect page", id="pages.inspect"),
    ]

    _width = 1
    _own: frozenset[int] = frozenset()
    _made_for: Hashable = None
    _cells: dict[int, tuple[PageChange | None, tuple[str, str]]] = {}  # (made from, made)
    _asked: tuple[int, PageChange | None] | None = None

    def depends_on(self) -> Hashable:
        pool, lanes = self.state.pool, self.state.lanes
        pool.expire(self.state.now_ns())
        # The recomputation row is the only thing that changes with every step.
        recomputing = None if self.state.switches.kv_reuse else lanes.version
        return (pool.version, self.selection.version, recomputing, self.state.load.version)

    def waiting(self) -> str:
        return "" if self.state.pool.size else "no page pool yet"

    def instead(self, width: int) -> list[Line]:
        return cache_rows(self.state, width) if self.state.remote else []

    # ------------------------------------------------------------------------------------------------- drawing

    def measure(self, width: int, height: int) -> int:
        pool = self.state.pool
        self._width = max(1, width)
        self._found = self.resolved()
        sample = self._found.sample
        own = frozenset(sample.block_table) if sample is not None and sample.finished is None else frozenset()
        made_for = (own, pool.page_size, bool(pool.flashes), next(iter(self.state.requests), ""))
        if made_for != self._made_for:
            self._cells, self._made_for, self._own = {}, made_for, own
        return -(-pool.size // self._width)

    def row(self, y: int, width: int) -> Line:
        pool = self.state.pool
        line = Line()
        text, style = "", ""
        # Neighbours of one look are one piece.
        pages, flashes, cells = pool.pages, pool.flashes, self._cells
        for page in range(y * self._width, min((y + 1) * self._width, pool.size)):
            change = pages.get(page)
            if change is None and not flashes:
                glyph, look = FREE, "dim"
            else:
                known = cells.get(page)
                if known is None or known[0] is not change or flashes:
                    known = cells[page] = (change, self._cell(page, change))
                glyph, look = known[1]
            if page == self._found.page:
                look += " cursor"
            if look != style:
                line.add(text, style)
                text, style = "", look
            text += glyph
        return line.add(text, style)

    def _cell(self, page: int, change: PageChange | None) -> tuple[str, str]:
        flash = self.state.pool.flashes.get(page)
        if flash is not None:
            return (EVICTED, "bad strong") if flash.kind == "evicted" else (COPIED, "warn strong")
        if change is None or change.state == "free":
            return FREE, "dim"
        if change.state == "cached":
            return CACHED, "accent"
        owner = change.owners[0] if change.owners else ""
        request = self.state.requests.get(owner.rpartition("/")[0])
        look = f"request:{request.number}" if request else "raw"
        if page in self._own:
            look += " strong"
        if change.refs > 1:
            return superscript(change.refs), look
        if 0 <= change.fill < self.state.pool.page_size:
            return ramp(min(7 / 8, change.fill / self.state.pool.page_size)), look
        return (request.letter if request else "?"), look

    def pinned(self, width: int, height: int) -> list[Line]:
        pool = self.state.pool
        rows: list[Line] = []
        if height >= 3:
            used = pool.totals.used
            rate = pool.hit_rate
            facts = [f"{size(pool.bytes_of(used))} of {size(pool.bytes_of(pool.size))}"]
            if rate is not None:
                facts += [f"hit rate {percent(rate)}", f"{count(pool.hit)} of {count(pool.queried)} tokens hit"]
            if pool.evictions or pool.copies:
                facts += [f"{count(pool.evictions)} evicted", f"{count(pool.copies)} copied"]
            rows += spread(facts, width, facts_rows(height))
        work = self._work()
        if height >= 4 and work:
            rows.append(joined(work, width, "dim" if self.state.switches.kv_reuse else "warn"))
        if height >= 5:
            rows += self._selected(width, height >= 7)
        if height >= 9:
            rows += spread(LEGEND, width, facts_rows(height), "dim", "  ")
        return rows

    def _work(self) -> list[str]:
        """What KV reuse saves, or what its absence costs, in the newest iteration."""
        records = self.state.lanes.records
        if not records or not records[-1].computed:
            return []
        last = records[-1]
        useful = count(last.computed - last.padding)
        if self.state.switches.kv_reuse:
            return [f"KV reuse: computed {useful}", f"without it {count(last.recompute_needs)} (derived)"]
        return [f"KV reuse off: computed {useful}", f"reuse needs {count(last.reuse_needs)}"]

    def _selected(self, width: int, contents: bool) -> list[Line]:
        page = self._found.page
        pool = self.state.pool
        if not 0 <= page < pool.size:
            return [Line("no page selected", "dim")]
        change = pool.pages.get(page)
        state = change.state if change else "free"
        parts = [f"page {count(page)}", state]
        if change is not None and state != "free":
            parts += [f"{change.fill}/{pool.page_size}", f"refs {change.refs}"]
            if change.owners:
                marks = " ".join(self._owner(owner) for owner in change.owners[:6])
                parts.append(f"{marks}{'…' if len(change.owners) > 6 else ''}")
            if change.hash:
                parts.append(f"#{change.hash}")
        line = joined(parts, width, "strong")
        if not contents:
            return [line]
        return [line, Line(crop(self._contents(page, state), width), "raw")]

    def _owner(self, owner: str) -> str:
        request, _, sample = owner.rpartition("/")
        state = self.state.requests.get(request)
        mark = state.name if state else "?"
        return mark if sample == "0" else f"{mark}/{sample}"

    def _contents(self, page: int, state: str) -> str:
        """The page's tokens: as the engine told them, else as the block tables do."""
        detail = self.state.pool.details.get(page)
        if detail is not None:
            if detail.pieces:
                return "│".join(token_text(piece, b"") for piece in detail.pieces)
            return "ids " + " ".join(map(str, detail.token_ids))
        tokens = self._found.page_tokens
        if tokens:
            return "│".join("?" if at.token is None else token_text(at.token.piece, at.token.bytes) for at in tokens)
        return "Enter asks the engine what it holds" if state != "free" else "holds nothing"

    def titles(self) -> tuple[str, str]:
        totals = self.state.pool.totals
        parts = [f"{count(totals.used)} used", f"{count(totals.shared)} shared"]
        parts += [f"{count(totals.cached)} cached", f"{count(totals.free)} free"]
        return self.TITLE, " · ".join(parts)

    # ------------------------------------------------------------------------------------------------- choosing

    def _go(self, page: int) -> None:
        pool = self.state.pool
        if not pool.size:
            return
        page = min(max(0, page), pool.size - 1)
        self.selection.select_page(page)
        self.selected()
        self.keep_visible(page // self._width)
        self._ask(page)

    def _ask(self, page: int, again: bool = False) -> None:
        change = self.state.pool.pages.get(page)
        if change is None or change.state == "free" or page in self.state.pool.details:
            return
        if again or self._asked != (page, change):
            self._asked = (page, change)
            self.post_message(InspectRequested(page))

    def clicked(self, x: int, y: int) -> None:
        page = y * self._width + x
        if page < self.state.pool.size:
            self._go(page)

    def action_move(self, by: int) -> None:
        """Select a neighbouring page."""
        self._go(max(0, self.resolved().page) + by)

    def action_move_row(self, by: int) -> None:
        """Select the page above or below."""
        page = max(0, self.resolved().page)
        if 0 <= page + by * self._width < self.state.pool.size:
            self._go(page + by * self._width)

    def action_first(self) -> None:
        """Select the first page."""
        self._go(0)

    def action_last(self) -> None:
        """Select the last page."""
        self._go(self.state.pool.size - 1)

    def action_inspect(self) -> None:
        """Ask the engine what the selected page holds."""
        page = self.resolved().page
        if page >= 0:
            self._ask(page, again=True)
