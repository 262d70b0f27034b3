"""The main screen: a chat with its side taken off."""

from __future__ import annotations

import gc
from functools import partial

from textual import events
from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from ...engine.protocol import Event, Finished, Inspect, Ready, Step, TextDelta
from ..actions import ACTIONS, GROUPS
from ..chat.composer import Composer
from ..chat.drafts import Drafts, History
from ..chat.findbar import FindBar
from ..chat.view import ConversationView
from ..controls.bar import ControlsBar
from ..pace import GATHER
from ..panels import (
    CandidatesPanel,
    LanesPanel,
    LifecycleStrip,
    PagesPanel,
    Panel,
    TimelinePanel,
    TokenRow,
    TrianglePanel,
)
from ..printable import printable
from ..session import Session
from ..settings.live import LiveSettings, at_defaults
from ..state.conversation import Node
from .chat_list import ChatList
from .compositor import RowCompositor
from .find_actions import FindActions
from .layout import PANELS, shown_panels, size_classes, too_small
from .painting import Painting
from .panel_actions import PanelActions
from .settings_actions import SettingsActions
from .tabs import PanelTabs
from .topbar import TopBar

TOTALS_EVERY = 1.0  # seconds between two looks at a server's totals, while a panel shows them
GARBAGE_AFTER = 0.5  # seconds after the last reply has ended: looked for when nobody computes or waits
DRAFT_EVERY = 0.7  # seconds after a change until the draft is on disk
_PANELS: dict[str, type[Panel]] = {
    "tokens": TokenRow,
    "lanes": LanesPanel,
    "triangle": TrianglePanel,
    "pages": PagesPanel,
    "candidates": CandidatesPanel,
    "timeline": TimelinePanel,
}


