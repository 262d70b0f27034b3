"""The tour without a reader: every chapter with both settings, and whether the comparisons come out as told. No
Textual."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable

from ...engine.errors import CutawayError
from ..session import Session
from .chapter import Row
from .comparison import shown_figure
from .errors import NotHereError
from .progress import Outcome, Tour
from .scripts import Play
from .stage import Stage

TRIES = 3  # of a chapter whose times come out the other way: a machine that is busy with something else


@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    """One chapter's outcomes; `skipped` tells why there are none."""

    play: Play
    first: Outcome | None = None
    second: Outcome | None = None
    skipped: str = ""

    @property
    def broken(self) -> list[Row]:
        """Rows whose direction does not hold."""
        if self.first is None or self.second is None:
            return []
        return self.play.chapter.broken(self.first.figures, self.second.figures)


@contextlib.asynccontextmanager
async def staged(session: Session, question: str, recorded: bool = False) -> AsyncIterator[Stage]:
    """A stage on an engine that is started here and ended after. Raises `StageError` if no model can be loaded."""
    link = asyncio.create_task(session.link.run())
    stage = Stage(session, question, "frame" if recorded else "receipt", recorded)
    stage.attach()
    try:
        await stage.ready()
        yield stage
    finally:
        stage.detach()
        link.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await link


async def walk(stage: Stage, plays: list[Play], tour: Tour, told: Callable[[str], None]) -> list[Checked]:
    """Run every chapter; `told` hears what is being done. Raises what `Stage.perform` does, but for `NotHereError`."""
    checked: list[Checked] = []
    tour.on(stage.model)
    for at, play in enumerate(plays):
        tour.jump(at)
        try:
            one = await _measured(stage, play, lambda name, at=at: told(f"{at + 1}/{len(plays)} {name}"))
        except NotHereError as error:
            checked.append(Checked(play, skipped=error.message))
        except CutawayError as error:
            error.message = f"Chapter {at + 1}, {play.chapter.title}: {error.message}"
            raise
        else:
            checked.append(one)
            for setting, outcome in zip(play.chapter.settings, (one.first, one.second), strict=True):
                assert outcome is not None
                tour.expose(play.chapter.name, setting.key, outcome)
    return checked


async def _measured(stage: Stage, play: Play, told: Callable[[str], None]) -> Checked:
    for _ in range(TRIES - 1):
        one = await _both(stage, play, told)
        if not any(row.unit in ("duration", "rate") for row in one.broken):
            return one
    return await _both(stage, play, told)


async def _both(stage: Stage, play: Play, told: Callable[[str], None]) -> Checked:
    outcomes: list[Outcome] = []
    for setting in play.chapter.settings:
        told(f"{play.chapter.title}: {setting.name}")
        outcomes.append(await stage.perform(play, setting.key))
    return Checked(play, outcomes[0], outcomes[1])


def table(checked: list[Checked]) -> str:
    """All comparisons as text."""
    lines: list[str] = []
    for number, one in enumerate(checked, 1):
        chapter = one.play.chapter
        first, second = chapter.settings
        lines.append(f"{number:>2}  {chapter.title:<36} {first.name:>24} {second.name:>24}")
        if one.first is None or one.second is None:
            lines.append(f"    skipped: {one.skipped}")
        else:
            broken = one.broken
            for row in chapter.rows:
                a, b = (shown_figure(row, outcome.figures[row.key]) for outcome in (one.first, one.second))
                mark = "" if not row.holds else "✗" if row in broken else "✓"
                lines.append(f"    {row.name:<36} {a:>24} {b:>24} {row.holds:>2} {mark}".rstrip())
        lines.append("")
    return "\n".join(lines)


def verdicts(checked: list[Checked]) -> list[str]:
    """A sentence for every direction that does not hold."""
    wrong: list[str] = []
    for one in checked:
        for row in one.broken:
            assert one.first is not None
            assert one.second is not None
            a, b = (shown_figure(row, outcome.figures[row.key]) for outcome in (one.first, one.second))
            first, second = one.play.chapter.settings
            wrong.append(
                f"{one.play.chapter.title}: {row.name} should be {first.name} {row.holds} {second.name}, "
                f"but was {a} and {b}."
            )
    return wrong
