"""One row of logits that a token is to be drawn from, and what has to be found out about it first."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .candidates import Spelling
from .guess import Wish
from .protocol import SamplingSettings
from .row_random import RowRandom
from .survey import LEADING, Ask

if TYPE_CHECKING:
    from .penalties import History


@dataclasses.dataclass(slots=True)
class SampleRow:
    """One row of logits to draw from. `generated` grows by the caller; its length is the index of the draw."""

    settings: SamplingSettings
    prompt_ids: Sequence[int]
    generated: Sequence[int]
    end_ids: frozenset[int]
    generator: RowRandom
    spelling: Spelling  # of what is reported
    candidates: int = 0  # leading tokens to report; 0: none
    history: History | None = None  # for penalties; made when needed, and worth keeping from step to step
    asked: tuple[SamplingSettings, bool, int, Ask] | None = None  # by settings, inspect, candidates; likewise


def wish(row: SampleRow, place: int, ask: Ask) -> Wish:
    """How a device is to guess what will be drawn at `place`."""
    settings = row.settings
    if settings.temperature == 0.0:
        return Wish(place)
    number = row.generator.at(len(row.generated))
    known = settings.temperature in ask.temperatures
    column = ask.temperatures.index(settings.temperature) if known else 0
    return Wish(place, settings.temperature, settings.min_p, settings.top_k, settings.top_p, number, column)


def _lead(row: SampleRow, inspect: bool) -> int:
    """Leading tokens to look at first. Depends on the row alone, never on the batch."""
    shown = row.candidates if inspect else 0
    if row.settings.temperature == 0.0:
        return max(shown, 1)
    return max(shown, min(row.settings.top_k or LEADING, LEADING))


def ask_before(row: SampleRow, inspect: bool, after: int | None) -> Ask:
    """What to find out about the model's own logits; `after` is where those after the edits are, None without edits."""
    raw = (1.0,) if inspect else ()
    if after is not None:
        return Ask(_lead(row, inspect) if inspect else 1, raw, after)
    asked, settings = row.asked, row.settings
    if asked is None or asked[0] is not settings or asked[1:3] != (inspect, row.candidates):
        temperatures = tuple(dict.fromkeys((*raw, *_tempered(row, inspect))))
        ask = Ask(_lead(row, inspect), temperatures, drawn_at=settings.temperature)
        row.asked = asked = settings, inspect, row.candidates, ask
    return asked[3]


def ask_after(row: SampleRow, inspect: bool, before: int) -> Ask:
    """What to find out about the logits after the edits; `before` is where the model's own are."""
    return Ask(_lead(row, inspect), _tempered(row, inspect), before, row.settings.temperature)


def _tempered(row: SampleRow, inspect: bool) -> tuple[float, ...]:
    """Temperature at which the mass of the whole row is needed: to show it, or because no filter bounds it."""
    settings = row.settings
    bounded = settings.top_k > 0 or settings.min_p > 0.0
    return () if settings.temperature == 0.0 or (bounded and not inspect) else (settings.temperature,)
