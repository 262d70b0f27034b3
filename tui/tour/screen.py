"""The tour's screen: a chapter's text, its question, its control and figures, beside the panels of its runs."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static

from ...engine.protocol import Inspect
from ..pace import Pace
from ..panels import ForkRequested, InspectRequested, LifecycleStrip, Panel, SelectionChanged
from ..panels.line import Line, joined
from ..printable import printable
from ..screens.topbar import progress
from .actions import ACTIONS, bindings
from .advice import trail
from .desk import Desk
from .moves import TourMoves
from .reply import ReplyPanel
from .shown_panels import make_panel
from .view import View
from .words import words_text

WIDE = (120, 34)  # columns and rows from which text and panels stand side by side
LEAST = (60, 20)
FOOT = (
    "1-3 answer",
    "← → setting",
    "Enter run",
    "n next",
    "t turn",
    "w words",
    "? keys",
    "b back",
    "Esc leave",
    "j jump",
    "e your question",
    "Tab to a panel",
)
FOCUSED = ("Esc leaves the panel", "Tab the next", "? keys")


class TourScreen(TourMoves):
    """Wide, text and panels stand side by side. Narrow, they take turns above the desk: `turned` is the one shown."""

    BINDINGS: ClassVar[list[BindingType]] = list(bindings())
    CSS_PATH = "screen.tcss"
    AUTO_FOCUS = ""
    PALETTE = ACTIONS

    turned = 0  # 0: the text, then each panel, then the reader's request
    _next: Timer | None = None
    _urgent = False
    _view: View | None = None  # whose panels are on the screen

    def compose(self) -> ComposeResult:
        view = self.stage.view or View.fresh("", "", self.stage.session)
        yield Static(id="tiny")
        yield Static(id="title")
        yield LifecycleStrip(view.state, view.selection, id="strip")
        with Container(id="body"):
            with VerticalScroll(id="text", can_focus=False):
                yield Static(id="words")
            yield Container(id="panels")
            yield Desk(self.tour, id="desk")
            yield ReplyPanel(self.tour, view, id="reply")
        yield Static(id="foot")

    async def on_mount(self) -> None:
        self._pace = Pace()
        self.listen()
        if self.file.problem:
            self.say(self.file.problem, "warning")
        self.chapter_changed()
        await self.show_panels()
        self.open_stage()

    async def on_unmount(self) -> None:
        await self.close_stage()

    def listen(self) -> None:
        self.stage.changed = self.changed
        self.stage.lost = self.engine_lost
        self.stage.attach()

    # ------------------------------------------------------------------------------------------- places

    def on_resize(self, event: events.Resize) -> None:
        self.lay_out()

    @property
    def narrow(self) -> bool:
        return self.size.width < WIDE[0] or self.size.height < WIDE[1]

    def lay_out(self) -> None:
        """Give everything its place."""
        width, height = self.size
        small = width < LEAST[0] or height < LEAST[1]
        sentence = f"too small: {width}x{height}, at least {LEAST[0]}x{LEAST[1]}" if small else ""
        self.query_one("#tiny", Static).update(Content(sentence[: max(1, width)]))
        self.set_class(small, "tiny")
        self.set_class(self.narrow, "narrow")
        panels = self.panels
        self.query_one("#text").set_class(self.narrow and self.turned != 0, "away")
        self.query_one("#panels").set_class(self.narrow and not 1 <= self.turned <= len(panels), "away")
        self.query_one("#reply").set_class(self.narrow and self.turned != len(panels) + 1, "away")
        for at, panel in enumerate(panels, 1):
            panel.set_class(self.narrow and self.turned != at, "away")
        self.desk.update()
        self._draw_frame()

    def action_turn(self) -> None:
        if not self.narrow:
            self.say("Text, panels and your request are all on the screen; Tab goes to a panel.")
            return
        self.turned = (self.turned + 1) % (len(self.panels) + 2)
        self.lay_out()
        self.changed()

    def chapter_changed(self) -> None:
        chapter = self.tour.chapter
        self.turned = 0
        untried = self.tour.untried(chapter)
        self.desk.chosen = untried[0] if untried else chapter.settings[0].key
        parts: list[str | tuple[str, str] | Content] = [printable(" ".join(chapter.text.split()))]
        if chapter.sources:
            parts.append((f"\n({'; '.join(map(printable, chapter.sources))})", "italic"))
        if chapter.words:
            parts += ["\n\n", words_text(chapter.words)]
        self.query_one("#words", Static).update(Content.assemble(*parts))
        self.query_one("#text", VerticalScroll).scroll_home(animate=False)
        self.tell()
        self.view_changed()

    def run_begins(self) -> None:
        self.turned = max(1, self.turned)
        self.view_changed()

    def view_changed(self) -> None:
        self.call_later(self.show_panels)

    async def show_panels(self) -> None:
        view = self.shown
        if view is not self._view or view.chapter != self.tour.chapter.name:
            self._view = view
            place = self.query_one("#panels")
            focused = isinstance(self.focused, Panel)
            with self.app.batch_update():
                await place.remove_children()
                await place.mount(*(make_panel(name, view, self.tour) for name in self.tour.chapter.panels))
            if focused:
                self.panels[0].focus()
            for panel in (self.query_one(LifecycleStrip), self.query_one(ReplyPanel)):
                panel.state, panel.selection = view.state, view.selection
            self.query_one(ReplyPanel).view = view
            self.lay_out()
        for panel in self.query(Panel):
            panel.repaint()
        self._draw_frame()

    # ----------------------------------------------------------------------------------------- painting

    def changed(self) -> None:
        """Something has happened: draw it soon, and the first text of a reply at once."""
        if not self.is_attached:
            return
        urgent = self.stage.painting == "screen" and self.stage.view is not None and self.stage.view.unpainted
        if self._next is not None and urgent and not self._urgent:
            self._next.stop()
            self._next = None
        if self._next is None:
            self._urgent = urgent
            self._next = self.set_timer(0.001 if urgent else self._pace.pause(), self._paint)

    async def _paint(self) -> None:
        self._next = None
        if self.stage.running and self.stage.view is not None and self.stage.view is not self._view:
            await self.show_panels()
        for panel in self.query(Panel):
            panel.refresh_if_changed()
        self._draw_frame()
        if self.stage.painting == "screen":
            self.call_after_refresh(self._painted)

    def _painted(self) -> None:
        """The text of the run has just reached the screen."""
        self.stage.paint(self.stage.session.state.now_ns())

    def _draw_frame(self) -> None:
        """The first row and the last one."""
        session = self.stage.session
        head = f"tour {self.tour.at + 1}/{len(self.tour.chapters)}  {self.tour.chapter.title}"
        if session.trouble is not None:
            model = "✗ no engine"
        elif session.state.card is None or session.state.loading is not None:
            model = f"◌ {progress(session.state.loading)}"
        else:
            card = session.state.card
            model = f"{card.name}  ◌ compiling our kernels" if card.compiling else card.name
        told = "RECORDED, no model runs" if self.recorded else printable(model)
        width = self.size.width - 2
        line = Line(head, "strong")
        rest = next(
            (text for text in (f"{trail(self.tour)}  {told}", told) if line.width + len(text) < width - 1), told
        )
        line.fit("", width - line.width - len(rest)).add(rest)
        self.query_one("#title", Static).update(Content(line.text[:width]).stylize("bold", 0, len(head)))
        foot = joined(FOCUSED if isinstance(self.focused, Panel) else FOOT, self.size.width - 2)
        self.query_one("#foot", Static).update(Content(foot.text.removesuffix(" …")))

    def on_descendant_focus(self) -> None:
        self._draw_frame()

    def on_descendant_blur(self) -> None:
        self._draw_frame()

    # ---------------------------------------------------------------------------------------- the panels

    def on_selection_changed(self, event: SelectionChanged) -> None:
        event.stop()
        for panel in self.query(Panel):
            panel.refresh_if_changed()
        self.changed()

    def on_inspect_requested(self, event: InspectRequested) -> None:
        event.stop()
        self.stage.session.send(Inspect(page=event.page))

    def on_fork_requested(self, event: ForkRequested) -> None:
        event.stop()
        self.say("Going on with another candidate is for the chat: leave the tour and try it there.")
