"""`cutaway tour`: one request from prompt to streamed tokens, in ten chapters that run for real."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from ...engine import places
from . import configured, exits, screen
from .configured import Configured
from .flags import EngineFlags, engine_flags, engine_from
from .output import Output
from .setting_flag import setting_flag


@click.command("tour", cls=Configured)
@click.option("--question", "-q", metavar="TEXT", default="", help="The question to follow.")
@click.option("--chapter", metavar="N", type=click.IntRange(min=1), help="Begin at this chapter.")
@click.option("--restart", is_flag=True, help="Forget how far you were.")
@click.option("--recorded", is_flag=True, help="Play a recording: no model is needed.")
@click.option("--check", is_flag=True, help="Run all chapters unattended and print what came out; 1 if one fails.")
@setting_flag("theme")
@engine_flags
def command(
    question: str, chapter: int | None, restart: bool, recorded: bool, check: bool, theme: str, **values: Any
) -> int:
    """Follow one request of your own through the engine.

    Where you are is kept: the next `cutaway tour` goes on there. Your own chapters go into the folder `tour` of the
    configuration directory.

    \b
    Examples:
      cutaway tour                            the next time it goes on where you were
      cutaway tour --question "Why is the sky blue?" --chapter 3
      cutaway tour --recorded                 without a model
    """
    configured.tell_problems(configured.settings().file)
    flags = engine_from(values, inspect=True)
    if check:
        return asyncio.run(_check(flags, question, recorded))
    if not screen.fits():
        raise click.UsageError("The tour needs a terminal that can address its cells; --check runs it without one.")
    from ..tour.app import show

    return asyncio.run(show(flags, question, chapter, restart, recorded, theme))


async def _check(flags: EngineFlags, question: str, recorded: bool) -> int:
    """Walk all chapters and print what came out."""
    from ..session import Session
    from ..tour import check
    from ..tour.progress import Tour
    from ..tour.recorded import recorded_session
    from ..tour.scripts import load_chapters

    plays, problems = load_chapters(places.config() / "tour")
    for problem in problems:
        exits.say(f"cutaway: {problem}")
    tour = Tour([play.chapter for play in plays])
    if question:
        tour.ask(question)
    session = recorded_session(speed=None) if recorded else Session(flags.engine(), flags.load)
    async with check.staged(session, tour.question, recorded) as stage:
        checked = await check.walk(stage, plays, tour, exits.say)
    Output().write(check.table(checked))
    wrong = check.verdicts(checked)
    for sentence in wrong:
        exits.say(f"cutaway: {sentence}")
    return exits.FAILED if wrong else exits.OK
