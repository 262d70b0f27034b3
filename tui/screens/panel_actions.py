"""The main screen's actions on panels: show, maximise, jump, follow; and the selection that joins them."""

from __future__ import annotations

from textual.widget import Widget

from ...engine.protocol import Inspect
from ..chat import places
from ..chat.view import ConversationView
from ..controls.bar import ControlsBar
from ..panels import ForkRequested, InspectRequested, Panel, SelectionChanged
from ..state.conversation import Node
from .base import MainBase
from .layout import PANELS
from .tabs import PanelTabs


class PanelActions(MainBase):
    """`chosen` is the panel the reader went to last; on a narrow screen it takes the chat's place."""

    chosen = ""

    def panel(self, name: str) -> Panel:
        return self.query_one(f"#{name}", Panel)

    def follow_reply(self, node: Node | None) -> None:
        """Let the panels show the request that writes or wrote this reply."""
        raise NotImplementedError

    def lay_out(self) -> None:
        """Give the panels and the chat their places."""
        raise NotImplementedError

    def action_show_panel(self, name: str) -> None:
        if name not in PANELS:
            return
        if self.chosen == name and self.focused is self.panel(name):
            self.action_show_chat()
            return
        self.chosen = name
        if self.maximized is not None:
            self.minimize()
        self.lay_out()
        self.panel(name).focus()

    def action_show_chat(self) -> None:
        self.chosen = ""
        if self.maximized is not None:
            self.minimize()
        self.lay_out()
        self.view.focus()

    def on_panel_tabs_chosen(self, event: PanelTabs.Chosen) -> None:
        event.stop()
        if event.panel:
            self.action_show_panel(event.panel)
        else:
            self.action_show_chat()

    def action_maximise(self) -> None:
        if self.maximized is not None:
            self.minimize()
        elif isinstance(self.focused, Panel | ConversationView) and not isinstance(self.focused, ControlsBar):
            self.maximize(self.focused, container=False)
        elif self.chosen:
            self.maximize(self.panel(self.chosen), container=False)
        else:
            self.maximize(self.view, container=False)

    def action_controls(self) -> None:
        self.query_one(ControlsBar).focus()

    def action_write(self) -> None:
        self.chosen = ""
        self.lay_out()
        self.composer.focus()

    def action_jump(self) -> None:
        from .jump import JumpScreen

        places = [widget for widget in self.focus_chain if widget.region.area > 0]

        def chosen(widget: Widget | None) -> None:
            if widget is not None:
                widget.focus()

        self.app.push_screen(JumpScreen(places), chosen)

    def action_live(self) -> None:
        self.session.selection.live()
        self.selection_moved()

    # ------------------------------------------------------------------------------------------- selection

    def on_selection_changed(self, event: SelectionChanged) -> None:
        event.stop()
        self.selection_moved()

    def selection_moved(self) -> None:
        """Let every panel and the chat go to what is selected."""
        self.mark_selected()
        self.changed([])

    def mark_selected(self) -> None:
        """Light the selected token up in the chat, if it is one of a reply shown there."""
        selection, state = self.session.selection, self.session.state
        node = self.session.exchange.node(selection.request) if selection.request else None
        request = state.requests.get(selection.request) if selection.request else None
        if node is None or request is None or selection.position is None:
            self.view.mark(None)
            return
        span = places.span(node, request, selection.sample, selection.position)
        if span is None:
            self.view.mark(None)
        else:
            self.view.mark(node, *span)

    def on_conversation_view_text_clicked(self, event: ConversationView.TextClicked) -> None:
        event.stop()
        reply = event.node.reply
        request = self.session.state.requests.get(reply.request) if reply is not None else None
        if reply is None or request is None:
            return
        position = places.position(event.node, request, reply.sample, event.offset)
        if position is not None:
            self.session.selection.select_token(request.request, reply.sample, position)
            self.selection_moved()

    # ------------------------------------------------------------------------------------------ the engine

    def on_inspect_requested(self, event: InspectRequested) -> None:
        event.stop()
        self.session.send(Inspect(page=event.page))

    def on_fork_requested(self, event: ForkRequested) -> None:
        event.stop()
        made = self.session.exchange.fork(event.request, event.sample, event.index, event.token_id)
        if made is None:
            self.say("Only a reply of a chat can be forked, not background traffic.", "warning")
            return
        node, commands = made
        home = self.session.exchange.home(event.request)
        if home is not None and home is not self.session.conversation:
            self.session.show(home)
            self.view.show(home)
        self.session.send(*commands)
        self.follow_reply(node)
        self.view.following = True
        self.path_changed()
        self.say("Forked: the old reply is the branch to the left.")
