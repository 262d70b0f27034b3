"""`cutaway chat`: on the full screen where there is one, else line by line."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
from collections.abc import Iterator
from typing import Any

import click

from ...engine.errors import CutawayError
from ...engine.protocol import AnyEvent, Message, PromptRendered, SamplingSettings, Submit, TextDelta
from . import ask, completing, configured, exits, question, screen
from .configured import Configured, preset_flag
from .conversing import Conversation, Refused
from .flags import EngineFlags, engine_flags, engine_from, sampling_flags, sampling_from
from .output import Output
from .setting_flag import setting_flag

PROMPT = "> "


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
        return asyncio.run(ask.answer(flags, ask.submit_for(flags, settings, system, piped)))
    return _Chat(flags, settings, start).run()


class _Chat:
    """The conversation so far, and the engine that goes on with it."""

    def __init__(self, flags: EngineFlags, settings: SamplingSettings, start: tuple[Message, ...]) -> None:
        self._flags = flags
        self._settings = settings
        self._messages = list(start)
        self._output = Output()
        self._names = (f"chat-{n}" for n in itertools.count(1))
        self._conversation = Conversation(flags)

    def run(self) -> int:
        """Read and answer until the user leaves."""
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 - gives the prompt below its editing and history
        with contextlib.suppress(AttributeError, ValueError):
            sys.stdin.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]
        # The loop stands still while the prompt waits, so Ctrl+C there is Python's own and a key is never late.
        with asyncio.Runner() as runner:
            try:
                card = runner.run(self._conversation.open())
                self._output.write(f"{card.name} is here. Ctrl+C stops a reply, Ctrl+D ends the chat.\n")
                for text in _lines():
                    runner.run(self._turn(text))
            except KeyboardInterrupt:
                self._output.end_line()
            finally:
                runner.run(self._conversation.close())
        return exits.OK

    async def _turn(self, text: str) -> None:
        """Answer one message. What goes wrong is told, and the chat goes on."""
        self._messages.append(Message("user", text))
        try:
            await self._answer()
        except Refused as error:
            self._messages.pop()
            exits.report(error)
        except CutawayError as error:
            self._output.end_line()
            exits.report(error)
            if error.kind in ("died", "protocol"):
                await self._restart()

    async def _answer(self) -> None:
        said: list[str] = []

        def show(event: AnyEvent) -> None:
            if isinstance(event, TextDelta) and event.channel == "answer":
                said.append(event.text)
                self._output.write(event.text)
            elif isinstance(event, PromptRendered):
                self._tell_changes(event)

        submit = Submit(
            next(self._names),
            messages=tuple(self._messages),
            settings=self._settings,
            delivery="buffered" if self._flags.buffered else "streamed",
        )
        try:
            (end,) = await self._conversation.ask(submit, show)
        finally:
            # Whatever was said was read, so the model must know of it, however it ended.
            if said:
                self._messages.append(Message("assistant", "".join(said)))
        if told := ask.describe_end(end):
            self._output.write(f" {told}")
        self._output.end_line()

    def _tell_changes(self, event: PromptRendered) -> None:
        if event.left_out:
            exits.say(f"[the {len(event.left_out)} oldest messages no longer fit the window and were left out]")

    async def _restart(self) -> None:
        await self._conversation.close()
        exits.say("Starting the engine again.")
        self._conversation = Conversation(self._flags)
        await self._conversation.open()


def _lines() -> Iterator[str]:
    """What is typed, line by line, until Ctrl+D. Raises `KeyboardInterrupt` at Ctrl+C."""
    while True:
        try:
            text = input(PROMPT)
        except EOFError:
            print()
            return
        if text.strip():
            yield text
