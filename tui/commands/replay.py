"""`cutaway replay`: a recorded conversation, played back without a model."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from ...engine import trace
from ...engine.protocol import Failed, Finished, PromptRendered, Rejected
from ...engine.replay import ReplayEngine
from . import configured, exits, screen
from .ask import describe_end
from .output import Output
from .replies import Replies

LONGEST_GAP = 2.0  # seconds: nobody wants to watch somebody think


@click.command("replay")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Times the original pace.",
)
@click.option("--instant", is_flag=True, help="All at once.")
@click.option("--json", "as_json", is_flag=True, help="Print every event as a line of JSON.")
@click.option("--screen/--plain", "on_screen", default=None, help="With its panels, or the text alone.")
def command(file: Path, speed: float, instant: bool, as_json: bool, on_screen: bool | None) -> int:
    """Play back FILE, recorded with --trace or saved from the screen, as it was said.

    \b
    Examples:
      cutaway replay run.trace                on the full screen, panels and all, where there is one
      cutaway replay --speed 4 run.trace      four times as fast
      cutaway replay --plain --instant run.trace      the text alone, at once
      cutaway replay --json run.trace | jq .  the events
    """
    pace = None if instant else speed
    if on_screen or (on_screen is None and not as_json and screen.fits()):
        return _show(file, pace)
    return asyncio.run(_play(ReplayEngine(file, speed=pace, longest_gap=LONGEST_GAP), as_json))


def _show(file: Path, pace: float | None) -> int:
    trace.read_header(file)  # what is no trace is told before the screen is there
    if not screen.fits():
        raise click.UsageError("--screen needs a terminal that can address its cells.")
    from ..app import run_session
    from ..playback import Playback
    from ..settings.live import LiveSettings

    return asyncio.run(run_session(Playback(file, pace, LONGEST_GAP), settings=LiveSettings(configured.from_outside())))


async def _play(engine: ReplayEngine, as_json: bool) -> int:
    output = Output()
    replies = Replies(output)
    await engine.start()
    async for event in engine.events():
        if as_json:
            output.write_event(event)
            continue
        replies.show(event)
        match event:
            case PromptRendered():
                replies.begin(
                    event.request, event.samples, f"--- {event.label or event.request} ---\n{event.text.rstrip()}\n"
                )
            case Finished():
                if told := describe_end(event):
                    exits.say(f"{event.request}: {told}")
            case Rejected() | Failed():
                exits.say(f"[{event.message}]")
            case _:
                pass
    replies.rest()
    return exits.OK
