"""The chat line by line, where there is no room for the screen or it is not wanted."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
from collections.abc import Iterator

from ...engine.errors import CutawayError
from ...engine.protocol import AnyEvent, Finished, Message, PromptRendered, SamplingSettings, Submit, TextDelta
from . import ask, exits
from .conversing import Conversation, Refused
from .flags import EngineFlags
from .output import Output

PROMPT = "> "


class PlainChat:
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
        drawn: tuple[int, ...] = ()

        def show(event: AnyEvent) -> None:
            nonlocal drawn
            if isinstance(event, TextDelta) and event.channel == "answer":
                said.append(event.text)
                self._output.write(event.text)
            elif isinstance(event, PromptRendered):
                self._tell_changes(event)
            elif isinstance(event, Finished):
                drawn = event.token_ids

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
                self._messages.append(Message("assistant", "".join(said), drawn))
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
