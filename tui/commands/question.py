"""The question: from the command line, from a pipe, or from both."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from pathlib import Path

import click

from ...engine import places
from . import exits

FILE_LIMIT = 10_000_000  # bytes


def read(words: tuple[str, ...]) -> str:
    """The question that `words`, files and standard input make together, in this order.

    A word that begins with @ names a file, whose text is attached; @@ stands for @ itself. Standard input is read where
    nothing else was given or where something was piped or redirected in. Bytes that are not UTF-8 become U+FFFD, and
    that is said. Raises `UsageError` when there is no question, or no such file.
    """
    files = [path for word in words if (path := _file(word)) is not None]
    plain = [word[1:] if word.startswith("@@") else word for word in words if _file(word) is None]
    asked = " ".join(plain).encode("utf-8", "surrogateescape")
    parts = [_text(asked, "the question"), *map(_attached, files), piped(bool(words))]
    question = "\n\n".join(text for text in parts if text.strip())
    if not question:
        raise click.UsageError('There is no question. Give one as an argument ("why is the sky blue?") or on stdin.')
    return question


def text_or_file(value: str) -> str:
    """`value`, or the text of the file it names with @. Raises `UsageError`."""
    path = _file(value)
    if path is not None:
        return _read(path)
    return value[1:] if value.startswith("@@") else value


def _file(word: str) -> Path | None:
    """The file that a word names; None for words that name none. Raises `UsageError` where it should be there."""
    if not word.startswith("@") or word.startswith("@@") or word == "@":
        return None
    path = places.named(word[1:])
    with contextlib.suppress(OSError):  # a name too long is none
        if path.exists():
            return path
    if any(char.isspace() for char in word):
        return None  # a sentence that begins with a name
    raise click.UsageError(f"There is no file {str(path)!r}. @ before a word attaches a file; write @@ for @ itself.")


def _attached(path: Path) -> str:
    text = _read(path)
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{path.name}:\n{fence}\n{text.rstrip()}\n{fence}"


def _read(path: Path) -> str:
    try:
        size = path.stat().st_size
        data = path.read_bytes() if size <= FILE_LIMIT else b""
    except OSError as error:
        raise click.UsageError(f"{path} can't be read: {error.strerror or error}.") from None
    if size > FILE_LIMIT:
        raise click.UsageError(f"{path} has {size:,} bytes; at most {FILE_LIMIT:,} can be attached.")
    if b"\0" in data:
        raise click.UsageError(f"{path} is not text, so it can't be attached.")
    return _text(data, str(path))


def piped(asked: bool = False) -> str:
    """What was piped or redirected into standard input; `asked` tells that there is a question without it."""
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    # With a question given, an open but silent stdin (a cron job's, a service's) must not be waited for.
    if asked and not _holds_input(sys.stdin.fileno()):
        return ""
    return _text(sys.stdin.buffer.read(), "stdin")


def _holds_input(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _text(data: bytes, name: str) -> str:
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    wrong = text.count("\ufffd") - data.count("\ufffd".encode())
    if wrong:
        exits.say(f"note: {name} is not all UTF-8; U+FFFD stands for what is not ({wrong} times).")
    return text