class MainScreen(Painting, ChatList, SettingsActions, PanelActions, FindActions):
    """Chat left, panels right, controls below; everything is drawn from the session, at most fifteen times a second."""

    AUTO_FOCUS = "#composer"
    PALETTE = ACTIONS

    def __init__(
        self,
        session: Session,
        history: History | None = None,
        drafts: Drafts | None = None,
        settings: LiveSettings | None = None,
    ) -> None:
        super().__init__(session)
        self._compositor = RowCompositor()
        self.settings = settings or at_defaults()
        self.history = history or History()
        self.drafts = drafts
        self._draft_timer: Timer | None = None
        self._left: Widget | None = None  # what had the focus, while the terminal is too small to show it

    def compose(self) -> ComposeResult:
        state, selection = self.session.state, self.session.selection
        shown = self._take_size(*self.app.size)  # before there is anything to style anew
        yield Static(id="tiny")
        yield TopBar(self.session, id="top")
        yield LifecycleStrip(state, selection, id="lifecycle")
        yield PanelTabs(id="tabs")
        with Container(id="body"):
            with Container(id="left"):
                yield ConversationView(id="chat")
                yield FindBar(id="find")
                yield Composer(self.history, id="composer")
            with Container(id="right"):
                for name in PANELS:
                    panel = _PANELS[name](state, selection, id=name)
                    panel.set_class(name not in shown, "away")
                    yield panel
        yield ControlsBar(state, selection, self.session.exchange.settings, id="controls")

    def on_mount(self) -> None:
        self.session.on_event = self._heard
        self.follow_store()
        self.tell_model()
        if self.session.state.card is not None:
            self.view.speaker = self.session.state.card.name
        self.view.show(self.session.conversation)
        self.controls.take(self.session.exchange.settings)
        if self.drafts is not None and (left := self.drafts.left_behind()):
            self.composer.put(left)
            self.say("This is what you had not sent when the program ended last.")
        self.begin_settings()
        self.lay_out()
        self.path_changed()
        self.set_interval(TOTALS_EVERY, self._ask_totals)

    def _ask_totals(self) -> None:
        """A server's totals cost it something: they are asked for only while they are looked at."""
        state = self.session.state
        told = state.remote and not state.lacks("metrics")
        if told and any(panel.shows_totals for panel in self.query(Panel)):
            self.session.send(Inspect())

    def on_descendant_focus(self) -> None:
        self.tell()

    def on_descendant_blur(self) -> None:
        self.tell()

    def on_unmount(self) -> None:
        self.session.on_event = lambda event, changed: None
        self.session.store.on_change = lambda: None

    # ------------------------------------------------------------------------------------------- places

    def on_resize(self, event: events.Resize) -> None:
        self.lay_out()

    def lay_out(self) -> None:
        width, height = self.size
        small = too_small(width, height)
        if small and not self._left:
            self._left = self.focused or self.composer  # what is not shown loses it
        shown = self._take_size(width, height)
        self.query_one("#tiny", Static).update(Content(small[: max(1, width)]))
        if self._left and not small:
            self.call_after_refresh(self._give_back)
        for name in PANELS:
            self.panel(name).set_class(name not in shown, "away")
        self.query_one(PanelTabs).show(self.chosen)
        self.changed([])

    def _give_back(self) -> None:
        """The focus, to what had it; to the prompt, if that is not shown at this size."""
        left, self._left = self._left, None
        if left is not None and self.focused is None:
            self.set_focus(left if left.focusable else self.composer)

    def _take_size(self, width: int, height: int) -> tuple[str, ...]:
        """Set what main.tcss asks of the size, and return the panels that have a place."""
        for name, here in size_classes(width, height, bool(self.chosen)).items():
            self.set_class(here, name)
        return shown_panels(width, height - 5, self.chosen)

    # ------------------------------------------------------------------------------------------- events

    def _heard(self, event: Event | None, changed: list[Node]) -> None:
        if isinstance(event, Step):  # with every token: nothing below is about it
            self.changed(changed, GATHER)
            return
        self.tell_engine(event)
        if isinstance(event, Finished) and not self.session.exchange.running:
            self.set_timer(GARBAGE_AFTER, partial(gc.collect, 0))
        if isinstance(event, Ready):
            self.view.speaker = event.card.name
            self.view.redraw_all()
            self.tell_model()
        if event is None:  # the engine is lost, or a recording tells what was asked
            self.controls.take(self.session.exchange.settings)
            if self.view.conversation is not self.session.conversation:
                self.view.show(self.session.conversation)
            self.path_changed()
        if changed and isinstance(event, TextDelta):
            self.hurry(event.request)
            self.changed(changed)
            return
        self.changed(changed, GATHER)

    def path_changed(self) -> None:
        self.view.rebuild()
        chats = self.session.store.all()
        at = chats.index(self.session.conversation) + 1 if self.session.conversation in chats else 1
        title = f"chat {at}/{len(chats)} · {self.session.conversation.title}"
        self.view.border_title = Content(printable(title).replace("\n", " "))
        self.tell()
        self.changed([], GATHER)

    def on_following_view_follow_changed(self, event: ConversationView.FollowChanged) -> None:
        event.stop()
        text = "" if event.following else "▼ new text below · End follows" if event.unread else "End follows"
        self.view.border_subtitle = Content(text)

    # ------------------------------------------------------------------------------------------- drafts

    def on_text_area_changed(self) -> None:
        if self.drafts is not None and self._draft_timer is None:
            self._draft_timer = self.set_timer(DRAFT_EVERY, self.keep_draft)

    def keep_draft(self) -> None:
        """Put what is being written where a crash can't reach it."""
        self._draft_timer = None
        if self.drafts is not None:
            self.drafts.keep(self.composer.message)

    # ------------------------------------------------------------------------------------------ program

    def action_escape(self) -> None:
        if self.find_bar.opened:
            self.find_bar.action_close()
        elif self.selections:
            self.clear_selection()
        elif self.maximized is not None:
            self.minimize()
        elif self.session.generating:
            self.action_stop()
        elif self.chosen and self.has_class("narrow"):
            self.action_show_chat()
        elif self.focused is self.composer:
            self.view.focus()
        else:
            self.action_write()

    def action_keys(self) -> None:
        from .keys import KeysScreen, bindings_of

        groups = [
            (title, [b for action in ACTIONS if action.group == group for b in self.keymap.bindings(action)])
            for group, title in GROUPS.items()
        ]
        widgets: list[tuple[str, type]] = [
            ("While writing a message", Composer),
            ("In the chat", ConversationView),
            ("While finding words", FindBar),
            ("In the controls", ControlsBar),
            *((f"In the panel: {panel.TITLE}", panel) for panel in _PANELS.values()),
        ]
        self.app.push_screen(KeysScreen(groups + [(title, bindings_of(owner)) for title, owner in widgets]))

    def action_tour(self) -> None:
        from ..tour.app import open_tour  # takes its time, and not everyone wants it

        open_tour(self)

    def keys_changed(self) -> None:
        """Draw every hint again."""
        self.view.use_keys(self.keymap, self.session.asks)
        self.controls.keymap = self.keymap
        self.controls.repaint()
        self.query_one(TopBar).keymap = self.keymap
        self.query_one(PanelTabs).keymap = self.keymap
        self.query_one(PanelTabs).refresh()
        self.changed([])

    def action_quit(self) -> None:
        self.keep_draft()
        self.app.exit()

    def write_to_terminal(self, sequence: str) -> None:
        write = getattr(self.app, "write_to_terminal", None)
        if write is not None:
            write(sequence)
