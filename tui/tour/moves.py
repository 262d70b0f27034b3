"""The tour's screen: what the reader does besides running: move, pick, ask, read the words, save, leave."""

from __future__ import annotations

import contextlib
import datetime
from pathlib import Path

from textual.containers import VerticalScroll
from textual.css.query import NoMatches

from ...engine import places
from ...engine.errors import SettingError
from ..actions import Action
from ..panels import Panel
from ..screens.dialogs import ChoiceDialog, ValueDialog
from ..screens.keys import KeysScreen, bindings_of
from .actions import ACTIONS
from .advice import marks_of
from .desk import Desk
from .pictures import forget_pictures
from .report import write_report
from .runs import TourRuns
from .words import WordsScreen


class TourMoves(TourRuns):
    """Every action but those on the engine."""

    # ------------------------------------------------------------------------------------------- chapters

    def go(self, at: int) -> None:
        """Go to a chapter; what runs in this one is stopped."""
        if at == self.tour.at or not 0 <= at < len(self.tour.chapters):
            return
        self.stop_run()
        self.tour.jump(at)
        self.keep()
        self.chapter_changed()

    def action_forward(self) -> None:
        if self.tour.at + 1 == len(self.tour.chapters):
            self.say("This is the last chapter.")
        self.go(self.tour.at + 1)

    def action_back(self) -> None:
        if self.tour.at == 0:
            self.say("This is the first chapter.")
        self.go(self.tour.at - 1)

    def action_jump(self) -> None:
        lines = [
            f"{number:>2} {mark} {chapter.title}"
            for number, (chapter, mark) in enumerate(zip(self.tour.chapters, marks_of(self.tour), strict=True), 1)
        ]

        def chosen(at: int | None) -> None:
            if at is not None:
                self.go(at)

        self.app.push_screen(ChoiceDialog("chapters: ✓ seen, ◐ half, ○ not yet", lines, self.tour.at), chosen)

    # ------------------------------------------------------------------------------------ question and control

    def action_pick(self, number: int) -> None:
        if self.tour.pick(number):
            self.keep()
            self.tell()

    def action_choose(self, number: int) -> None:
        self.choose(self.tour.chapter.settings[number].key)

    def choose(self, setting: str) -> None:
        """Take a setting of the control; its run is shown, if there was one."""
        if self.stage.running:
            self.say("A run is under way; x stops it.")
            return
        self.desk.chosen = setting
        self.tell()
        self.view_changed()

    def on_desk_picked(self, event: Desk.Picked) -> None:
        event.stop()
        self.action_pick(event.number)

    def on_desk_chosen(self, event: Desk.Chosen) -> None:
        event.stop()
        self.choose(event.setting)

    def action_question(self) -> None:
        if self.recorded:
            self.say("This is a recording: it follows the question it was made with.")
            return

        def asked(question: str | None) -> None:
            if question is not None and self.tour.ask(question):
                self.stop_run()
                self.stage.question = self.tour.question
                self.stage.views.clear()
                forget_pictures(self.pictures)
                self.keep()
                self.chapter_changed()

        hint = "It is followed through every chapter. Figures begin anew; chapters that are done stay done."
        self.app.push_screen(ValueDialog("your question", self.tour.question, hint, str), asked)

    # ------------------------------------------------------------------------------------------ reading

    def action_scroll_text(self, by: int) -> None:
        self.query_one("#text", VerticalScroll).scroll_relative(y=by, animate=False)

    def action_words(self) -> None:
        words: dict[str, str] = {}
        for chapter in self.tour.chapters[: self.tour.at + 1]:
            words |= chapter.words
        self.app.push_screen(WordsScreen(words))

    def action_keys(self) -> None:
        own: list[Action] = [action for action in ACTIONS if action.title]
        groups = [("On the tour", [binding for action in own for binding in action.bindings()])]
        groups += [(f"In the panel: {panel.TITLE} (Tab goes there)", bindings_of(type(panel))) for panel in self.panels]
        self.app.push_screen(KeysScreen(groups))

    # ------------------------------------------------------------------------------------------ saving

    def action_save(self) -> None:
        now = datetime.datetime.now()

        def typed(path: Path | None) -> None:
            if path is None:
                return
            try:
                many = write_report(self.tour, path, f"{now:%Y-%m-%d %H:%M}", self.pictures)
            except OSError as error:
                self.say(f"Not saved: {path}: {error.strerror}.", "error")
            else:
                self.say(f"Saved to {path}, with {many} picture{'' if many == 1 else 's'} beside it.")

        name = str(Path.cwd() / f"tour-{now:%Y-%m-%d}.md")
        hint = "Markdown; the pictures go into a folder of the same name beside it."
        self.app.push_screen(ValueDialog("save the tour", name, hint, _path), typed)

    # ------------------------------------------------------------------------------------------ leaving

    def action_leave(self) -> None:
        if isinstance(self.focused, Panel):
            self.set_focus(None)
            return
        self.keep()
        with contextlib.suppress(NoMatches):
            self.stop_run()
        if len(self.app.screen_stack) > 1:
            self.dismiss()
        else:
            self.app.exit()

    def action_interrupt(self) -> None:
        if self.stage.running:
            self.action_halt()
        else:
            self.action_leave()


def _path(text: str) -> Path:
    """Raises `SettingError` for what is no file's name."""
    path = places.named(text.strip())
    if not path.name or path.is_dir():
        raise SettingError("file", f"{text.strip() or 'nothing'!r} is no file's name.", f"Such as {path / 'tour.md'}.")
    return path if path.suffix else path.with_suffix(".md")
