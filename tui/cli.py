"""The command line. Each command is imported when it is run, so that `cutaway --version` costs next to nothing.

Exit codes, for scripts: 0 done, 1 failed, 2 wrong usage, 3 no model could be loaded, 4 the request was rejected (too
long, or refused by the chat template), 5 the engine could not be started or died, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import difflib
import gc
import importlib
import os
import sys
from typing import Any

import click
from click.shell_completion import CompletionItem

COMMANDS = {  # in the order of the help: name -> what it does
    "chat": "Talk with a model (what `cutaway` alone does).",
    "ask": "Answer one question, from the command line or a pipe.",
    "chats": "List, search, show, export and import the chats that were kept.",
    "models": "List, fetch, find and remove models.",
    "bench": "Measure how fast the engine is on this machine.",
    "tour": "Follow one request through the engine, chapter by chapter.",
    "settings": "Show, read and change settings.",
    "replay": "Play a recorded conversation back.",
    "doctor": "Look at this machine, measure it, and say what to do about what is wrong.",
    "completion": "Let a shell complete commands, models and chats.",
    "engine": "Run the engine process that the other commands start.",
}
DEFAULT = "chat"
EXAMPLES = {
    "cutaway": "talk with the default model",
    "cutaway --model Qwen/Qwen3-0.6B": "with another one",
    'cutaway ask "Why is the sky blue?"': "one answer, also in pipes",
    'cutaway ask "What is this?" @notes.txt -c': "about a file, in the last chat",
    "cutaway models list --all": "what to choose from, and what fits",
    "cutaway doctor": "why it does not work, or is slow",
}
EXIT_CODES = "0 done, 1 failed, 2 wrong usage, 3 no model, 4 rejected, 5 the engine died, 130 interrupted."


class Commands(click.Group):
    """The commands, each loaded when it is needed; without one, `DEFAULT` is meant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        gc.disable()  # nothing of what is imported is garbage, and looking for some takes its time
        try:
            return importlib.import_module(f".commands.{cmd_name}", __package__).command
        finally:
            gc.enable()

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS:
            near = difflib.get_close_matches(name, COMMANDS, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(COMMANDS)}."
            ctx.fail(f"No such command {name!r}. {hint}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        offered = super().shell_complete(ctx, incomplete)
        default = self.get_command(ctx, DEFAULT) if incomplete.startswith("-") else None
        return offered + default.shell_complete(ctx, incomplete) if default is not None else offered

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Examples"):
            formatter.write_dl(list(EXAMPLES.items()), col_max=50)
        with formatter.section("Where things are kept"):
            formatter.write_dl(_folders(), col_max=50)
        with formatter.section("Exit codes"):
            formatter.write_text(EXIT_CODES)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {name for param in self.get_params(ctx) for name in param.opts}
        at = next((i for i, arg in enumerate(args) if arg not in own), len(args))
        stops = "--help" in args[:at] or "--version" in args[:at]
        ends = at == len(args) and not ctx.resilient_parsing  # a shell that completes may go on with a command
        if not stops and (ends or (at < len(args) and args[at].startswith("-"))):
            args = [*args[:at], DEFAULT, *args[at:]]
        return super().parse_args(ctx, args)


def _folders() -> list[tuple[str, str]]:
    """Our folders, and what sets them, for the help."""
    from pathlib import Path

    from ..engine import places
    from ..engine.errors import CutawayError

    told: list[tuple[str, str]] = []
    kinds: dict[places.Kind, str] = {"config": "settings, themes", "data": "chats", "cache": "models", "state": "logs"}
    for kind, what in kinds.items():
        try:
            folder = str(places.folder(kind))
            home = str(Path.home())
            shown = f"~{folder.removeprefix(home)}" if folder.startswith(home + os.sep) else folder
        except (CutawayError, RuntimeError):
            shown = "nowhere: there is no home folder"
        told.append((shown, f"{what} ({places.variable(kind)})"))
    return told


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        from importlib.metadata import version

        click.echo(f"cutaway {version('cutaway')}")
        ctx.exit()


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
)
@click.option("--debug", is_flag=True, envvar="CUTAWAY_DEBUG", help="Show tracebacks, and log more.")
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Show it.")
def cli(debug: bool) -> None:
    """A terminal chat whose inference engine is made of glass."""
    if debug:
        os.environ["CUTAWAY_DEBUG"] = "1"  # the engine process inherits it


def run(args: list[str]) -> int:
    """Run one command line and return its exit code. Nothing is raised."""
    _show_anything()
    try:
        return _code(cli.main(args, prog_name="cutaway", standalone_mode=False))
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        return _reader_gone()
    except Exception as error:
        from .commands import exits

        return exits.report(error)


def main() -> None:
    """Entry point of the `cutaway` script."""
    _fill_closed_streams()
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = _reader_gone()
    sys.exit(code)


def _fill_closed_streams() -> None:
    """What the shell has closed (`>&-`) leads nowhere, or the next file opened would get its number and what we say."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", errors="replace", closefd=False))


def _code(result: Any) -> int:
    return result if isinstance(result, int) else 0


def _show_anything() -> None:
    """A locale without the characters of a message must not be why it is not shown."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]


def _reader_gone() -> int:
    """Whoever read our output has left: say nothing, also not when Python closes the stream at its end."""
    with contextlib.suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
    return 1


if __name__ == "__main__":
    main()
