"""Features that people asked other chats for, each as a test named by its case."""

from __future__ import annotations

import dataclasses

import pytest
from cutaway.engine.protocol import (
    Abort,
    AnyCommand,
    AnyEvent,
    Finished,
    Lane,
    Load,
    PromptRendered,
    Sampled,
    Step,
    Submit,
    TextDelta,
    Timeline,
)
from cutaway.tui.app import CutawayApp
from cutaway.tui.chat import clipboard
from cutaway.tui.screens.dialogs import ChoiceDialog
from cutaway.tui.session import Session

from .hand_events import MS, prompt_tokens
from .screen_engine import InProcessEngine
from .screen_run import loaded, running

TOKEN_NS = 100 * MS


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
async def test_fr_01_a_key_that_is_shown_stops_a_reply_and_the_chat_goes_on(key: str) -> None:
    async with running() as run:
        await run.ask("slowly forever", wait=False)
        await run.until(lambda: len(run.session.conversation.leaf.text) > 4, "some tokens")
        await run.shows("Esc stops")
        await run.pilot.press(key)
        await run.shows("■ stopped after")
        assert isinstance(run.engine.last(Abort), Abort)
        said = run.session.conversation.leaf.text
        assert said.startswith("1 2 ")
        await run.until(lambda: "Esc stops" not in run.text(), "the key to be shown no longer")
        assert run.main.focused is run.main.composer
        await run.type("next")
        await run.pilot.press("enter")
        await run.until(lambda: run.session.conversation.leaf.text == "You said: next")
        assert [node.text for node in run.session.conversation.path()][1] == said


@dataclasses.dataclass
class Clock:
    """The engine's time in this test."""

    now: int = 1_000 * MS


class SlowEngine(InProcessEngine):
    """Reads a prompt of so many tokens in 0.5 s and draws a token every 0.1 s, on a clock that only events move."""

    def __init__(self, clock: Clock, prompt: int) -> None:
        super().__init__()
        self.clock = clock
        self.prompt = prompt

    async def send(self, command: AnyCommand) -> None:
        if not isinstance(command, Submit):
            await super().send(command)
            return
        for event in self._reply(command.request):
            self.push(event)

    def _reply(self, request: str) -> list[AnyEvent]:
        began, length = self.clock.now, self.prompt
        read = began + 500 * MS
        lane = Lane(0, request, 0, "prefill", 0, length, length, length)
        events: list[AnyEvent] = [
            PromptRendered(request, "x" * length, prompt_tokens(["x"] * length), 0, 0, began, began, 512),
            Step(1, began, run_ns=500 * MS, lanes=(lane,)),
        ]
        for index in range(20):
            at = self.prompt + index
            self.clock.now = read + index * TOKEN_NS
            drawn = Sampled(request, 0, index, at, 5, "y", b"y", self.clock.now)
            lane = Lane(0, request, 0, "decode", at, 1, at + 1, self.prompt)
            events.append(Step(2 + index, self.clock.now, lanes=(lane,), sampled=(drawn,)))
            events.append(TextDelta(request, 0, "y", index + 1, self.clock.now))
        line = Timeline(submitted_ns=began, first_token_ns=read, finished_ns=self.clock.now)
        events.append(Finished(request, 0, "end", prompt_tokens=self.prompt, generated_tokens=20, timeline=line))
        return events


@pytest.mark.parametrize(("prompt", "context", "near"), [(50, "ctx 70/512", False), (380, "▲ctx 400/512", True)])
async def test_fr_04_speed_and_context_are_in_view_and_the_limit_is_said_before_it_comes(
    prompt: int, context: str, near: bool
) -> None:
    clock = Clock()
    engine = SlowEngine(clock, prompt)
    session = Session(engine, Load(model="scripted", window=512, pages=256), now_ns=lambda: clock.now)
    async with loaded(CutawayApp(session), (160, 48)) as run:
        await run.ask("hi")
        rates = f"prompt {prompt / 0.5:.0f} tok/s  ○ 10.0 tok/s"  # reading and writing, apart
        await run.until(lambda: rates in run.frame()[0] and run.frame()[0].rstrip().endswith(context))
        assert ("78% of the window is full." in run.text()) == near


SECOND = "second\n\n\tblock, which is long enough to be wrapped by any screen of eighty columns there is"
REPLY = f"First:\n\n```py\nx = '[a]'  \n```\n\nthen **this**:\n\n```\n{SECOND}\n```\nDone."


async def test_fr_07_one_key_copies_the_last_reply_or_one_code_block_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    monkeypatch.setattr(clipboard, "copy", lambda text, write: copied.append(text) or "Copied.")
    async with running() as run:
        await run.ask("raw " + REPLY.encode("unicode_escape").decode())
        assert run.session.conversation.leaf.text == REPLY
        await run.outside("k")
        await run.until(lambda: isinstance(run.app.screen, ChoiceDialog))
        await run.shows("x = '[a]'")
        await run.pilot.press("end", "enter")
        await run.until(lambda: copied)
        assert copied == [SECOND]
        await run.outside("Y")
        await run.until(lambda: len(copied) == 2)
        assert copied[1] == REPLY
        await run.type("x")
        await run.pilot.press("ctrl+y")  # also while a message is written
        await run.until(lambda: len(copied) == 3)
        assert copied[2] == REPLY
