"""The controls as one widget: a row (or two) of settings, switches and deeds, by key and by mouse."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message

from ...engine.protocol import SamplingSettings
from ..keymap import STANDARD
from ..panels.line import Line
from ..panels.panel import Panel
from ..state import EngineState, Selection
from .model import DEEDS, NUMBERS, SWITCHES, Number, Switch

_GAP = 2
_ROWS = 2  # beyond which shorter words are used


class ControlsBar(Panel):
    """←→ choose, ↑↓ change a number, Enter types it or turns a switch; the mouse clicks and turns its wheel."""

    TITLE = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "choose(-1)", "Control before", show=False),
        Binding("right", "choose(1)", "Control after", show=False),
        Binding("up,plus", "change(1)", "More", show=False),
        Binding("down,minus", "change(-1)", "Less", show=False),
        Binding("enter,space", "use", "Type a value, turn a switch, do", show=False),
    ]
    DEFAULT_CSS = """
    ControlsBar { border: none; height: auto; min-height: 1; max-height: 4; padding: 0 1; overflow: hidden; }
    ControlsBar:focus { border: none; background: $panel; }
    """

    class Changed(Message):
        """The sampling settings were changed here."""

        def __init__(self, settings: SamplingSettings) -> None:
            super().__init__()
            self.settings = settings

    class Typed(Message):
        """A number is to be typed in."""

        def __init__(self, number: Number) -> None:
            super().__init__()
            self.number = number

    class Invoked(Message):
        """An action of the screen is wanted."""

        def __init__(self, action: str) -> None:
            super().__init__()
            self.action = action

    def __init__(self, state: EngineState, selection: Selection, settings: SamplingSettings, id: str) -> None:
        super().__init__(state, selection, id=id)
        self.settings = settings
        self.keymap = STANDARD
        self.at = 0
        self._places: list[tuple[int, int, int]] = []  # row, first cell, end of each control

    def take(self, settings: SamplingSettings) -> None:
        """Show these settings."""
        self.settings = settings
        self.repaint()

    # ---------------------------------------------------------------------------------------------- drawing

    def depends_on(self) -> Hashable:
        return (self.settings.temperature, self.state.switches, self.at, self.has_focus, self.state.remote)

    def waiting(self) -> str:
        return ""

    def labels(self, short: bool = False) -> list[tuple[str, str]]:
        """Text and style of every control, in order."""
        switches = self.state.switches
        made = [(number.text(self.settings), "strong") for number in NUMBERS]
        made += [((switch.short if short else switch.text)(switches), "accent") for switch in self._switches()]
        keys = self.keymap.hint("keys", "keys", letter=True) or "keys"
        return made + [(keys if action == "keys" else text, "") for action, text in self._deeds()]

    def _switches(self) -> list[Switch]:
        """Those that what is loaded has."""
        return [switch for switch in SWITCHES if not (switch.needs and self.state.lacks(switch.needs))]

    def _deeds(self) -> list[tuple[str, str]]:
        return [(action, text) for action, text, needs in DEEDS if not (needs and self.state.lacks(needs))]

    def draw(self, width: int, height: int) -> list[Line]:
        rows = self._rows_of(width, self.labels())
        return rows if len(rows) <= _ROWS else self._rows_of(width, self.labels(short=True))

    def _rows_of(self, width: int, labels: list[tuple[str, str]]) -> list[Line]:
        rows = [Line()]
        self._places = []
        for index, (text, style) in enumerate(labels):
            if rows[-1].parts and rows[-1].width + _GAP + len(text) > width:
                rows.append(Line())
            if rows[-1].parts:
                rows[-1].add(" " * _GAP)
            start = rows[-1].width
            rows[-1].add(text, "cursor" if index == self.at and self.has_focus else style)
            self._places.append((len(rows) - 1, start, rows[-1].width))
        return rows

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.draw(max(1, width), 1))

    def watch_has_focus(self, has_focus: bool) -> None:
        # Not in on_focus and on_blur: they come before the focus is said to be here, or gone.
        super().watch_has_focus(has_focus)
        self.repaint()

    # ------------------------------------------------------------------------------------------------- using

    def action_choose(self, by: int) -> None:
        self.at = (self.at + by) % len(self.labels())
        self.repaint()
        if self.at < len(self._places):
            self.keep_visible(self._places[self.at][0])

    def action_change(self, by: int) -> None:
        if self.at < len(NUMBERS):
            self._change(NUMBERS[self.at], by)
        else:
            self.action_use()

    def _change(self, number: Number, by: int) -> None:
        self.settings = number.moved(self.settings, by)
        self.post_message(self.Changed(self.settings))
        self.refresh(layout=True)
        self.repaint()

    def action_use(self) -> None:
        if self.at < len(NUMBERS):
            self.post_message(self.Typed(NUMBERS[self.at]))
            return
        at = self.at - len(NUMBERS)
        switches = self._switches()
        action = switches[at].action if at < len(switches) else self._deeds()[at - len(switches)][0]
        self.post_message(self.Invoked(action))

    def clicked(self, x: int, y: int) -> None:
        if (index := self._hit(x, y)) is not None:
            self.at = index
            self.action_use()
            self.repaint()

    def _hit(self, x: int, y: int) -> int | None:
        for index, (row, start, end) in enumerate(self._places):
            if row == y and start <= x < end:
                return index
        return None

    def _wheel(self, event: events.MouseScrollUp | events.MouseScrollDown, by: int) -> None:
        offset = event.get_content_offset(self)
        index = self._hit(offset.x, offset.y + self.scroll_offset.y) if offset is not None else None
        if index is not None and index < len(NUMBERS):
            event.stop()
            event.prevent_default()
            self.at = index
            self._change(NUMBERS[index], by)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, 1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, -1)
