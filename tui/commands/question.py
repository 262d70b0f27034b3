"""The question: from the command line, from a pipe, or from both."""

from __future__ import annotations

import os
import stat
import sys

import click

from . import exits


def read(words: tuple[str, ...]) -> str:
    """The question that `words` and standard input make together, the words first.

    Standard input is read where nothing else was given or where something was piped or redirected in. Bytes that are
    not UTF-8 become U+FFFD, and that is said. Raises `UsageError` when there is no question.
    """
    asked = " ".join(words).encode("utf-8", "surrogateescape")
    question = "\n\n".join(text for text in (_text(asked, "the question"), piped(bool(words))) if text.strip())
    if not question:
        raise click.UsageError('There is no question. Give one as an argument ("why is the sky blue?") or on stdin.')
    return question


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
