"""`cutaway ask`: one question, one answer, and an exit code that a script can use."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from ...engine.protocol import Finished, Message, SamplingSettings, Submit
from . import exits, question, stats
from .conversing import Conversation
from .flags import EngineFlags, engine_flags, engine_from, sampling_flags, sampling_from
from .output import Output
from .replies import Replies

REQUEST = "ask"


@click.command("ask")
@click.argument("words", nargs=-1, metavar="[QUESTION]...")
@click.option("--system", "-s", metavar="TEXT", help="A system prompt.")
@click.option("--samples", "-n", type=click.IntRange(1, 64), default=1, show_default=True, help="Replies to draw.")
@click.option("--json", "as_json", is_flag=True, help="Print every event as a line of JSON.")
@click.option("--stats", "with_stats", is_flag=True, help="Tell times and speeds on standard error.")
@sampling_flags
@engine_flags
def command(
    words: tuple[str, ...], system: str | None, samples: int, as_json: bool, with_stats: bool, **values: Any
) -> int:
    """Answer QUESTION, or what comes on standard input, or both together.

    The reply goes to standard output, everything else to standard error. Ctrl+C stops the reply, keeps what came, and
    exits with 130.
    """
    settings = sampling_from(values, **({} if as_json or values["trace"] else {"candidates": 0}))
    flags = engine_from(values, inspect=as_json)
    asked = question.read(words)
    messages = ((Message("system", system),) if system else ()) + (Message("user", asked),)
    return asyncio.run(answer(flags, settings, messages, samples=samples, as_json=as_json, with_stats=with_stats))


async def answer(
    flags: EngineFlags,
    settings: SamplingSettings,
    messages: tuple[Message, ...],
    samples: int = 1,
    as_json: bool = False,
    with_stats: bool = False,
) -> int:
    """Ask once, show the reply, and return the exit code. Raises `CutawayError` and `BrokenPipeError`."""
    output = Output()
    conversation = Conversation(flags, output.write_event if as_json else lambda event: None)
    submit = Submit(
        REQUEST,
        messages=messages,
        settings=settings,
        samples=samples,
        delivery="buffered" if flags.buffered else "streamed",
    )
    replies = Replies(output)
    replies.begin(REQUEST, samples)
    try:
        card = await conversation.open()
        ends = await conversation.ask(submit, (lambda event: None) if as_json else replies.show)
    finally:
        replies.rest()
        await conversation.close()
    for end in ends:
        if told := describe_end(end):
            exits.say(f"sample {end.sample + 1}: {told}" if samples > 1 else told)
    if with_stats:
        for line in stats.lines(card, conversation.opened_s, ends):
            exits.say(line)
    if any(end.reason == "failed" for end in ends):
        return exits.FAILED
    return exits.INTERRUPTED if any(end.reason == "aborted" for end in ends) else exits.OK


def describe_end(end: Finished) -> str:
    """How a reply ended, where that was not by itself; else nothing."""
    match end.reason:
        case "length":
            return f"[{end.detail or f'cut at {end.generated_tokens} tokens'}]"
        case "aborted":
            return "[stopped]"
        case "failed":
            return f"[failed: {end.detail}]"
        case _:
            return ""
