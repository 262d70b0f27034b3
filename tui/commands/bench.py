"""`cutaway bench`: how fast the engine is on this machine, and against the last time."""

from __future__ import annotations

import asyncio
from typing import Any

import click
import msgspec

from ...engine.errors import CutawayError
from ..bench import stored, table
from ..bench.measures import Report
from ..bench.running import Bench, Sizes
from . import configured, exits
from .configured import Configured
from .conversing import Conversation
from .flags import EngineFlags, engine_flags, engine_from
from .output import Output
from .progress import StatusLine, meter


class Streams(click.ParamType):
    """Numbers of requests at once, with commas between."""

    name = "N,N,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(dict.fromkeys(int(part) for part in str(value).split(",")))
        except ValueError:
            numbers = ()
        if not numbers or not all(1 <= number <= 1024 for number in numbers):
            self.fail(f"{value!r} is not one or more whole numbers from 1 to 1024, such as 1,4,16.", param, ctx)
        return numbers


@click.command("bench", cls=Configured)
@click.option("--streams", type=Streams(), default="1,4,16", show_default=True, help="Requests at once.")
@click.option(
    "--prompt-tokens",
    type=click.IntRange(1, 1_000_000),
    default=512,
    show_default=True,
    metavar="N",
    help="Tokens of each prompt, about.",
)
@click.option(
    "--new-tokens",
    type=click.IntRange(2, 1_000_000),
    default=64,
    show_default=True,
    metavar="N",
    help="Tokens of each reply.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 1000),
    default=3,
    show_default=True,
    metavar="N",
    help="How often each is measured.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: this run, and the one before.")
@engine_flags
def command(
    streams: tuple[int, ...], prompt_tokens: int, new_tokens: int, rounds: int, as_json: bool, **values: Any
) -> int:
    """Measure prefill, decode and latencies, through the engine process as any client sees them.

    "of limit" is the share of what this machine could decode if it did nothing but read memory: the engine reads a
    buffer as large as the weights of a step again and again, and a step has to read its weights once and the keys and
    values of every stream. TTFT is the time to the first token, ITL that between tokens, "each" one stream's own rate.
    The run is kept, and compared with the last one of the same model, precision, device and sizes.

    \b
    Examples:
      cutaway bench                           the default model
      cutaway bench --streams 1,8 --new-tokens 128
      cutaway bench --model Qwen/Qwen3-0.6B --json
    """  # fmt: skip
    configured.tell_problems(configured.settings().file)
    flags = engine_from(values, inspect=False)
    flags = msgspec.structs.replace(
        flags, load=msgspec.structs.replace(flags.load, max_lanes=max(flags.load.max_lanes, *streams))
    )
    report = asyncio.run(_measure(flags, Sizes(streams, prompt_tokens, new_tokens, rounds)))
    file = stored.path(report, flags.command or (flags.server.url if flags.server is not None else ""))
    before = stored.load(file)
    output = Output()
    if as_json:
        output.write(msgspec.json.encode({"run": report, "before": before}).decode() + "\n")
    else:
        output.write("\n".join(table.lines(report, before)) + "\n")
    try:
        stored.save(report, file)
    except OSError as error:
        exits.say(f"This run is not kept for comparison: {file.parent} can't be written ({error.strerror}).")
    return exits.OK


async def _measure(flags: EngineFlags, sizes: Sizes) -> Report:
    """Raises `CutawayError`."""
    conversation = Conversation(flags)
    line = StatusLine()
    told: list[str] = []

    def tell(stage: str, share: float) -> None:
        if line.terminal:
            line.paint(f"{meter(share)} {stage}")
        elif stage not in told:
            told.append(stage)
            exits.say(f"{stage} …")

    try:
        card = await conversation.open()
        if card.attention == "fallback":
            exits.say(card.attention_note)
        return await Bench(conversation, card, sizes, tell).run()
    except CutawayError:
        line.clear()
        raise
    finally:
        line.clear()
        await conversation.close()
