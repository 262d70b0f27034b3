"""`cutaway engine`: the engine process. Started by the other commands, on this machine or through ssh."""

from __future__ import annotations

import contextlib
import logging
import os
import sys

import click

from . import exits


@click.command("engine")
def command() -> int:
    """Run the engine: messages on standard input and output, until the input ends.

    It is started by the other commands, or by hand on another machine: cutaway --engine "ssh box cutaway engine".
    """
    if sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError(
            "The engine speaks with programs, not with people. It is started by the other commands, such as `cutaway`."
        )
    from ...engine import worker

    code = worker.main()
    with contextlib.suppress(OSError, ValueError):
        logging.shutdown()
        sys.stderr.flush()
    # A load cancelled in the middle may still be inside a library; Python would tear it down under its feet.
    os._exit(code if code is not None else exits.FAILED)
