"""A benchmark as lines of text, 80 cells wide at most."""

from __future__ import annotations

from ..panels.units import count, rate
from .measures import Report, Spread, StreamsResult

_HEADS = ("streams", "prefill", "decode", "of limit", "TTFT p50", "p95", "ITL p50", "p95", "each p50")
_WIDTHS = (7, 8, 8, 8, 8, 8, 8, 8, 8)


def lines(report: Report, before: Report | None) -> list[str]:
    """What was measured, then how it differs from the run before, if there is one."""
    told = [
        _about(report),
        _sizes(report),
        _memory(report),
        "",
        _row(_HEADS),
        _row(("", "tok/s", "tok/s", "", "ms", "", "ms", "", "tok/s")),
    ]
    told += [_row(_figures(result)) for result in report.streams]
    told += [f"{r.streams} streams did not fit the page pool: {r.preemptions} preemptions."
             for r in report.streams if r.preemptions]  # fmt: skip
    told += ["", *_follow_up(report)]
    if before is not None:
        told += ["", *_compared(report, before)]
    return told


def _about(report: Report) -> str:
    parts = [report.model, f"{report.device} {report.precision}", report.kernel]
    parts += [_many(report.threads, "thread")] if report.threads else []
    return " · ".join(part for part in parts if part)


def _memory(report: Report) -> str:
    if not report.memory_bytes_per_s or not report.step_bytes:
        return "How fast memory is read, and so the limit, is not known."
    speed = f"Memory is read at {report.memory_bytes_per_s / 1e9:.1f} GB/s"
    return f"{speed}; a step reads {report.step_bytes / 1e6:,.0f} MB of weights."


def _sizes(report: Report) -> str:
    rounds = _many(report.rounds, "round")
    return f"{count(report.prompt_tokens)} prompt tokens, {count(report.new_tokens)} new ones, {rounds}."


def _figures(result: StreamsResult) -> tuple[str, ...]:
    share = f"{result.share:.0%}" if result.limit else "–"
    return (
        count(result.streams), rate(result.prefill.p50), rate(result.decode.p50), share,
        _ms(result.ttft_ms.p50), _ms(result.ttft_ms.p95), _ms(result.itl_ms.p50), _ms(result.itl_ms.p95),
        rate(result.each.p50),
    )  # fmt: skip


def _follow_up(report: Report) -> list[str]:
    found = report.follow_up
    if found is None:
        return []
    first = f"Follow-up in a chat of {count(found.prompt_tokens)} tokens: first token after"
    if not found.cached_tokens:
        return [f"{first} {_ms(found.cold_ttft_ms.p50)} ms; no prefix was reused."]
    return [
        f"{first} {_ms(found.warm_ttft_ms.p50)} ms with",
        f"{count(found.cached_tokens)} of them in the prefix cache, {_ms(found.cold_ttft_ms.p50)} ms without: "
        f"{found.times:.1f} times sooner.",
    ]


def _compared(report: Report, before: Report) -> list[str]:
    """Changes against a run that can be compared."""
    told = [f"Against the run of {before.made[:16].replace('T', ' ')}{_else(report, before)}:"]
    old = {result.streams: result for result in before.streams}
    told += [_changes(result, old[result.streams]) for result in report.streams if result.streams in old]
    if report.follow_up is not None and before.follow_up is not None:
        told.append(f"{'follow-up':>12}: TTFT {_change(report.follow_up.warm_ttft_ms, before.follow_up.warm_ttft_ms)}")
    return told


def _changes(now: StreamsResult, was: StreamsResult) -> str:
    return (
        f"{_many(now.streams, 'stream'):>12}: prefill {_change(now.prefill, was.prefill)}, "
        f"decode {_change(now.decode, was.decode)}, TTFT {_change(now.ttft_ms, was.ttft_ms)}, "
        f"ITL {_change(now.itl_ms, was.itl_ms)}"
    )


def _else(report: Report, before: Report) -> str:
    """What else is different."""
    other = [
        *([f"cutaway {before.cutaway}"] if before.cutaway != report.cutaway else []),
        *([before.kernel] if before.kernel != report.kernel else []),
        *([_many(before.threads, "thread")] if before.threads != report.threads else []),
    ]
    return f" ({', '.join(other)})" if other else ""


def _change(now: Spread, was: Spread) -> str:
    return f"{now.p50 / was.p50 - 1:+.0%}" if was.p50 > 0 else "–"


def _row(cells: tuple[str, ...]) -> str:
    return " ".join(cell.rjust(width) for cell, width in zip(cells, _WIDTHS, strict=True)).rstrip()


def _ms(milliseconds: float) -> str:
    return f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.1f}"


def _many(number: int, what: str) -> str:
    return f"{count(number)} {what}" if number == 1 else f"{count(number)} {what}s"
