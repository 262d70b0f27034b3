"""From logits to tokens: every row by its own settings and its own random numbers, and how it came about.

The order: bias, allowed ids and minimum tokens; penalties (`penalties.py`); greedy or temperature; min-p; top-k;
top-p; draw (`sampler_filters.py`). The whole vocabulary is never sorted unless a draw needs it (`survey.py`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from . import kernels
from .candidates import CandidateRow, Drawing, candidate_rows
from .errors import NotANumberError, NoTokenLeftError
from .penalties import History, changes_logits, edit
from .protocol import SamplingSettings
from .row_random import RowRandom
from .sampler_filters import Filters, Order
from .survey import Ask, HostSurvey, Look
from .survey_device import DeviceSurvey

__all__ = ["CandidateRow", "Draw", "History", "RowRandom", "SampleRow", "Sampler"]

LEADING = 128  # tokens looked at first when drawing; a row whose mass reaches further looks further


@dataclasses.dataclass(slots=True)
class SampleRow:
    """One row of logits to draw from. `generated` grows by the caller; its length is the index of the draw."""

    settings: SamplingSettings
    prompt_ids: Sequence[int]
    generated: Sequence[int]
    end_ids: frozenset[int]
    generator: RowRandom
    candidates: int = 0  # leading tokens to report; 0: none
    history: History | None = None  # for penalties; made when needed, and worth keeping from step to step


class Draw(msgspec.Struct, frozen=True):
    """A drawn token. Without inspection only `id`, `prob` and `draw` are known.

    `rank` is by raw logit from 1, 0 if not known; entropies are in nats; `draw` is None for greedy.
    """

    id: int
    logprob: float | None
    rank: int
    prob: float
    entropy: float
    entropy_after: float
    draw: float | None
    candidates: tuple[CandidateRow, ...]


@dataclasses.dataclass(slots=True)
class _Case:
    """What is known of one row when its token is chosen: before and after the edits, the same where there are none."""

    row: SampleRow
    before: Look
    after: Look
    fetch_before: Callable[[], NDArray[np.float32]]
    fetch_after: Callable[[], NDArray[np.float32]]

    @property
    def edited(self) -> bool:
        return self.before is not self.after


class Sampler:
    """Draws one token for each row of a batch. Not for use by several threads at once."""

    def __init__(self) -> None:
        self._host: dict[int, HostSurvey] = {}  # by vocabulary
        self._device = DeviceSurvey()

    def sample(self, logits: Tensor, rows: Sequence[SampleRow], inspect: bool = True) -> list[Draw]:
        """Draw a token for each row of `logits` [R, V] (any float type, any device; left unchanged).

        Row i uses `rows[i]` alone: the result is the same, bit for bit, in any batch. The k-th generated token uses
        the k-th number of the row's generator. With `inspect` off, log-probabilities, ranks, entropies and
        candidates are left out.

        Raises `NotANumberError` for NaN, plus infinity or nothing but minus infinity, and `NoTokenLeftError` where
        settings forbid every token; both name the rows, and nothing has been drawn.
        """
        if not rows:
            return []
        logits = logits.detach().float()
        edited = [number for number, row in enumerate(rows) if changes_logits(row)]
        tables = [logits]
        if edited:
            tables.append(edit(logits[edited], [rows[number] for number in edited]))  # indexing copies
        afters = {number: len(rows) + place for place, number in enumerate(edited)}
        asks = [_ask_before(row, inspect, afters.get(number)) for number, row in enumerate(rows)]
        asks += [_ask_after(rows[number], inspect, number) for number in edited]
        looks = self._survey(logits).look(tables, asks)
        _refuse(looks, len(rows), edited)

        def fetcher(number: int) -> Callable[[], NDArray[np.float32]]:
            table, place = (tables[0], number) if number < len(rows) else (tables[1], number - len(rows))
            return lambda: table[place].cpu().numpy()

        draws: list[Draw] = []
        for number, row in enumerate(rows):
            after = afters.get(number, number)
            case = _Case(row, looks[number], looks[after], fetcher(number), fetcher(after))
            draws.append(_greedy(case, inspect) if row.settings.temperature == 0.0 else _random(case, inspect))
        return draws

    def _survey(self, logits: Tensor) -> HostSurvey | DeviceSurvey:
        if logits.device.type != "cpu":
            return self._device
        vocabulary = logits.shape[1]
        if vocabulary not in self._host:
            self._host = {vocabulary: HostSurvey(vocabulary, kernels.load())}
        return self._host[vocabulary]


def _lead(row: SampleRow, inspect: bool) -> int:
    """Leading tokens to look at first. Depends on the row alone, never on the batch."""
    shown = row.candidates if inspect else 0
    if row.settings.temperature == 0.0:
        return max(shown, 1)
    return max(shown, min(row.settings.top_k or LEADING, LEADING))


def _ask_before(row: SampleRow, inspect: bool, after: int | None) -> Ask:
    raw = (1.0,) if inspect else ()
    if after is None:
        temperatures = dict.fromkeys((*raw, *_tempered(row, inspect)))
        return Ask(_lead(row, inspect), tuple(temperatures))
    return Ask(_lead(row, inspect) if inspect else 1, raw, after)


def _ask_after(row: SampleRow, inspect: bool, before: int) -> Ask:
    return Ask(_lead(row, inspect), _tempered(row, inspect), before)


def _tempered(row: SampleRow, inspect: bool) -> tuple[float, ...]:
    """Temperature at which the mass of the whole row is needed: to show it, or because no filter bounds it."""
    settings = row.settings
    bounded = settings.top_k > 0 or settings.min_p > 0.0
    return () if settings.temperature == 0.0 or (bounded and not inspect) else (settings.temperature,)


def _refuse(looks: Sequence[Look], rows: int, edited: Sequence[int]) -> None:
    bad = tuple(number for number, look in enumerate(looks[:rows]) if not math.isfinite(look.top))
    if bad:
        top = looks[bad[0]].top
        what = "NaN" if math.isnan(top) else "infinite" if top > 0 else "only minus-infinite"
        raise NotANumberError(
            bad,
            f"The model gave {what} logits, so no token can be drawn (row {bad[0]} of {rows}).",
            "Load it with --precision float32; if that does not help, its weights are damaged.",
        )
    empty = tuple(edited[place] for place, look in enumerate(looks[rows:]) if not math.isfinite(look.top))
    if empty:
        raise NoTokenLeftError(
            empty,
            "allowed_ids and min_tokens together leave no token to draw.",
            "Allow a token that is no end token, or set min_tokens to 0.",
        )


def _greedy(case: _Case, inspect: bool) -> Draw:
    token = int(case.after.ids[0])
    if not inspect:
        return Draw(token, None, 0, 1.0, 0.0, 0.0, None, ())
    raw = case.after.partner if case.edited else case.after.logits
    return _told(case, Drawing(token, float(raw[0]), 0, 0.0), 1.0, 0.0, None)


def _random(case: _Case, inspect: bool) -> Draw:
    settings, after = case.row.settings, case.after
    mass = after.masses.get(settings.temperature)
    order = Order(after, settings.temperature, mass.total if mass else math.nan, case.fetch_after)
    filters = Filters(order, settings)
    number = case.row.generator.at(len(case.row.generated))
    place = filters.draw(number)
    token = int(order.ids[place])
    prob = float(order.weights[place]) / filters.mass
    if not inspect:
        return Draw(token, None, 0, prob, 0.0, 0.0, number, ())
    raw = after.partner if case.edited else after.logits
    logit = float(raw[place] if place < len(raw) else case.fetch_before()[token])
    entropy = filters.entropy()
    if entropy is None:
        entropy = after.masses[settings.temperature].entropy
    return _told(case, Drawing(token, logit, place, settings.temperature, order, filters), prob, entropy, number)


def _told(case: _Case, drawing: Drawing, prob: float, entropy: float, number: float | None) -> Draw:
    before = case.before
    mass = before.masses[1.0]
    log_total = before.top + math.log(mass.total)
    return Draw(
        id=drawing.token,
        logprob=drawing.logit - log_total,
        rank=_rank(case, drawing) if case.edited else drawing.place + 1,
        prob=prob,
        entropy=mass.entropy,
        entropy_after=entropy,
        draw=number,
        candidates=candidate_rows(drawing, case.row.candidates, before, case.after, log_total),
    )


def _rank(case: _Case, drawing: Drawing) -> int:
    """1 + tokens with a larger raw logit, or an equal one and a lower id."""
    places = np.flatnonzero(case.before.ids == drawing.token)
    if len(places):
        return int(places[0]) + 1
    raw = case.fetch_before()
    larger = np.count_nonzero(raw > drawing.logit)
    return 1 + int(larger) + int(np.count_nonzero(raw[: drawing.token] == drawing.logit))
