"""`cutaway engine`: the engine process. Started by the other commands, on this machine or through ssh."""

from __future__ import annotations

import contextlib
import logging
import os
import sys

import click

from ...engine.remote.limits import FIRST_TOKEN_S, GAP_S, Limits
from . import exits


@click.command("engine")
@click.option("--server", metavar="URL", help="Stand in for this server instead of computing here.")
@click.option("--model", default="", metavar="NAME", help="The server's model, where the client names none.")
@click.option("--key-env", default="", metavar="VARIABLE", help="The environment variable that holds its key.")
@click.option("--first-token-limit-s", type=click.IntRange(0), default=FIRST_TOKEN_S, metavar="SECONDS",
              help="How long to wait for a server's first token; 0 is no limit.")  # fmt: skip
@click.option("--gap-limit-s", type=click.IntRange(0), default=GAP_S, metavar="SECONDS",
              help="How long to wait for more of a server's reply; 0 is no limit.")  # fmt: skip
def command(server: str | None, model: str, key_env: str, first_token_limit_s: int, gap_limit_s: int) -> int:
    """Run the engine: messages on standard input and output, until the input ends.

    It is started by the other commands, or by hand on another machine: cutaway --engine "ssh box cutaway engine".
    """
    if sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError(
            "The engine speaks with programs, not with people. It is started by the other commands, such as `cutaway`."
        )
    from ...engine import worker

    if server:
        from ...engine.remote.connecting import Server
        from ...engine.remote.serving import RemoteServing

        found = Server(server, model, key_env, Limits(first_token_limit_s, gap_limit_s))
        code = worker.main(serving_for=lambda send: RemoteServing(found, send))
    else:
        code = worker.main()
    with contextlib.suppress(OSError, ValueError):
        logging.shutdown()
        sys.stderr.flush()
    # A load cancelled in the middle may still be inside a library; Python would tear it down under its feet.
    os._exit(code if code is not None else exits.FAILED)
