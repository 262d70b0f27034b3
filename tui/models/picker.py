"""The models to choose from: what is here, what could be fetched, and what each will take of the memory."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from ...engine.errors import CutawayError
from ...engine.models.shelf import Entry
from ..printable import printable
from ..screens.dialogs import Dialog
from ..state.choice import Choice
from . import listing
from .choices import Choices
from .offer import Offer, choice_of

WIDTH = 96  # of the box, where the screen has that much
_ROOM = 10  # cells that the box and the mark of a row take
_LICENSE, _SIZE, _FITS = 10, 10, 13  # cells of the columns
_NO_HIT = "No model's name holds all these words."
_MARKS = {"loaded": "●", "here": "✓", "fetch": "↓", "wrong": "!", "server": "⇄"}


class ModelPicker(Dialog[Choice]):
    """Returns who is to answer. Typing looks for names; a folder, a GGUF file or a hub id can be typed, too.

    What has to be fetched, or does not fit, is chosen by a second Enter.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "move(1)", "Next model", priority=True),
        Binding("up", "move(-1)", "Model before", priority=True),
        Binding("pagedown", "move(5)", "Five models on", priority=True),
        Binding("pageup", "move(-5)", "Five models back", priority=True),
    ]

    def __init__(self, choices: Choices) -> None:
        super().__init__("models")
        self.choices = choices
        self.shown: list[Entry] = []
        self._entries: list[Entry] | None = None
        self._typed = 0  # rows at the end that are what was typed
        self._asked = ""  # what the next Enter takes without asking again

    def body(self) -> ComposeResult:
        yield Input(placeholder="search, or type a folder, a GGUF file or a hub id", id="words")
        yield OptionList(id="choices")
        yield Static(id="about")
        yield Static(id="hint")

    async def on_mount(self) -> None:
        self.query_one(Input).focus()
        self._hint("looking at what is here …")
        try:
            # Headers are read from the disk, which may be slow.
            self._entries = await asyncio.to_thread(self.choices.entries)
        except CutawayError as error:
            self._entries = []
            self._hint(str(error), wrong=True)
            return
        self._list()

    def on_resize(self) -> None:
        if self._entries is not None:
            at = self.query_one(OptionList).highlighted
            self._list(at)

    def on_input_changed(self) -> None:
        if self._entries is not None:
            self._list()

    def _list(self, at: int | None = None) -> None:
        """Show what holds the typed words; what is typed itself, where nothing does."""
        typed = self.query_one(Input).value.strip()
        words = typed.casefold().split()
        entries = self._entries or []
        self.shown = [e for e in entries if all(w in f"{e.spec} {e.about} {e.license}".casefold() for w in words)]
        new = self.choices.typed(typed) if typed and not any(typed == entry.spec for entry in self.shown) else []
        self.shown += new
        self._typed = len(new)
        choices = self.query_one(OptionList)
        choices.clear_options()
        choices.add_options([Option(self._line(entry)) for entry in self.shown])
        wanted = self._wanted(typed.casefold())
        choices.highlighted = (wanted if at is None else min(at, len(self.shown) - 1)) if self.shown else None
        if not self.shown:
            self._tell_about(None)

    def _wanted(self, typed: str) -> int:
        """The row that the cursor begins on: the one named so or nearly so, before those that are only about it."""
        if not typed:
            return next((i for i, entry in enumerate(self.shown) if self.choices.is_loaded(entry)), 0)
        names = [entry.spec.casefold() for entry in self.shown[: len(self.shown) - self._typed]]
        found = [names.index(typed)] if typed in names else [i for i, name in enumerate(names) if typed in name]
        free = len(names) if len(names) < len(self.shown) and isinstance(self.shown[len(names)], Offer) else 0
        return found[0] if found else free

    def _line(self, entry: Entry) -> Content:
        width = max(16, min(WIDTH, int(self.app.size.width * 0.96)) - _ROOM)
        columns = [(f"{listing.fits(entry, self.choices.free)}", _FITS)]
        if isinstance(entry, Offer):
            columns = [(entry.choice.server if entry.choice.model else "server", _FITS)]
        elif width > 34:
            columns.insert(0, (listing.size(entry) if entry.size else "?", _SIZE))
        if width > 60 and not isinstance(entry, Offer):
            columns.insert(1, (entry.license or "?", _LICENSE))
        name = width - sum(cells + 2 for _, cells in columns)
        spec = entry.spec if len(entry.spec) <= name else entry.spec.rpartition("/")[2]
        parts = [_MARKS[self._state(entry)], f"{printable(spec)[:name]:<{name}}"]
        parts += [f" {printable(text)[:cells]:>{cells}}" for text, cells in columns]
        return Content.styled(" ".join(parts), "" if entry.kept and not entry.problem else "dim")

    def _state(self, entry: Entry) -> str:
        if self.choices.is_loaded(entry):
            return "loaded"
        if isinstance(entry, Offer):
            return "server"
        if entry.problem or entry.incomplete:
            return "wrong"
        return "here" if entry.kept else "fetch"

    def _tell_about(self, entry: Entry | None) -> None:
        """Below the list: what is known of the model under the cursor, and what Enter will do."""
        if entry is None:
            told = "Type the name of one of the server's models." if self.choices.served else _NO_HIT
            self.query_one("#about", Static).update(Content(told))
            self._hint("Esc closes")
            return
        told = [" ".join(part for part in (entry.about, listing.state(entry).capitalize()) if part)]
        if entry.memory is not None:
            memory = entry.memory
            told.append(
                f"{listing.amount(memory.weights)} of weights as {memory.precision}, "
                f"{listing.amount(memory.cache)} of cache for {memory.window:,} tokens."
            )
        if not isinstance(entry, Offer):
            told.append(f"Fits: {listing.sentence(entry, self.choices.free)}.")
            if self.choices.elsewhere:
                told.append("The engine runs elsewhere: what is here, and fits here, need not be so there.")
        self.query_one("#about", Static).update(Content(printable("\n".join(line for line in told if line))))
        self._hint(f"{self._deed(entry)} · ↑ ↓ choose · Esc closes")

    def _deed(self, entry: Entry) -> str:
        if self.choices.is_loaded(entry):
            return f"It {'answers' if isinstance(entry, Offer) else 'is loaded'}; Enter loads it anew"
        if isinstance(entry, Offer):
            return "Enter lets it answer this chat"
        return "Enter loads it" if entry.kept and not entry.incomplete else "Enter fetches and loads it"

    def _hint(self, text: str, wrong: bool = False) -> None:
        hint = self.query_one("#hint", Static)
        hint.set_class(wrong, "wrong")
        hint.update(Content(printable(text)))

    # ---------------------------------------------------------------------------------------------- choosing

    def action_move(self, by: int) -> None:
        choices = self.query_one(OptionList)
        if self.shown:
            choices.highlighted = max(0, min((choices.highlighted or 0) + by, len(self.shown) - 1))

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self._asked = ""
        if event.option_index < len(self.shown):
            self._tell_about(self.shown[event.option_index])

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._choose(self.query_one(OptionList).highlighted)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._choose(event.option_index)

    def _choose(self, at: int | None) -> None:
        if at is None or at >= len(self.shown):
            return
        entry = self.shown[at]
        question = self._question(entry)
        if question and self._asked != entry.spec:
            self._asked = entry.spec
            self._hint(question, wrong=True)
        else:
            self.dismiss(choice_of(entry))

    def _question(self, entry: Entry) -> str:
        """What must be known before this model is taken, or nothing."""
        parts: list[str] = []
        if entry.problem:
            parts.append(f"It can't be served: {entry.problem}.")
        if entry.memory is not None and entry.memory.fit(self.choices.free) == "no":
            parts.append(f"It does not fit: {listing.sentence(entry, self.choices.free).removeprefix('no: ')}.")
        if entry.gated and not entry.kept:
            parts.append("Its makers let in whom they know: ask on its page on the hub, then `hf auth login`.")
        if not entry.kept and self.choices.offline:
            parts.append("It is not here, and --offline forbids to fetch it.")
        elif not entry.kept and entry.size:
            parts.append(f"{listing.size(entry)} will be fetched.")
        return " ".join([*parts, "Enter again does it."]) if parts else ""
