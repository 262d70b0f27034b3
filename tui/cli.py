"""The command line. Each command is imported when it is run, so that `cutaway --version` costs next to nothing.

Exit codes, for scripts: 0 done, 1 failed, 2 wrong usage, 3 no model could be loaded, 4 the request was rejected (too
long, or refused by the chat template), 5 the engine could not be started or died, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import os
import sys
from typing import Any

import click

COMMANDS = {  # in the order of the help: name -> what it does
    "chat": "Talk with a model (what `cutaway` alone does).",
    "ask": "Answer one question, from the command line or a pipe.",
    "chats": "List, search, show, export and import the chats that were kept.",
    "models": "List, fetch, find and remove models.",
    "bench": "Measure how fast the engine is on this machine.",
    "replay": "Play a recorded conversation back.",
    "engine": "Run the engine process that the other commands start.",
}
DEFAULT = "chat"


class Commands(click.Group):
    """The commands, each loaded when it is needed; without one, `DEFAULT` is meant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return importlib.import_module(f".commands.{cmd_name}", __package__).command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS:
            near = difflib.get_close_matches(name, COMMANDS, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(COMMANDS)}."
            ctx.fail(f"No such command {name!r}. {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {name for param in self.get_params(ctx) for name in param.opts}
        at = next((i for i, arg in enumerate(args) if arg not in own), len(args))
        stops = "--help" in args[:at] or "--version" in args[:at]
        if not stops and (at == len(args) or args[at].startswith("-")):
            args = [*args[:at], DEFAULT, *args[at:]]
        return super().parse_args(ctx, args)


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        from importlib.metadata import version

        click.echo(f"cutaway {version('cutaway')}")
        ctx.exit()


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 3 no model, 4 rejected, 5 engine died, 130 interrupted.",
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
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = _reader_gone()
    sys.exit(code)


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
