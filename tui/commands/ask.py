"""`cutaway ask`: one question, one answer, and an exit code that a script can use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import click
import msgspec

from ...engine.protocol import AnyEvent, Finished, Message, PromptRendered, SamplingSettings, Submit
from . import completing, configured, exits, question, stats, templated
from .configured import Configured, preset_flag
from .conversing import Conversation
from .flags import EngineFlags, engine_flags, engine_from, sampling_flags, sampling_from
from .output import Output
from .replies import Replies
from .setting_flag import setting_flag

REQUEST = "ask"


@click.command("ask", cls=Configured)
@click.argument("words", nargs=-1, metavar="[QUESTION]...")
@setting_flag("system")
@preset_flag
@click.option(
    "--template",
    metavar="NAME",
    shell_complete=completing.templates,
    help="A prompt with fields, [templates.NAME] in the settings file.",
)
@click.option(
    "--field",
    "-f",
    "fields",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Fills a field of the template in; VALUE may be @FILE. Can be repeated.",
)
@click.option(
    "--continue",
    "-c",
    "chat",
    is_flag=False,
    flag_value="last",
    metavar="[CHAT]",
    shell_complete=completing.chats,
    help="Go on with a kept chat: the last, or the one with this key.",
)
@click.option("--samples", "-n", type=click.IntRange(1, 64), default=1, show_default=True, help="Replies to draw.")
@click.option("--json-schema", metavar="FILE", help="Hold the reply to the JSON schema in FILE (servers only).")
@click.option("--json", "as_json", is_flag=True, help="Print every event as a line of JSON.")
@click.option("--stats", "with_stats", is_flag=True, help="Tell times and speeds on standard error.")
@sampling_flags
@engine_flags
def command(
    words: tuple[str, ...],
    system: str,
    template: str | None,
    fields: tuple[str, ...],
    chat: str | None,
    samples: int,
    json_schema: str | None,
    as_json: bool,
    with_stats: bool,
    **values: Any,
) -> int:
    """Answer QUESTION, or what comes on standard input, or both together.

    An argument that begins with @ names a file, whose text is attached: cutaway ask "what is this?" @notes.txt

    The reply goes to standard output, everything else to standard error. Ctrl+C stops the reply, keeps what came, and
    exits with 130. With -c, question and reply are kept in the chat that is continued; `cutaway chats` lists them.

    With --template, QUESTION or standard input fill the one field that no -f gives; where a person sits at the
    terminal, what is missing is asked for.

    \b
    Examples:
      cutaway ask "Why is the sky blue?"
      git diff | cutaway ask "Write a commit message." --stats
      cutaway ask "What is this?" @notes.txt --system @editor.txt
      cutaway ask -c "And at night?"          in the last chat
      cutaway ask --json --seed 7 "Hi" | jq .
      cutaway ask --preset coder --template review -f language=Rust @main.rs
    """
    given = configured.settings()
    configured.tell_problems(given.file)
    settings = sampling_from(values, **({} if as_json or values["trace"] else {"candidates": 0}))
    flags = engine_from(values, inspect=as_json)
    system = configured.system(system)
    if fields and template is None:
        raise click.UsageError("-f fills in a field of a template: name one with --template.")
    read = question.read
    if template is not None:
        read = partial(templated.asked, given.file.template(template), fields)
    if chat is not None:
        if samples > 1:
            raise click.UsageError("A chat is continued by one reply: leave out --samples.")
        if json_schema is not None:
            raise click.UsageError("A chat is continued in plain text: leave out --json-schema.")
        # A chat that has its own system prompt gets another only from somebody who asks for it.
        system = system if configured.was_given("system") or configured.was_given("preset") else ""
        return _go_on(chat, words, read, flags, settings, system, as_json=as_json, with_stats=with_stats)
    submit = submit_for(flags, settings, system, read(words), samples)
    if json_schema is not None:
        submit = msgspec.structs.replace(submit, json_schema=question.text_or_file(f"@{json_schema.removeprefix('@')}"))
    return asyncio.run(answer(flags, submit, as_json=as_json, with_stats=with_stats))


def _go_on(
    chat: str,
    words: tuple[str, ...],
    read: Callable[[tuple[str, ...]], str],
    flags: EngineFlags,
    settings: SamplingSettings,
    system: str,
    as_json: bool,
    with_stats: bool,
) -> int:
    """Ask in a kept chat. Raises `CutawayError`."""
    from . import kept

    with kept.chats() as store:
        key, named = kept.continued(store, chat)
        asked = read(words if named else (chat, *words))
        conversation = store.open(key)
        assert conversation is not None
        conversation.system = system or conversation.system
        continued = kept.Continued(store, conversation, settings)
        submit = continued.ask(asked, flags.buffered)
        try:
            return asyncio.run(answer(flags, submit, continued.heard, as_json=as_json, with_stats=with_stats))
        finally:
            continued.ended()


def submit_for(flags: EngineFlags, settings: SamplingSettings, system: str, asked: str, samples: int = 1) -> Submit:
    """The request for replies to one question."""
    return Submit(
        REQUEST,
        messages=((Message("system", system),) if system else ()) + (Message("user", asked),),
        settings=settings,
        samples=samples,
        delivery="buffered" if flags.buffered else "streamed",
    )


async def answer(
    flags: EngineFlags,
    submit: Submit,
    heard: Callable[[AnyEvent], None] = lambda event: None,
    as_json: bool = False,
    with_stats: bool = False,
) -> int:
    """Ask once, show the reply, and return the exit code; `heard` gets every event.

    Raises `CutawayError` and `BrokenPipeError`.
    """
    output = Output()
    samples = submit.samples

    def hear(event: AnyEvent) -> None:
        heard(event)
        if as_json:
            output.write_event(event)

    conversation = Conversation(flags, hear)
    replies = Replies(output)
    replies.begin(submit.request, samples)
    try:
        card = await conversation.open()
        told = (lambda event: None) if card.attention != "remote" else _notes()
        ends = await conversation.ask(submit, (lambda event: None) if as_json else _both(told, replies.show))
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


def _both(first: Callable[[AnyEvent], None], second: Callable[[AnyEvent], None]) -> Callable[[AnyEvent], None]:
    def show(event: AnyEvent) -> None:
        first(event)
        second(event)

    return show


def _notes() -> Callable[[AnyEvent], None]:
    """Says what a server did not take, once each."""
    said: set[str] = set()

    def show(event: AnyEvent) -> None:
        if isinstance(event, PromptRendered):
            for note in event.notes:
                if note not in said:
                    exits.say(f"note: {note}.")
                said.add(note)

    return show


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
