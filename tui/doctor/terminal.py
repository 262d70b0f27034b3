"""The terminal: its size, its colours, its characters, and the way to the clipboard."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping

from ..chat import clipboard
from ..commands.screen import PLAIN_TERMINALS
from ..looks import no_colour
from ..screens.layout import WIDE, too_small
from .findings import Finding

GROUP = "terminal"


def look(env: Mapping[str, str], is_terminal: bool, encoding: str) -> list[Finding]:
    """Look at the terminal that `env` describes."""
    return [_kind(env, is_terminal), _size(is_terminal), _colours(env), _characters(encoding), _clipboard(env)]


def _kind(env: Mapping[str, str], is_terminal: bool) -> Finding:
    name = env.get("TERM", "")
    program = env.get("TERM_PROGRAM", "")
    beside = [f"in {program} {env.get('TERM_PROGRAM_VERSION', '')}".strip()] if program else []
    beside += ["through tmux"] if env.get("TMUX") and program.lower() != "tmux" else []
    beside += ["over ssh"] if env.get("SSH_CONNECTION") or env.get("SSH_TTY") else []
    told = ", ".join([name or "TERM is not set", *beside])
    if name in PLAIN_TERMINALS and sys.platform != "win32":
        action = "The full screen can't be shown in it: use another terminal, or `cutaway chat --plain`."
        return Finding(GROUP, "kind", told, "wrong", action)
    if not is_terminal:
        return Finding(GROUP, "kind", f"{told}; the output is not a terminal")
    return Finding(GROUP, "kind", told)


def _size(is_terminal: bool) -> Finding:
    size = shutil.get_terminal_size()
    told = f"{size.columns} columns, {size.lines} rows"
    if not is_terminal:
        return Finding(GROUP, "size", f"{told} (assumed)")
    if too_small(size.columns, size.lines):
        return Finding(GROUP, "size", told, "wrong", "Make the window larger; 80 by 24 is comfortable.")
    if size.columns < WIDE:
        return Finding(GROUP, "size", f"{told}: one panel at a time; from {WIDE} columns on, all beside the chat")
    return Finding(GROUP, "size", told)


def _colours(env: Mapping[str, str]) -> Finding:
    if no_colour(env):
        return Finding(GROUP, "colours", "none: NO_COLOR is set")
    if env.get("COLORTERM", "").lower() in ("truecolor", "24bit") or env.get("WT_SESSION"):
        return Finding(GROUP, "colours", "16 million")
    if "256" in env.get("TERM", ""):
        action = "If it can do more, set COLORTERM=truecolor."
        return Finding(GROUP, "colours", "256: themes are shown in the nearest ones", "note", action)
    return Finding(GROUP, "colours", "16: themes are shown in the nearest ones", "note", "Set TERM=xterm-256color.")


def _characters(encoding: str) -> Finding:
    if encoding.lower().replace("-", "") == "utf8":
        return Finding(GROUP, "characters", "UTF-8")
    action = "Use a UTF-8 locale: export LC_ALL=C.UTF-8."
    return Finding(GROUP, "characters", f"{encoding or 'unknown'}: many can't be shown", "wrong", action)


def _clipboard(env: Mapping[str, str]) -> Finding:
    command = clipboard.native_command(env)
    if command is not None:
        return Finding(GROUP, "clipboard", f"by {command[0]}")
    told = "by the terminal itself (OSC 52), which does not answer"
    if env.get("TMUX"):
        action = "If nothing arrives: tmux set -g set-clipboard on, and allow-passthrough on."
        return Finding(GROUP, "clipboard", f"{told}, through tmux", "note", action)
    if sys.platform.startswith("linux") and (env.get("DISPLAY") or env.get("WAYLAND_DISPLAY")):
        program = "wl-clipboard" if env.get("WAYLAND_DISPLAY") else "xclip"
        return Finding(GROUP, "clipboard", told, "note", f"Install {program}: then copying is certain.")
    return Finding(GROUP, "clipboard", told)
