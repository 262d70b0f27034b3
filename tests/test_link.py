"""The link between the screen and an engine: what can't be sent is told, and everything after it still goes."""

from __future__ import annotations

import asyncio
import contextlib

from cutaway.engine.errors import ProtocolError
from cutaway.engine.protocol import AnyCommand, AnyEvent, Finished, Load, Message, Rejected, Submit
from cutaway.tui.link import EngineLink

from .patience import PATIENCE
from .screen_engine import InProcessEngine


class Narrow(InProcessEngine):
    """Takes no message of more than ten characters."""

    async def send(self, command: AnyCommand) -> None:
        if isinstance(command, Submit) and len(command.messages[0].content) > 10:
            raise ProtocolError("The message is too long.", "Send less text.")
        await super().send(command)


async def test_a_command_that_can_not_be_sent_is_refused_and_the_next_one_is_answered() -> None:
    heard: list[AnyEvent] = []
    link = EngineLink(Narrow(), Load(model="scripted"), heard.append, lambda *_: None)
    running = asyncio.create_task(link.run())
    link.send(Submit("long", (Message("user", "x" * 11),)), Submit("short", (Message("user", "count 2"),)))
    async with asyncio.timeout(PATIENCE):
        while not any(isinstance(event, Finished) for event in heard):
            await asyncio.sleep(0)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert [event for event in heard if isinstance(event, Rejected)] == [
        Rejected("long", "The message is too long.", "Send less text.")
    ]
    assert [event.request for event in heard if isinstance(event, Finished)] == ["short"]
