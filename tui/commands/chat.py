"""`cutaway chat`: on the full screen where there is one, else line by line."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import click

from ...engine.protocol import Message
from . import completing, configured, exits, question, screen
from .configured import Configured, preset_flag
from .flags import engine_flags, engine_from, sampling_flags, sampling_from
from .setting_flag import setting_flag


@click.command("chat", cls=Configured)
@setting_flag("system")
@preset_flag
@click.option(
    "--continue",
    "-c",
    "kept",
    is_flag=False,
    flag_value="last",
    metavar="[CHAT]",
    shell_complete=completing.chats,
    help="Go on with a kept chat: the last, or the one with this key.",
)
@setting_flag("plain")
@setting_flag("theme")
@setting_flag("keep_chats")
@sampling_flags
@engine_flags
def command(system: str, kept: str | None, plain: bool, theme: str, keep_chats: bool, **values: Any) -> int:
    """Talk with a model, its engine at work beside the chat.

    Line by line (--plain, or in a terminal that can do no more), Ctrl+C stops a reply and keeps what was said; Ctrl+C
    or Ctrl+D at the prompt ends the chat. With input from a pipe, it is answered as `cutaway ask` does.

    \b
    Examples:
      cutaway                                 the default model
      cutaway --model Qwen/Qwen3-0.6B         one of the hub, fetched once
      cutaway --model ./my-model.gguf --window 4096
      cutaway chat -c                         go on with the last chat
      cutaway --engine "ssh gpu-box cutaway engine"   the engine on another machine
    """
    full = screen.fits() and not plain
    settings = sampling_from(values, **({} if full or values["trace"] else {"candidates": 0}))
    flags = engine_from(values, inspect=full)
    given = configured.settings()
    system = configured.system(system)
    if kept is not None and not keep_chats:
        raise click.UsageError("To go on with a kept chat is to keep it: give --keep-chats too.")
    if full:
        return screen.show(flags, settings, system, given, kept or "")
    configured.tell_problems(given.file)
    if kept is not None:
        raise click.UsageError("Only the full screen goes on with a kept chat; line by line, `cutaway ask -c` does.")
    start = (Message("system", system),) if system else ()
    if not sys.stdin.isatty():
        piped = question.piped()
        if not piped.strip():
            return exits.OK
        from . import ask

        return asyncio.run(ask.answer(flags, ask.submit_for(flags, settings, system, piped)))
    from .plain_chat import PlainChat  # the screen's first paint does not wait for it

    return PlainChat(flags, settings, start).run()
