"""Where the time went: one request from submission to paint, and the percentiles over all requests."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from ...engine.protocol import Delivery
from ..state import RequestState, SampleState, Shown
from .glyphs import sparkline
from .line import Line, spread, wrap
from .panel import Panel
from .stages import queued_ns, stages, ttft_ns
from .units import count, duration, rate

SERVER = "network, queue and prefill"  # of a server: it does not tell them apart
QUEUED = "template to queue"  # the queue alone has a row of the totals
GLYPHS = {QUEUED: "░", "prefill": "█", SERVER: "█", "decode to first text": "▓", "transport": "▒", "paint": "▲"}
NONE = "—"
NOTHING = [NONE, NONE]
ROOMY, MOST_ROWS = 10, 4  # from so many rows on, one kind of fact may take so many
DELIVERIES: tuple[Delivery, Delivery] = ("streamed", "buffered")


class TimelinePanel(Panel):
    """Spans of the first token on one scale, the ITL as a sparkline, both deliveries side by side, the totals."""

    TITLE = "timeline"
    CAPABILITY = "timeline"

    def depends_on(self) -> Hashable:
        request = self.current
        return (request and (request.request, request.version), self.state.timeline.version, self.selection.version)

    def draw(self, width: int, height: int) -> list[Line]:
        found = self.resolved()
        request, sample = found.request, found.sample
        if request is None:
            return []
        most = MOST_ROWS if height >= ROOMY else 1
        rows = self._spans(request, sample, width, most)
        rows += self._intervals(sample, width, most)
        rows += self._deliveries(width)
        return rows + self._totals(request, sample, width)

    def _spans(self, request: RequestState, sample: SampleState | None, width: int, most: int) -> list[Line]:
        """Submission to first paint, each span as long as its share."""
        spans = self.spans(request, sample)
        if not spans:
            return [Line("nothing has run yet", "dim")]
        whole = sum(ns for _, ns in spans) or 1
        line, legend, used = Line(), [], 0.0
        for name, ns in spans:
            first, used = round(used / whole * width), used + ns
            cells = max(0, round(used / whole * width) - first)
            line.add(GLYPHS[name] * min(cells, width - line.width), "user" if name in ("prefill", SERVER) else "")
            legend.append(f"{GLYPHS[name]} {name} {duration(ns)}")
        return [line, *spread(legend, width, most)]

    def spans(self, request: RequestState, sample: SampleState | None) -> list[tuple[str, int]]:
        """(name, duration in ns) from submission to first paint, as far as it is known."""
        if self.state.remote:
            first = ttft_ns(request, sample)
            return [] if sample is None or first is None else [(SERVER, first), *self._after_first(sample)]
        if sample is None or not sample.scheduled_ns:
            return []
        named = {stage.name: stage.ns for stage in stages(request, sample)}
        began = request.submitted_ns or sample.queued_ns or sample.scheduled_ns
        spans = [(QUEUED, max(0, sample.scheduled_ns - began)), ("prefill", named["prefill"] or 0)]
        return spans + self._after_first(sample)

    def _after_first(self, sample: SampleState) -> list[tuple[str, int]]:
        """From the first token to its paint."""
        spans: list[tuple[str, int]] = []
        if sample.first_received_ns and sample.first_token_ns:
            spans.append(("decode to first text", max(0, sample.first_text_ns - sample.first_token_ns)))
            spans.append(("transport", max(0, sample.first_received_ns - self.state.clock.here(sample.first_text_ns))))
            if sample.first_painted_ns:
                spans.append(("paint", max(0, sample.first_painted_ns - sample.first_received_ns)))
        return spans

    def _intervals(self, sample: SampleState | None, width: int, most: int) -> list[Line]:
        intervals = sample.intervals_ns(max(1, width)) if sample is not None else []
        if not intervals:
            return []
        p50, p95 = self.state.timeline.p50_p95(intervals)
        first = sample.first_decode_ns() if sample is not None else None
        parts = [f"ITL p50 {duration(p50)}, p95 {duration(p95)}"]
        parts += [f"first decode {duration(first)}"] if first is not None else []
        parts.append(f"most {duration(max(intervals))}")
        rows = spread(parts, width, most, "dim")
        if width - rows[-1].width >= 17:
            rows[-1].add(" ").add(sparkline(intervals, width - rows[-1].width - 1), "assistant")
            return rows
        return [*rows, Line(sparkline(intervals, width), "assistant")]

    def _deliveries(self, width: int) -> list[Line]:
        """First paint and completion of the newest reply of each delivery, on the scale of the slower one."""
        shown = self.state.timeline.shown
        whole = max((item.completion_ns for item in shown.values()), default=0)
        if not whole:
            return []
        return [self._delivery(name, shown.get(name), whole, width) for name in DELIVERIES]

    def _delivery(self, name: Delivery, shown: Shown | None, whole: int, width: int) -> Line:
        line = Line().fit(name, 9)
        if shown is None:
            return line.add("not tried yet", "dim")
        facts = f" {duration(shown.first_paint_ns)} ▲ first paint, {duration(shown.completion_ns)} ■ complete"
        cells = width - line.width - len(facts)
        if cells < 8:
            facts = f" ▲ {duration(shown.first_paint_ns)} ■ {duration(shown.completion_ns)}"
            cells = width - line.width - len(facts)
        if cells >= 4:
            paint = min(cells - 1, int(shown.first_paint_ns / whole * (cells - 1)))
            done = min(cells - 1, int(shown.completion_ns / whole * (cells - 1)))
            bar = ["·" if at < paint else "─" if at < done else " " for at in range(cells)]
            bar[done] = "■"
            bar[paint] = "▲"
            line.add("".join(bar), "assistant")
        return line.add(facts)

    def _totals(self, request: RequestState, sample: SampleState | None, width: int) -> list[Line]:
        timings = self.state.timeline
        intervals = sample.intervals_ns() if sample is not None else []
        ttft = ttft_ns(request, sample)
        began, ended = request.submitted_ns, sample.finished_ns if sample is not None else 0
        speed = sample.tokens_per_second() if sample is not None else 0.0
        rows = [_row("", ("this", "p50", "p95"), "dim")]
        durations = (
            ("TTFT", ttft, timings.ttft_ns),
            ("ITL", timings.p50_p95(intervals)[0] if intervals else None, timings.itl_ns),
            ("queue", queued_ns(request, sample), timings.queue_ns),
            ("total", ended - began if began and ended else None, timings.total_ns),
        )
        for name, this, values in durations:
            over = [duration(value) for value in timings.p50_p95(values)] if values else NOTHING
            rows.append(_row(name, (NONE if this is None else duration(this), *over)))
        rates = [rate(value) for value in timings.p50_p95(timings.rates)] if timings.rates else NOTHING
        rows.append(_row("tok/s", (rate(speed) if speed else NONE, *rates)))
        if timings.total_ns:
            many = len(timings.total_ns)
            rows.append(Line(f"over {count(many)} finished repl{'y' if many == 1 else 'ies'}", "dim"))
        if self.state.remote:
            sentence = "measured here, from the command to the paint; the server's own clock is not told"
            rows += [Line(part, "dim") for part in wrap(sentence, width)]
            told = sample.finished.told if sample is not None and sample.finished is not None else {}
            for name, words in told.items():
                rows += [Line(part, "dim") for part in wrap(f"told by the server: {name}, {words}", width)]
        if self.state.clock.derived:
            rows.append(Line("transport is derived: the engine's clock is another one", "dim"))
        return rows

    def titles(self) -> tuple[str, str]:
        found = self.resolved()
        if found.request is None:
            return self.TITLE, ""
        ttft = ttft_ns(found.request, found.sample)
        speed = found.sample.tokens_per_second() if found.sample is not None else 0.0
        parts = [found.request.name]
        if ttft is not None:
            parts.append(f"TTFT {duration(ttft)}")
        if speed:
            parts.append(f"{rate(speed)} tok/s")
        return self.TITLE, " · ".join(parts)


def _row(name: str, columns: Iterable[str], style: str = "") -> Line:
    line = Line().fit(name, 8, style)
    for column in columns:
        line.fit(column, 11, style, right=True)
    return line
