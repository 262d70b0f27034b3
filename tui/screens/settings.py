"""Every setting in a list that can be searched; each is changed by the means that suit its kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from ...engine.errors import CutawayError
from ..printable import printable
from ..settings.live import Changed, LiveSettings
from ..settings.schema import SECTIONS, SETTINGS, WHEN, Setting
from ..settings.values import told, typed
from ..settings.writing import ABSENT
from .dialogs import ChoiceDialog, Dialog, TextDialog, ValueDialog
from .themes import ThemesDialog

NAME_WIDTH, VALUE_WIDTH = 20, 25


class SettingsDialog(Dialog[None]):
    """Shows and changes settings. `take` applies a change to the chat; `present` tells what the chat uses now."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "move(1)", "Next setting", priority=True),
        Binding("up", "move(-1)", "Setting before", priority=True),
        Binding("pagedown", "move(10)", "Ten settings on", priority=True),
        Binding("pageup", "move(-10)", "Ten settings back", priority=True),
        Binding("ctrl+r", "reset", "Back to the default", priority=True),
    ]

    def __init__(
        self, settings: LiveSettings, take: Callable[[Changed], None], present: Callable[[], dict[str, Any]]
    ) -> None:
        super().__init__("settings")
        self.settings = settings
        self.take = take
        self.present = present
        self.shown: list[Setting | None] = []  # None: the name of a section

    def body(self) -> ComposeResult:
        yield Input(placeholder="search settings", id="words")
        yield OptionList(id="choices")
        yield Static(id="about")
        yield Static(id="hint")

    def on_mount(self) -> None:
        self.query_one(OptionList).can_focus = False
        self.query_one(Input).focus()
        self._list()
        self._say("")

    # ------------------------------------------------------------------------------------------- the list

    def on_input_changed(self) -> None:
        self._list()

    def _list(self, keep: Setting | None = None) -> None:
        words = self.query_one(Input).value.lower().replace("-", "_").split()
        self.shown = []
        for section in SECTIONS:
            found = [s for s in SETTINGS if s.section == section and all(word in _searched(s) for word in words)]
            self.shown += [None, *found] if found else []
        choices = self.query_one(OptionList)
        choices.clear_options()
        sections = iter(dict.fromkeys(setting.section for setting in self.shown if setting is not None))
        choices.add_options(
            [
                Option(self._line(setting)) if setting else Option(_heading(next(sections)), disabled=True)
                for setting in self.shown
            ]
        )
        at = self.shown.index(keep) if keep in self.shown and keep is not None else 1
        choices.highlighted = at if self.shown else None
        self._about()

    def _line(self, setting: Setting) -> Content:
        valued = self.settings.valued(setting.name)
        value = " ".join(told(setting, valued.value).split()) or "–"
        value = value if len(value) < VALUE_WIDTH else value[: VALUE_WIDTH - 2] + "…"
        mark = "●" if setting.takes == "now" else "○"
        return Content.assemble(
            f" {mark} {setting.name:<{NAME_WIDTH}}",
            (printable(f"{value:<{VALUE_WIDTH}}"), "" if valued.source == "default" else "bold"),
            (printable(valued.source), "dim"),
        )

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self._about()

    @property
    def current(self) -> Setting | None:
        """The setting under the cursor."""
        at = self.query_one(OptionList).highlighted
        return self.shown[at] if at is not None and at < len(self.shown) else None

    def _about(self) -> None:
        setting = self.current
        if setting is None:
            self.query_one("#about", Static).update(Content("No setting has all these words."))
            return
        expects = setting.expects[:1].upper() + setting.expects[1:]
        default = f"; by default {told(setting, setting.default)}" if setting.default not in ("", (), {}) else ""
        lines = [setting.help, f"{expects}{default}. Takes effect {WHEN[setting.takes]}."]
        now = self.present().get(setting.name)
        if setting.name in self.present() and now != self.settings.value(setting.name):
            lines.append(f"The chat shown uses {' '.join(told(setting, now).split()) or '–'}.")
        self.query_one("#about", Static).update(Content(printable("\n".join(lines))))

    def _say(self, text: str, wrong: bool = False) -> None:
        hint = self.query_one("#hint", Static)
        usual = "Enter changes · Ctrl+R default · Esc closes · ● at once ○ later"
        hint.update(Content(printable(text or usual)))
        hint.set_class(wrong, "wrong")

    def action_move(self, by: int) -> None:
        choices = self.query_one(OptionList)
        if not self.shown:
            return
        last = len(self.shown) - 1
        at = max(1, min((choices.highlighted or 0) + by, last))
        if self.shown[at] is None:
            at += 1 if by > 0 else -1
        choices.highlighted = at

    # -------------------------------------------------------------------------------------------- changing

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if (setting := self.current) is not None:
            self._change(setting)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if (setting := self.current) is not None:
            self._change(setting)

    def _change(self, setting: Setting) -> None:
        """Ask for another value, or turn the switch."""
        value = self.settings.value(setting.name)
        if setting.kind == "flag":
            self._write(setting, not value)
            return
        choices = setting.choices or (("", *self.settings.file.presets) if setting.name == "preset" else ())
        if setting.name == "theme":
            self._ask(ThemesDialog(), setting, lambda name: name)
        elif choices:
            at = choices.index(value) if value in choices else 0
            named = [choice or "no preset" for choice in choices]
            self._ask(ChoiceDialog(setting.name, named, at), setting, lambda index: choices[index])
        elif setting.name == "system":
            hint = "\nNew chats begin with it. @FILE reads a file."
            self._ask(TextDialog("system prompt of new chats", value, hint=hint), setting, lambda result: result[0])
        else:
            hint = f"{setting.help} {setting.expects[:1].upper()}{setting.expects[1:]}."
            dialog = ValueDialog(setting.name, told(setting, value), hint, lambda text: (typed(setting, text),))
            self._ask(dialog, setting, lambda result: result[0])

    def _ask(self, dialog: ModalScreen[Any], setting: Setting, value: Callable[[Any], Any]) -> None:
        def answered(result: Any) -> None:
            if result is not None:
                self._write(setting, value(result))

        self.app.push_screen(dialog, answered)

    def action_reset(self) -> None:
        if (setting := self.current) is not None:
            self._write(setting, ABSENT)

    def _write(self, setting: Setting, value: Any) -> None:
        try:
            changed = self.settings.write(setting.name, value)
        except CutawayError as error:
            self._say(str(error), wrong=True)
            return
        self.take(changed)
        self._list(setting)
        valued = self.settings.valued(setting.name)
        shown = " ".join(told(setting, valued.value).split()) or "–"
        held = valued.source not in ("file", "default")
        when = f"{valued.source} holds in this chat" if held else WHEN[setting.takes]
        self._say(f"{setting.name} {shown if len(shown) < 40 else shown[:39] + '…'} · {when}")


def _searched(setting: Setting) -> str:
    return f"{setting.section} {setting.name} {setting.help.lower()}"


def _heading(section: str) -> Content:
    return Content.assemble((SECTIONS[section], "bold"))
