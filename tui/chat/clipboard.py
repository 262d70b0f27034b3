"""Copying, and saying how it was done. No Textual.

A local desktop has a clipboard program; over ssh, OSC 52 asks the reader's own terminal, which never answers, so
that is said too. Where neither is certain, saving to a file always is.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

OSC52_LIMIT = 74_994  # bytes of base64; more than this many terminals drop without a word
_WAIT = 2.0  # seconds for a clipboard program


def native_command(env: Mapping[str, str], which: Callable[[str], str | None] = shutil.which) -> list[str] | None:
    """The clipboard program of the desktop we run on; None over ssh or where there is none."""
    if env.get("SSH_CONNECTION") or env.get("SSH_TTY"):
        return None
    if sys.platform == "darwin":
        candidates = [["pbcopy"]]
    elif sys.platform == "win32":
        candidates = [["clip.exe"]]
    else:
        candidates = []
        if env.get("WAYLAND_DISPLAY"):
            candidates.append(["wl-copy"])
        if env.get("DISPLAY"):
            candidates += [["xclip", "-selection", "clipboard"], ["xsel", "--clipboard", "--input"]]
        if env.get("WSL_DISTRO_NAME"):
            candidates.append(["clip.exe"])
    return next((command for command in candidates if which(command[0])), None)


def copy_native(text: str, command: list[str]) -> bool:
    """Hand `text` to a clipboard program; False if it refused."""
    encoding = "utf-16-le" if command[0] == "clip.exe" else "utf-8"
    try:
        done = subprocess.run(
            command,
            input=text.encode(encoding, "surrogatepass"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_WAIT,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def osc52(text: str, env: Mapping[str, str]) -> str | None:
    """The sequence that asks the terminal to copy, wrapped for tmux and screen; None if the text is too long."""
    payload = base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()
    if len(payload) > OSC52_LIMIT:
        return None
    sequence = f"\x1b]52;c;{payload}\x07"
    if env.get("TMUX"):
        return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    if env.get("TERM", "").startswith("screen"):
        return f"\x1bP{sequence}\x1b\\"
    return sequence


def copy(text: str, write: Callable[[str], None], env: Mapping[str, str] | None = None) -> str:
    """Copy `text` the best way there is, and return a sentence that says which it was.

    `write` sends an escape sequence to the terminal.
    """
    env = os.environ if env is None else env
    what = f"{len(text):,} characters"
    command = native_command(env)
    if command is not None and copy_native(text, command):
        return f"Copied {what} with {command[0]}."
    sequence = osc52(text, env)
    if sequence is None:
        return f"Not copied: {what} are too many for this terminal. Save to a file instead (s)."
    write(sequence)
    return f"Sent {what} to the terminal's clipboard (OSC 52; it does not answer). If it is not there, save (s)."


def save(text: str, folder: Path, stem: str) -> Path:
    """Write `text` to a new file in `folder` and return its path. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    safe = "".join(c if c.isalnum() or c in "-_" else "-" for c in stem).strip("-")[:40] or "text"
    for number in range(1, 10_000):
        path = folder / f"{safe}{'' if number == 1 else f'-{number}'}.md"
        try:
            with path.open("x", encoding="utf-8", newline="", errors="surrogatepass") as file:
                file.write(text)
        except FileExistsError:
            continue
        return path
    raise FileExistsError(f"{folder} already holds 9,999 files called {safe}")
