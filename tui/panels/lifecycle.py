"""The way of the selected request: template, tokenize, queue, prefill, decode, sample, stream."""

from __future__ import annotations

from collections.abc import Hashable

from .line import Line
from .panel import Panel
from .stages import Stage, stages, ttft_ns
from .units import duration, milliseconds

SHORT = {
    "template": "tmpl",
    "tokenize": "tok",
    "queue": "que",
    "prefill": "pre",
    "decode": "dec",
    "sample": "smp",
    "stream": "str",
    "server": "srv",
    "reply": "rep",
}


def mark(stage: Stage) -> str:
    """● runs now, ✓ is over, ○ is still to come."""
    return "●" if stage.lit else "✓" if stage.done else "○"


class LifecycleStrip(Panel, can_focus=False):
    """One row. A running stage is bold and has a ●; each has its own time in milliseconds."""

    TITLE = ""
    SCROLLS = False
    DEFAULT_CSS = """
    LifecycleStrip { border: none; height: 1; padding: 0 1; }
    """

    def depends_on(self) -> Hashable:
        request = self.current
        return (
            request and (request.request, request.version),
            self.state.switches.paused,
            self.selection.version,
        )

    def draw(self, width: int, height: int) -> list[Line]:
        found = self.resolved()
        if found.request is None:
            return []
        shown = stages(found.request, found.sample, self.state.remote)
        ttft = ttft_ns(found.request, found.sample)
        paused = "‖ paused" if self.state.switches.paused else ""
        told = f"{paused}  TTFT {duration(ttft)}".lstrip() if ttft is not None else paused
        # The stages' own times come before the TTFT, which the timeline tells as well.
        for form, end in ((_full, told), (_timed, told), (_timed, paused), (_short, told), (_marks, told)):
            line = form(shown)
            if line.width + (len(end) + 2 if end and form is not _marks else 0) <= width:
                break
        else:
            return [line]
        if end and line.width + len(end) + 1 <= width:
            line.pad_to(width - len(end)).add(end, "strong")
        return [line]


def _joined(shown: list[Stage], between: str, name: bool, short: bool, time: bool) -> Line:
    line = Line()
    for stage in shown:
        if line.parts and between:
            line.add(between, "dim")
        style = "good strong" if stage.lit else "" if stage.done else "dim"
        line.add(mark(stage), style)
        if name:
            line.add(SHORT[stage.name] if short else stage.name, style)
        if time and stage.ns is not None:
            line.add(f" {milliseconds(stage.ns)}", style)
    return line


def _full(shown: list[Stage]) -> Line:
    return _joined(shown, " ▸ ", True, False, True)


def _timed(shown: list[Stage]) -> Line:
    return _joined(shown, " ", True, True, True)


def _short(shown: list[Stage]) -> Line:
    return _joined(shown, " ", True, True, False)


def _marks(shown: list[Stage]) -> Line:
    return _joined(shown, "", False, False, False)
