"""The row of panel names on narrow screens: one key or one click away."""

from __future__ import annotations

from textual.message import Message
from textual.widget import Widget

from ..keymap import STANDARD
from ..panels.line import Line
from .layout import PANELS

_NAMES = {"triangle": "prefill", "candidates": "next", "timeline": "time"}


class PanelTabs(Widget):
    """ "1 chat  2 tokens  3 lanes …", the shown one reversed."""

    COMPONENT_CLASSES = {"tabs--shown", "tabs--other"}
    DEFAULT_CSS = """
    PanelTabs { height: 1; width: 1fr; }
    PanelTabs > .tabs--shown { text-style: reverse bold; }
    PanelTabs > .tabs--other { color: $text-muted; }
    """

    class Chosen(Message):
        """A tab was clicked; "" is the chat."""

        def __init__(self, panel: str) -> None:
            super().__init__()
            self.panel = panel

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self.shown = ""
        self.keymap = STANDARD
        self._ends: list[tuple[int, str]] = []

    def show(self, panel: str) -> None:
        self.shown = panel
        self.refresh()

    def line(self, width: int) -> Line:
        """The row: with names if they fit, else with fewer letters, else numbers alone."""
        for letters in (20, 4, 0):
            line = Line()
            self._ends = []
            for panel in ("", *PANELS):
                number = self.keymap.letter(panel or "show_chat")
                name = (_NAMES.get(panel, panel) or "chat")[:letters]
                line.add(f" {f'{number} {name}'.strip()} ", "shown" if panel == self.shown else "other")
                self._ends.append((line.width, panel))
            if line.width <= width:
                break
        return line

    def render_line(self, y: int):
        return self.line(self.size.width).strip(self.size.width, self._look)

    def _look(self, name: str):
        return self.get_component_rich_style(f"tabs--{name}") if name else self.rich_style

    def on_click(self, event) -> None:
        panel = next((panel for end, panel in self._ends if event.x < end), None)
        if panel is not None:
            self.post_message(self.Chosen(panel))
