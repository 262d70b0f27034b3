"""Every action of the tour's screen, once: bindings, palette and key list are made from this table."""

from __future__ import annotations

from textual.binding import Binding

from ..actions import Action

ACTIONS: tuple[Action, ...] = (
    Action("pick(0)", "Answer 1", "", "1", palette=False),
    Action("pick(1)", "Answer 2", "", "2", palette=False),
    Action("pick(2)", "Answer 3", "", "3", palette=False),
    Action("pick(3)", "Answer 4", "", "4", palette=False),
    Action("choose(0)", "The control's first setting", "", "left"),
    Action("choose(1)", "The control's second setting", "", "right"),
    Action("run", "Run the chapter with the chosen setting", "", "enter"),
    Action("halt", "Stop the run", "", "x"),
    Action("forward", "Next chapter", "", "n,pagedown"),
    Action("back", "Chapter before", "", "b,pageup"),
    Action("jump", "All chapters: jump to one", "", "j"),
    Action("turn", "Turn over: the text, each panel, your request", "", "t"),
    Action("words", "The words of this chapter", "", "w"),
    Action("scroll_text(-1)", "Text up", "", "up", palette=False),
    Action("scroll_text(1)", "Text down", "", "down", palette=False),
    Action("question", "Follow another question of yours", "", "e"),
    Action("save", "Save the tour: Markdown with pictures", "", "s"),
    Action("restart", "Start the engine again", "", "R"),
    Action("keys", "All keys", "f1", "question_mark"),
    Action("leave", "Leave the panel; leave the tour, your place is kept", "escape", "q"),
    Action("interrupt", "Stop the run; else leave the tour", "ctrl+c", "", palette=False),
)


def bindings() -> list[Binding]:
    """All bindings of the tour's screen."""
    return [binding for action in ACTIONS for binding in action.bindings()]
