"""Every action of the main screen, once: bindings, palette and key list are all made from this table. No Textual.

`keys` work everywhere, also while a message is written; `letters` only outside the composer. `keymap.py` puts the
reader's own keys in their place. The screen has a method `action_<name>` for each.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from textual.binding import Binding


class Action(msgspec.Struct, frozen=True):
    """One thing the reader can do. `palette` False: it needs a place and has no sense in the palette."""

    name: str
    title: str
    keys: str = ""
    letters: str = ""
    group: str = "chat"
    palette: bool = True

    @property
    def id(self) -> str:
        """What the settings file calls it."""
        return _IDS.get(self.name) or re.sub(r"show_panel\('(\w+)'\)", r"\1", self.name)

    def bindings(self) -> list[Binding]:
        """Textual's bindings of an action whose keys are always these."""
        from textual.binding import Binding

        given = ((self.keys, True), (self.letters, False))
        return [Binding(keys, self.name, self.title, show=False, priority=first) for keys, first in given if keys]


_IDS = {
    "branch(-1)": "branch_left",
    "branch(1)": "branch_right",
    "turn_chat(-1)": "chat_before",
    "turn_chat(1)": "chat_after",
}


ACTIONS: tuple[Action, ...] = (
    Action(
        "escape",
        "Stop the reply and keep what it said; else out of the composer and back",
        "escape",
        palette=False,
    ),
    Action("interrupt", "Copy the selection, else stop the reply, else (twice) quit", "ctrl+c", palette=False),
    Action("stop", "Stop the reply and keep what it said"),
    Action("regenerate", "Ask again: another reply in a new branch", "ctrl+r", "r"),
    Action("go_on", "Go on writing a reply that was cut or stopped", "", "c"),
    Action("edit", "Edit this message in a new branch", "", "e"),
    Action("branch(-1)", "Branch to the left", "", "left,comma", palette=False),
    Action("branch(1)", "Branch to the right", "", "right", palette=False),
    Action("system", "Edit the system prompt", "", "S"),
    Action("copy_message", "Copy this message", "", "y"),
    Action("copy_reply", "Copy the last reply", "ctrl+y", "Y"),
    Action("copy_code", "Copy the last code block of this message", "", "k"),
    Action("save", "Save this message to a file", "", "s"),
    Action("save_chat", "Save this chat to a file"),
    Action("save_trace", "Save what the engine did so far: cutaway replay shows it again"),
    Action("plain", "Show messages as plain text, or as Markdown again", "", "m"),
    Action("find", "Find words in this chat", "ctrl+f", "f"),
    Action("write", "Write a message", "", "i"),
    Action("new_chat", "New chat", "ctrl+n", "n", "chats"),
    Action("chats", "All chats: open one, search them", "ctrl+l", "slash", "chats"),
    Action("turn_chat(-1)", "Chat before", "", "less_than_sign", "chats", palette=False),
    Action("turn_chat(1)", "Chat after", "", "greater_than_sign", "chats", palette=False),
    Action("close_chat", "Close this chat; it stays kept", "", "", "chats"),
    Action("rename_chat", "Name this chat", "", "", "chats"),
    Action("delete_chat", "Delete this chat", "", "", "chats"),
    Action("undelete_chat", "Bring back the chat deleted last", "", "", "chats"),
    Action("show_panel('tokens')", "Tokens: prompt and reply, piece by piece", "f2", "2", "panels"),
    Action("show_panel('lanes')", "Batch lanes and the queue", "f3", "3", "panels"),
    Action("show_panel('triangle')", "Prefill triangle", "f4", "4", "panels"),
    Action("show_panel('pages')", "KV pages", "f5", "5", "panels"),
    Action("show_panel('candidates')", "Next token", "f6", "6", "panels"),
    Action("show_panel('timeline')", "Timeline", "f7", "7", "panels"),
    Action("show_chat", "Back to the chat", "", "1", "panels"),
    Action("maximise", "Maximise this panel, or put it back", "f12", "z", "panels"),
    Action("jump", "Jump: a letter for every place", "ctrl+o", "semicolon", "panels"),
    Action("live", "Follow the newest token again", "", "L", "panels"),
    Action("controls", "Controls: sampling and switches", "f8", "8", "engine"),
    Action("pause", "Pause the engine, or let it run on", "f9", "p", "engine"),
    Action("step", "While paused: one iteration", "f10", "full_stop", "engine"),
    Action("delivery", "Streamed or buffered delivery", "", "d", "engine"),
    Action("policy", "Continuous or static batching", "", "b", "engine"),
    Action("prefix_cache", "Prefix cache on or off", "", "x", "engine"),
    Action("kv_reuse", "Reuse keys and values, or recompute every prefix", "", "v", "engine"),
    Action("traffic", "Send background traffic: short and long prompts", "ctrl+t", "t", "engine"),
    Action("traffic_file", "Send background traffic from a file", "", "", "engine"),
    Action("stop_traffic", "Stop the background traffic", "", "T", "engine"),
    Action("clear_cache", "Forget the cached pages", "", "C", "engine"),
    Action("restart", "Start the engine again", "", "R", "engine"),
    Action("models", "Models: what is here, what fits; load another in this chat", "ctrl+g", "M", "engine"),
    Action("cancel_load", "Stop loading or fetching a model", "", "X", "engine"),
    Action("palette", "Every action, by its name", "ctrl+p", "", "program", palette=False),
    Action("keys", "All keys", "f1", "question_mark", "program"),
    Action("tour", "The tour: one request through the engine, chapter by chapter", "", "g", "program"),
    Action("settings", "Settings", "", "O", "program"),
    Action("presets", "Presets: switch to one, or to none", "", "P", "program"),
    Action("save_preset", "Save the settings as a preset", "", "", "program"),
    Action("templates", "Prompt templates: fill one in", "", "F", "program"),
    Action("theme", "Themes: pick one, seen at once", "", "ampersand", "program"),
    Action("suspend", "Back to the shell for a while; fg returns here", "", "Z", "program"),
    Action("quit", "Quit", "ctrl+q", "", "program"),
)

GROUPS: dict[str, str] = {
    "chat": "Chat",
    "chats": "Chats",
    "panels": "Panels",
    "engine": "Engine",
    "program": "Program",
}
