"""The main screen's actions on messages."""

from __future__ import annotations

import time
from pathlib import Path

import platformdirs
from textual.widgets import TextArea

from ...engine import places
from ...engine.errors import CutawayError
from ...engine.protocol import Command
from ..chat import clipboard
from ..chat.composer import Composer
from ..chat.document import Document
from ..panels.units import duration
from ..state.conversation import Node
from .base import MainBase

QUIT_WITHIN = 3.0  # seconds between the two Ctrl+C


class ChatActions(MainBase):
    """Ask, stop, ask again, go on, edit, branch, copy, save."""

    _interrupted_at = -QUIT_WITHIN

    # ------------------------------------------------------------------------------------------------ asking

    def on_composer_sent(self, event: Composer.Sent) -> None:
        event.stop()
        if self.session.generating:
            self.say(f"The reply is still being written{self._stop_first()}, then send.", "warning")
            return
        asked = self.session.exchange.ask(self.session.conversation, event.text)
        self.composer.sent(event.text)
        self._asked(*asked)

    def _asked(self, reply: Node, commands: list[Command]) -> None:
        """Send what asks for a reply, show its place, and let the panels follow it."""
        self.session.store.save(self.session.conversation)
        self.wake_engine(reply.reply.request if reply.reply is not None else "")
        self.session.send(*commands)
        self.follow_reply(reply)
        self.view.follow()
        self.view.choose(None)
        self.path_changed()

    def follow_reply(self, node: Node | None) -> None:
        """Let the panels show the request that writes or wrote this reply."""
        if node is not None and node.reply is not None and node.reply.request:
            self.session.selection.select_request(node.reply.request, node.reply.sample)

    def _stop_first(self) -> str:
        hint = self.keymap.hint("escape", "stops it") or self.keymap.hint("interrupt", "stops it")
        return f": {hint or 'stop it'}"

    def action_stop(self) -> None:
        path = self.session.conversation.path()
        self.session.send(*self.session.exchange.stop(path))

    def action_regenerate(self) -> None:
        node = self.view.cursor
        if node is None:
            return
        if node.role not in ("user", "assistant"):
            self.say("Only a question or a reply can be asked again.", "warning")
            return
        if node.role == "assistant" and (node.parent is None or node.parent.parent is None):
            self.say("No question stands before this reply: it can't be asked again.", "warning")
            return
        self._asked(*self.session.exchange.regenerate(self.session.conversation, node))

    def action_go_on(self) -> None:
        node = self.view.cursor
        if node is None or node.role != "assistant" or node.running:
            self.say("There is no reply here that could go on.", "warning")
        elif node.children:
            edit = f" ({key})" if (key := self.keymap.letter("edit")) else ""
            self.say(f"This reply has an answer already: edit it{edit} to go on in a new branch.", "warning")
        else:
            self._asked(*self.session.exchange.go_on(self.session.conversation, node))

    def action_edit(self) -> None:
        node = self.view.cursor
        if node is None:
            return
        if node.running:
            self.say(f"The reply is still being written{self._stop_first()}, then edit.", "warning")
            return

        def edited(result: tuple[str, bool] | None) -> None:
            if result is not None and (result[0] != node.text or result[1]):
                self._edited(node, *result)

        can_go_on = node.role == "assistant"
        title = "edit the reply, in a new branch" if can_go_on else "edit the message, in a new branch"
        self.ask_text(title, node.text, edited, can_go_on)

    def _edited(self, node: Node, text: str, go_on: bool) -> None:
        conversation = self.session.conversation
        branch, commands = self.session.exchange.edit(conversation, node, text)
        if go_on:
            branch, commands = self.session.exchange.go_on(conversation, branch)
        if commands:
            self._asked(branch, commands)
        else:
            self.session.store.save(conversation)
            self.path_changed()

    def action_branch(self, by: int) -> None:
        node = self.view.cursor
        shown = self.session.conversation.turn(node, by) if node is not None else None
        if shown is None:
            self.say("No branch on that side.")
            return
        self.session.store.save(self.session.conversation)
        self.path_changed()
        self.view.choose(shown)
        self.follow_reply(shown)

    def action_system(self) -> None:
        def edited(result: tuple[str, bool] | None) -> None:
            if result is not None:
                self.session.conversation.system = result[0]
                self.session.store.save(self.session.conversation)
                self.path_changed()

        hint = "\nSent before every message of this chat, from the next one on. Empty: the model's own."
        self.ask_text("system prompt", self.session.conversation.system, edited, hint=hint)

    # ------------------------------------------------------------------------------------------ copying

    def action_interrupt(self) -> None:
        """Ctrl+C: copy if something is selected, stop if something is being written, else tell how to quit."""
        field = self.focused.selected_text if isinstance(self.focused, TextArea) else ""
        selected = field or self.get_selected_text()
        if selected:
            self.copy(selected)
        elif self.session.generating:
            self.action_stop()
        elif time.monotonic() - self._interrupted_at < QUIT_WITHIN:
            self.action_quit()
        else:
            self._interrupted_at = time.monotonic()
            again, quits = self.keymap.shown("interrupt"), self.keymap.shown("quit")
            self.say(f"{again} again, or {quits}, quits.")

    def action_quit(self) -> None:
        raise NotImplementedError

    def action_suspend(self) -> None:
        """Stop this process as a shell's Ctrl+Z does; the engine goes on with what it was asked."""
        self.app.action_suspend_process()

    def copy(self, text: str) -> None:
        """Copy exactly this text, and say how."""
        self.say(clipboard.copy(text, self.write_to_terminal))

    def write_to_terminal(self, sequence: str) -> None:
        raise NotImplementedError

    def action_copy_message(self) -> None:
        if self.view.cursor is not None:
            self.copy(self.view.cursor.text)

    def action_copy_reply(self) -> None:
        path = self.session.conversation.path()
        reply = next((node for node in reversed(path) if node.role == "assistant" and node.text), None)
        if reply is None:
            self.say("There is no reply to copy yet.", "warning")
        else:
            self.copy(reply.text)

    def action_copy_code(self) -> None:
        node = self.view.cursor
        parts = Document(node.text).parts if node is not None else []
        codes = [code for part in parts if (code := part.code()) is not None]
        if not codes:
            self.say("There is no code block in this message.", "warning")
            return
        if len(codes) == 1:
            self.copy(codes[0])
            return
        first_lines = [code.split("\n", 1)[0][:60] or "(empty)" for code in codes]

        def chosen(index: int | None) -> None:
            if index is not None:
                self.copy(codes[index])

        self.ask_choice("copy which code block?", first_lines, chosen, len(codes) - 1)

    def action_save(self) -> None:
        if self.view.cursor is not None:
            self._save(self.view.cursor.text)

    def action_save_chat(self) -> None:
        parts = [f"## {node.role}\n\n{node.text}\n" for node in self.session.conversation.path()]
        self._save("\n".join(parts))

    def action_save_trace(self) -> None:
        trace = self.session.trace
        if trace is None:
            self.say("This session is not being remembered: it is a recording itself, or a tour.", "warning")
            return
        try:
            stem = time.strftime("%Y-%m-%d-%H%M%S")
            path = places.state() / "traces" / f"{stem}.trace"
            trace.save(path)
        except CutawayError as error:
            self.say(f"Not saved: {error}", "error")
            return
        upto = f" It ends after {duration(trace.full_ns)}, when its room was full." if trace.full_ns else ""
        self.say(f"Saved to {path}.{upto} `cutaway replay` shows it again.")

    def _save(self, text: str) -> None:
        folder = Path(platformdirs.user_documents_dir())
        folder = folder if folder.is_dir() else Path.cwd()
        try:
            path = clipboard.save(text, folder, self.session.conversation.title)
        except OSError as error:
            self.say(f"Not saved: {error}.", "error")
        else:
            self.say(f"Saved to {path}.")

    def action_plain(self) -> None:
        self.view.plain = not self.view.plain
        self.view.redraw_all()
