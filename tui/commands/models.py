"""`cutaway models`: what is on this machine, and how it gets there and away."""

from __future__ import annotations

import contextlib
import difflib
import signal
from collections.abc import Callable, Iterator

import click
import msgspec

from . import exits
from .output import Output
from .progress import Progress


class Actions(click.Group):
    """`list` when nothing else is said; names the nearest action for one that it does not know."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] == "--json":
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
    """


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each.")
def list_(as_json: bool) -> int:
    """List the models on this machine: what to give as --model, size, license, folder."""
    from ...engine.models import catalogue
    from ...engine.models.storage import size

    output = Output()
    found = catalogue.list_cached()
    for model in found:
        if as_json:
            line = {"spec": model.spec, "name": model.name, "bytes": model.size, "license": model.license,
                    "format": model.format, "source": model.source, "complete": model.complete,
                    "folder": str(model.folder)}  # fmt: skip
            output.write(msgspec.json.encode(line).decode() + "\n")
        else:
            state = "" if model.complete else "  incomplete: pull it again"
            output.write(f"{model.spec}  {size(model.size)}  {model.license or 'license unknown'}{state}\n")
            output.write(f"    {model.folder}\n")
    if not found:
        exits.say("No model is on this machine yet. Fetch the default one: cutaway models pull")
    return exits.OK


@command.command("pull")
@click.argument("model", default="")
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
@click.argument("model", default="")
def path(model: str) -> int:
    """Print the folder that MODEL is loaded from."""
    from ...engine.models import catalogue

    Output().write(f"{catalogue.path(model)}\n")
    return exits.OK


@command.command("remove")
@click.argument("model", default="")
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
