"""Batch lanes by iterations, the queue with its reasons, and the two policies side by side."""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from typing import ClassVar

from textual.binding import Binding, BindingType

from ...engine.protocol import Phase, Wait
from ..state import FinishRecord, IterationRecord, LaneCell, LaneHistory
from .glyphs import shade
from .line import Line, spread, wrap
from .panel import Panel
from .server_totals import load_rows
from .units import count, duration, percent

MARKS: dict[Phase, str] = {"prefill": "▓", "decode": "▪", "recompute": "↻", "padding": "×"}
IDLE = "·"
LEGEND = ("░▒▓█ prefill, by chunk size", "▪ decode", "↻ recompute", "× padding", "· idle", "A enters")
MOST_WAITS = 3
MOST_ROWS = 8  # of the comparison
SPARED = "≡ spared"


class LanesPanel(Panel):
    """One row a lane, one column an iteration, the newest at the right; a request's letter where it enters."""

    TITLE = "lanes"
    CAPABILITY = "lanes"
    TOTALS = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Lane up", show=False, id="lanes.up"),
        Binding("down", "move(1)", "Lane down", show=False, id="lanes.down"),
    ]

    _made: dict[int, dict[int, tuple[str, str]]] = {}
    _made_for: Hashable = None
    _records: list[IterationRecord] = []

    def depends_on(self) -> Hashable:
        return (self.state.lanes.version, self.selection.version, len(self.state.requests), self.state.load.version)

    def waiting(self) -> str:
        return "" if self.state.lanes.records or self.state.lanes.waits else "no iteration yet"

    def instead(self, width: int) -> list[Line]:
        return load_rows(self.state, width) if self.state.remote else []

    # ------------------------------------------------------------------------------------------------- drawing

    def draw(self, width: int, height: int) -> list[Line]:
        history = self.state.lanes
        lanes = max(1, history.lanes_seen)
        digits = len(str(lanes - 1))
        now_width = 20 if width >= 56 else 0
        columns = max(1, width - digits - 1 - (now_width + 1 if now_width else 0))
        self._records = history.newest(columns)
        self._left = digits + 1
        drawn = self._columns()
        rows = []
        for lane in range(lanes):
            line = Line().fit(str(lane), digits, "dim", right=True).add(" ")
            text, style = "", ""
            for column in drawn:
                glyph, look = column.get(lane, (IDLE, "dim"))
                if look != style:
                    line.add(text, style)
                    text, style = "", look
                text += glyph
            line.add(text, style)
            if now_width:
                line.pad_to(width - now_width).add(self._now(lane), "dim")
            rows.append(line)
        self._lane_rows = len(rows)
        if history.merged:
            rows.append(Line(f"{count(history.merged)} iterations came in sum only, without their lanes", "dim"))
        rows += self._waits(history.waits)
        rows += self._comparison(width)
        return rows

    def _columns(self) -> list[dict[int, tuple[str, str]]]:
        """(glyph, style) by lane of each iteration shown. What was is not drawn again: only the newest is new."""
        chosen = self.current
        made_for = (
            chosen.request if chosen else "",
            self.state.switches.token_budget,
            next(iter(self.state.requests), ""),
        )
        known = self._made if made_for == self._made_for else {}
        self._made_for, name = made_for, made_for[0]
        self._made = {
            id(record): known.get(id(record)) or {cell.lane: self._cell(cell, name) for cell in record.cells}
            for record in self._records
        }
        return list(self._made.values())

    def _cell(self, cell: LaneCell, chosen: str) -> tuple[str, str]:
        request = self.state.requests.get(cell.request)
        style = f"request:{request.number}" if request else "dim"
        if cell.request == chosen:
            style += " strong"
        if cell.phase == "padding":
            return MARKS["padding"], "bad" if cell.request != chosen else "bad strong"
        if cell.admitted:
            return self.state.letter_of(cell.request), style
        if cell.phase == "prefill":
            return shade(cell.count / max(1, self.state.switches.token_budget)), style
        return MARKS[cell.phase], style

    def _at(self, column: int, lane: int) -> LaneCell | None:
        return next((cell for cell in self._records[column].cells if cell.lane == lane), None)

    def _now(self, lane: int) -> str:
        """What a lane did in the newest iteration, in words and numbers."""
        cell = self._at(-1, lane) if self._records else None
        if cell is None:
            return "idle"
        letter = self.state.letter_of(cell.request)
        what = f"{letter} {cell.phase}"
        return what if cell.phase in ("decode", "padding") else f"{what} {cell.count}@{cell.start}"

    def _waits(self, waits: tuple[Wait, ...]) -> list[Line]:
        rows = []
        for wait in waits[:MOST_WAITS]:
            request = self.state.requests.get(wait.request)
            line = Line("waits ", "warn").add(
                self.state.letter_of(wait.request), f"request:{request.number}" if request else ""
            )
            line.add(f": {wait.reason}")
            if wait.overtaken:
                line.add(f" (overtaken {wait.overtaken} times)", "dim")
            rows.append(line)
        if len(waits) > MOST_WAITS:
            rows.append(Line(f"and {count(len(waits) - MOST_WAITS)} more wait", "warn"))
        return rows

    def _comparison(self, width: int) -> list[Line]:
        """Finish times under both policies, in sum and one by one."""
        history = self.state.lanes
        table = history.compare()
        if not table:
            return []
        both = [row for row in table if row[1] and row[2]]
        # Traffic that ran under one policy since: it is shown before what was compared earlier.
        since = itertools.takewhile(lambda row: not (row[1] and row[2]), table)
        alone = [row for row in since if any(record and record.label != record.request for record in row[1:])]
        shown = ([*alone, *both] if both else table)[:MOST_ROWS]
        first = max(6, min(16, width - 24))
        rows = [
            Line()
            .fit("finished after", first, "dim")
            .fit("continuous", 12, "dim", right=True)
            .fit("static", 12, "dim", right=True)
        ]
        sums = _sums(history, [record for row in both for record in row[1:] if record])
        for name, *values in sums:
            line = Line().fit(name, first, "strong")
            rows.append(line.fit(values[0], 12, "strong", right=True).fit(values[1], 12, "strong", right=True))
        for label, continuous, static in reversed(shown):
            rows.append(Line().fit(label, first).add(_time(continuous)).add(_time(static)))
        if alone or not both:
            rows += _note("run the same traffic under the other policy to compare", width)
        if any(name == SPARED for name, *_ in sums):
            rows += _note("the prefix cache spared one of them more: ⌫ cache before each compares them alike", width)
        return rows

    def pinned(self, width: int, height: int) -> list[Line]:
        if height < self._lane_rows + 3:
            return []
        return spread(LEGEND, width, 2 if height >= len(self._lines) + 2 else 1, "dim", "  ")

    def titles(self) -> tuple[str, str]:
        history = self.state.lanes
        parts = [history.records[-1].policy if history.records else self.state.switches.policy]
        share = history.useful_share()
        if share is not None:
            parts.append(f"{percent(share)} useful")
        if history.records:
            newest = history.records[-1]
            parts.append(f"step {count(newest.iteration)}{', launched ahead' if newest.ahead else ''}")
        return self.TITLE, " · ".join(parts)

    # ------------------------------------------------------------------------------------------------- choosing

    def clicked(self, x: int, y: int) -> None:
        column = x - self._left
        if y >= self._lane_rows or not 0 <= column < len(self._records):
            return
        cell = self._at(column, y)
        if cell is not None:
            self._choose(cell, self._records[column].iteration)

    def _choose(self, cell: LaneCell, iteration: int) -> None:
        """Go to the token that a lane drew in an iteration, or to the last position it computed."""
        request = self.state.requests.get(cell.request)
        if request is None:
            return
        sample = request.samples.get(cell.sample)
        position = cell.start + cell.count - 1
        if sample is not None and (iteration, cell.lane) in sample.made:
            position = request.prompt_length + sample.made.index((iteration, cell.lane))
        self.selection.select_token(cell.request, cell.sample, position)
        self.selected()

    def action_move(self, by: int) -> None:
        """Select what the lane above or below does now."""
        if self._records:
            newest = {cell.lane: cell for cell in self._records[-1].cells}
            order = sorted(newest)
            chosen = self.current
            at = next((i for i, lane in enumerate(order) if chosen and newest[lane].request == chosen.request), None)
            if order:
                target = order[0] if at is None else order[min(max(0, at + by), len(order) - 1)]
                self.selection.select_request(newest[target].request, newest[target].sample)
                self.selected()


def _sums(history: LaneHistory, records: list[FinishRecord]) -> list[tuple[str, str, str]]:
    """(what, continuous, static) of the same work; tokens that the prefix cache spared only where they differ."""
    a, b = history.summary("continuous", records), history.summary("static", records)
    if a is None or b is None:
        return []
    told = [("p50", duration(a.p50_ns), duration(b.p50_ns)), ("last", duration(a.last_ns), duration(b.last_ns))]
    return told if a.cached == b.cached else [*told, (SPARED, count(a.cached), count(b.cached))]


def _note(sentence: str, width: int) -> list[Line]:
    return [Line(part, "dim") for part in wrap(sentence, width)]


def _time(record: FinishRecord | None) -> str:
    return (duration(record.total_ns) if record else "—").rjust(12)
