"""The first row: what is loaded, how fast it writes, and how full the window is."""

from __future__ import annotations

from collections.abc import Hashable

from rich.cells import cell_len

from ...engine.protocol import LoadProgress, ModelCard
from ..keymap import STANDARD
from ..panels.glyphs import bar
from ..panels.line import Line
from ..panels.panel import Panel
from ..panels.units import count, rate, size
from ..session import Session
from ..state import EngineState, SampleState
from .layout import WIDE

_SHORT = 24  # cells of a reason that has a place in the bar


class TopBar(Panel, can_focus=False):
    """Model and pages left; speed and context right. While a model loads, how far it is."""

    TITLE = ""
    SCROLLS = False
    DEFAULT_CSS = """
    TopBar { border: none; height: 1; padding: 0 1; background: $panel; overflow: hidden; }
    """

    def __init__(self, session: Session, id: str) -> None:
        super().__init__(session.state, session.selection, id=id)
        self.session = session
        self.keymap = STANDARD

    def depends_on(self) -> Hashable:
        session = self.session
        told = (session.conversation, session.trouble, session.meter.used, session.store.trouble)
        return (self.state.version, *told, compiling_s(self.state))

    def waiting(self) -> str:
        return ""

    def draw(self, width: int, height: int) -> list[Line]:
        line = Line("cutaway", "strong")
        right = self.activity()
        prompt = self.prompt_speed() if width >= WIDE else ""
        right = f"{prompt}  {right}" if prompt and right else right
        room = width - cell_len(right) - 1
        for text, style in self.saving() + self.about():
            if line.width + cell_len(text) + 2 > room:
                break
            line.add("  ").add(text, style)
        if line.width + cell_len(right) + 1 <= width:
            line.pad_to(width - cell_len(right))
            line.add(right, "strong")
        return [line]

    def saving(self) -> list[tuple[str, str]]:
        """That chats are not being saved, for as long as they are not."""
        trouble = self.session.store.trouble
        if not trouble:
            return []
        return [(f"✗ not being saved{f': {trouble}' if len(trouble) <= _SHORT else ''}", "bad strong")]

    def about(self) -> list[tuple[str, str]]:
        """What is loaded, or on its way, or missing."""
        state = self.state
        if self.session.trouble is not None:
            key = self.keymap.letter("restart")
            how = f"{key}, or your next message, starts it again" if key else "your next message starts it again"
            return [("✗ no engine", "bad strong"), (how, "")]
        if state.loading is not None or state.card is None:
            return [(f"◌ {progress(state.loading)}", "warn")]
        card = state.card
        parts = [(card.name, "accent"), (f"{card.device} {card.precision}".strip(), "dim")]
        if card.compiling:
            parts.append((f"◌ compiling {compiling_s(state)} s", "warn"))
        if card.pages:
            parts.append((f"{count(card.pages)} pages", "dim"))
        if card.attention == "fallback":
            parts.append(("one at a time", "warn"))
        if state.switches.paused:
            parts.append(("‖ paused", "warn strong"))
        return [*parts, *computing(card)]

    def activity(self) -> str:
        """ "● 182 tok/s  ctx 312/8192", or how far the prompt is read."""
        parts = [self.speed(), self.session.meter.text()]
        return "  ".join(part for part in parts if part)

    def prompt_speed(self) -> str:
        """How fast the prompt was read, by the time its chunks took: "prompt 460 tok/s"."""
        reply = next((n.reply for n in reversed(self.session.conversation.path()) if n.reply is not None), None)
        request = self.state.requests.get(reply.request) if reply is not None else None
        sample = request.samples.get(reply.sample) if request is not None and reply is not None else None
        if request is None or sample is None or sample.latest is None:
            return ""
        length = len(request.prompt)
        chunks = [chunk for chunk in sample.chunks if chunk.start < length]
        took = sum(chunk.took_ns for chunk in chunks)
        done = sum(min(chunk.end, length) - chunk.start for chunk in chunks)
        return f"prompt {rate(done * 1e9 / took)} tok/s" if took and done else ""

    def speed(self) -> str:
        reply = next((n.reply for n in reversed(self.session.conversation.path()) if n.reply is not None), None)
        request = self.state.requests.get(reply.request) if reply is not None else None
        sample = request.samples.get(reply.sample) if request is not None and reply is not None else None
        if reply is None or request is None or sample is None:
            return ""
        if self.state.remote:
            return server_speed(reply.running, sample)
        if reply.running and sample.latest is None and request.prompt:
            return f"◌ prefill {sample.written}/{len(request.prompt)}"
        intervals = sample.intervals_ns(32) if reply.running else []
        speed = len(intervals) * 1e9 / sum(intervals) if sum(intervals) else sample.tokens_per_second()
        return f"{'●' if reply.running else '○'} {rate(speed)} tok/s" if speed else ""


def server_speed(running: bool, sample: SampleState) -> str:
    """The rate at which a server's reply comes in, by our clock: of tokens, where it tells them, else of pieces."""
    took = sample.last_text_ns - sample.first_text_ns
    number = sample.finished.generated_tokens if sample.finished is not None else sample.counted
    if took <= 0 or number < 2:
        return "◌ waiting for the server" if running and not sample.counted else ""
    counted = bool(sample.tokens) or (sample.finished is not None and sample.finished.counted)
    return f"{'●' if running else '○'} {rate((number - 1) * 1e9 / took)} {'tok/s' if counted else 'pieces/s'}"


def computing(card: ModelCard) -> list[tuple[str, str]]:
    """By what a step is computed, the most telling first: what has no room is left out."""
    told = [f"{count(card.threads)} thread{'s' if card.threads != 1 else ''}"] if card.device == "cpu" else []
    told += ["deterministic"] if card.deterministic else []
    told += [card.kernel] if card.kernel else []
    return [(text, "dim") for text in told]


def compiling_s(state: EngineState) -> int:
    """Seconds that our kernels have been compiled for since the model was ready; 0 where they are not."""
    if state.card is None or not state.card.compiling:
        return 0
    return max(0, state.now_ns() - state.card_ns) // 1_000_000_000


def progress(loading: LoadProgress | None) -> str:
    """ "weights ████▌      45%" """
    if loading is None:
        return "starting the engine"
    text = f"{loading.stage} {loading.note}".strip()
    if loading.total:
        share = min(1.0, loading.done / loading.total)
        text += f" {bar(share, 10):<10} {share:.0%}"
        if loading.unit == "bytes":
            text += f" of {size(loading.total)}"
    elif loading.done and loading.unit:
        text += f" {count(loading.done)} {loading.unit}"
    return text
