"""`cutaway models`: what is on this machine, and how it gets there and away."""

from __future__ import annotations

import contextlib
import difflib
import signal
from collections.abc import Callable, Iterator

import click
import msgspec

from ..models import listing
from . import completing, exits
from .output import Output
from .progress import Progress


class Actions(click.Group):
    """`list` when nothing else is said; names the nearest action for one that it does not know."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if (not args and not ctx.resilient_parsing) or args[:1] in (["--json"], ["--all"], ["-a"]):
            args = ["list", *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands:
            near = difflib.get_close_matches(args[0], self.commands, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(self.commands)}."
            ctx.fail(f"No such action {args[0]!r}. {hint}")
        return super().resolve_command(ctx, args)


@click.group("models", cls=Actions)
def command() -> None:
    """List, fetch, find and remove models.

    MODEL is a folder, a GGUF file or a hub id, as for --model; without one, the default model is meant.

    \b
    Examples:
      cutaway models list --all             what is here, and good small models to fetch
      cutaway models info Qwen/Qwen3-0.6B   what it will take of the memory
      cutaway models pull Qwen/Qwen3-0.6B   fetch it; Ctrl+C stops, and the next pull goes on from there
      cutaway models path                   the folder of the default model
      cutaway models remove Qwen/Qwen3-0.6B
    """


@command.command("list", short_help="List the models on this machine.")
@click.option("--all", "-a", "everything", is_flag=True, help="Recommended models that could be fetched, too.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each.")
def list_(everything: bool, as_json: bool) -> int:
    """List the models on this machine: what to give as --model, size, license, and whether it fits the memory.

    "yes" under FITS is the model with its whole window, a number the tokens of context that there is room for. Models
    that other programs keep in the hub's cache are listed and used, too.
    """
    from ...engine import machine
    from ...engine.models import shelf

    device, free = machine.room()
    output = Output()
    found = [e for e in shelf.shelf(machine.expected_precision(device)) if e.kept or everything]
    rows = [(e.spec, listing.size(e), e.license or "unknown", listing.fits(e, free), listing.state(e)) for e in found]
    if as_json:
        for item in found:
            output.write(msgspec.json.encode(listing.as_json(item, free)).decode() + "\n")
    elif rows:
        for line in listing.table(("MODEL", "SIZE", "LICENSE", "FITS", ""), rows):
            output.write(line + "\n")
    if not any(item.kept for item in found):
        exits.say("No model is on this machine yet. Fetch the default one: cutaway models pull")
    elif not everything and not as_json and output.terminal:
        exits.say("`cutaway models list --all` shows more that could be fetched.")
    return exits.OK


@command.command("info", short_help="Tell what is known of MODEL without loading it.")
@click.argument("model", default="", shell_complete=completing.models)
@click.option("--precision", type=click.Choice(["auto", "float32", "bfloat16", "float16", "int8"]), default="auto")
@click.option("--window", type=click.IntRange(min=0), default=0, help="Tokens of context; 0 is the model's own.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def info(model: str, precision: str, window: int, as_json: bool) -> int:
    """Tell what is known of MODEL without loading it: size, license, and what it will take of the memory."""
    from ...engine import machine
    from ...engine.models import shelf

    device, free = machine.room()
    precision = machine.expected_precision(device) if precision == "auto" else precision
    found = shelf.entry(model, precision, window)
    if as_json:
        Output().write(msgspec.json.encode(listing.as_json(found, free)).decode() + "\n")
    else:
        Output().write("".join(f"{name:<12} {text}\n" for name, text in listing.details(found, free)))
    return exits.OK


@command.command("pull")
@click.argument("model", default="", shell_complete=completing.models)
def pull(model: str) -> int:
    """Fetch MODEL, or bring it up to date, and convert it where needed."""
    from ...engine.models import catalogue

    progress = Progress(model)
    with _cancelled() as cancelled:
        try:
            found = catalogue.pull(model, progress=progress.show, cancelled=cancelled)
        finally:
            progress.clear()
    Output().write(f"{found.folder}\n")
    return exits.OK


@command.command("path")
@click.argument("model", default="", shell_complete=completing.kept_models)
def path(model: str) -> int:
    """Print the folder that MODEL is loaded from."""
    from ...engine.models import catalogue

    Output().write(f"{catalogue.path(model)}\n")
    return exits.OK


@command.command("remove")
@click.argument("model", default="", shell_complete=completing.kept_models)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
def remove(model: str, yes: bool) -> int:
    """Remove what is kept of MODEL. Your own folders and files stay."""
    from ...engine.models import catalogue
    from ...engine.models.storage import size

    if not yes and not click.confirm(f"Remove {model or 'the default model'}?", err=True):
        return exits.FAILED
    exits.say(f"{size(catalogue.remove(model))} freed.")
    return exits.OK


@contextlib.contextmanager
def _cancelled() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl+C was pressed: a download is then stopped in good order. Pressed twice, it is left at once."""
    presses: list[int] = []

    def press(*_: object) -> None:
        if presses:
            raise KeyboardInterrupt
        presses.append(1)

    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: bool(presses)
    finally:
        signal.signal(signal.SIGINT, before)
