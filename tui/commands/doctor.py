"""`cutaway doctor`: what this machine has, how fast it is, and what to do about what is wrong."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from typing import Any

import click
import msgspec

from ...engine.errors import CutawayError
from ..doctor import folders, measuring, terminal
from ..doctor import machine as machines
from ..doctor.findings import Finding, conceal, lines
from ..settings.document import SettingsFile
from . import configured, exits
from .configured import Configured
from .flags import EngineFlags, engine_flags, engine_from
from .output import Output
from .progress import Progress


@click.command("doctor", cls=Configured)
@click.option("--no-measure", is_flag=True, help="Do not load a model and measure it.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@engine_flags
def command(no_measure: bool, as_json: bool, **values: Any) -> int:
    """Look at everything that cutaway needs, measure for five seconds, and say what to do about what is wrong.

    The exit code is 1 where something is wrong. The report is what a bug report needs and holds nothing private: the
    home folder is shown as ~, names of users and hosts are left out. Nothing is downloaded.

    \b
    Examples:
      cutaway doctor                        everything
      cutaway doctor --no-measure           without loading a model
      cutaway doctor --json > report.json   for a bug report
      cutaway doctor --engine "ssh gpu-box cutaway engine"   the machine behind another engine
    """
    flags = engine_from(values, inspect=False)
    found = asyncio.run(_examined(flags, measure=not no_measure))
    found += terminal.look(os.environ, sys.stdout.isatty(), sys.stdout.encoding or "")
    found = conceal(found + folders.look() + _settings(configured.settings().file))
    wrong = sum(finding.state == "wrong" for finding in found)
    if as_json:
        Output().write(msgspec.json.format(msgspec.json.encode({"wrong": wrong, "findings": found})).decode() + "\n")
    else:
        output = Output()
        columns = shutil.get_terminal_size().columns if output.terminal else 0
        output.write("\n".join([*lines(found, columns), "", _verdict(wrong)]) + "\n")
    return exits.FAILED if wrong else exits.OK


def _settings(file: SettingsFile) -> list[Finding]:
    """What is wrong in the settings file, without the values that stand there; or that nothing is."""
    if not file.problems:
        return [Finding("folders", "settings", str(file.path) if file.path.exists() else "none; the defaults hold")]
    told = [problem.partition(", not ")[0].rstrip(".") for problem in file.problems]
    return [Finding("folders", "settings", problem, "wrong", f"Correct it in {file.path}.") for problem in told]


def _verdict(wrong: int) -> str:
    if not wrong:
        return "Nothing is wrong."
    return f"{wrong} thing{'s are' if wrong > 1 else ' is'} wrong: see what the arrows say."


async def _examined(flags: EngineFlags, measure: bool) -> list[Finding]:
    """What the engine tells and does. What it can't is a finding, too."""
    progress = Progress(flags.load.model)
    found: list[Finding] = []
    try:
        examination = measuring.Examination(flags.engine(), progress.show)
        await examination.start()
        try:
            machine = await examination.machine()
            if machine is None:
                found.append(Finding(machines.GROUP, "engine", "it does not tell of its machine", "note"))
            else:
                found += machines.look(machine)
            if measure:
                found += await _measured(examination, flags)
        finally:
            await examination.close()
    except CutawayError as error:
        found.append(Finding(machines.GROUP, "engine", error.message, "wrong", error.action))
    finally:
        progress.clear()
    return found


async def _measured(examination: measuring.Examination, flags: EngineFlags) -> list[Finding]:
    try:
        card = await examination.load(msgspec.structs.replace(flags.load, offline=True))
        return await examination.measure(card)
    except CutawayError as error:
        return [measuring.not_measured(error)]
