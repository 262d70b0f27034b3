"""From logits to tokens: every row by its own settings and its own random numbers, and how it came about.

The order: bias, allowed ids and minimum tokens; penalties (`penalties.py`); greedy or temperature; min-p; top-k;
top-p; draw (`sampler_filters.py`). The whole vocabulary is never sorted unless a draw needs it (`survey.py`).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from . import kernels
from .candidates import Drawing, candidates
from .errors import NotANumberError, NoTokenLeftError
from .penalties import History, changes_logits, edit
from .protocol import Candidate
from .row_random import RowRandom
from .sample_row import SampleRow, ask_after, ask_before, wish
from .sampler_filters import Filters, Order
from .survey import HostSurvey, Look
from .survey_device import DeviceSurvey
from .survey_native import NativeSurvey
from .transfers import to_device

__all__ = ["Draw", "History", "RowRandom", "SampleRow", "Sampler", "Sampling"]


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
    candidates: tuple[Candidate, ...]


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


@dataclasses.dataclass(slots=True)
class Sampling:
    """Rows whose tokens are to be drawn, their logits looked at or on the way to be."""

    tables: list[Tensor]  # float32 [R, V] as the model gave them, then [E, V] of the `edited` rows
    rows: Sequence[SampleRow]
    edited: list[int]
    inspect: bool
    looks: Callable[[], list[Look]]
    guesses: Tensor | None = None  # [R] on the device, where asked for
    guessed: Callable[[], list[int]] = list  # the same, here
    wait: Callable[[], object] = lambda: None  # until the device has looked

    def draws(self) -> list[Draw]:
        """A token for each row; waits for the device. Raises as `Sampler.sample`."""
        looks = self.looks()
        _refuse(looks, len(self.rows), self.edited)
        places = _after(len(self.rows), self.edited)
        draws: list[Draw] = []
        for number, row in enumerate(self.rows):
            place = places[number]
            case = _Case(row, looks[number], looks[place], self._fetcher(number), self._fetcher(place))
            draws.append(
                _greedy(case, self.inspect) if row.settings.temperature == 0.0 else _random(case, self.inspect)
            )
        return draws

    def _fetcher(self, number: int) -> Callable[[], NDArray[np.float32]]:
        first = len(self.rows)
        table, place = (self.tables[0], number) if number < first else (self.tables[1], number - first)
        return lambda: table[place].cpu().numpy()


class Sampler:
    """Draws one token for each row of a batch. Not for use by several threads at once."""

    def __init__(self) -> None:
        library = kernels.at_hand()
        self._native = NativeSurvey(library) if library is not None else None
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
        return self.start(logits, rows, inspect).draws()

    def start(self, logits: Tensor, rows: Sequence[SampleRow], inspect: bool = True, guess: bool = False) -> Sampling:
        """The same in two parts: a device looks at the logits meanwhile, and with `guess` says what will be drawn.

        `logits` may be overwritten by what is launched afterwards. Only a device guesses.
        """
        if not rows:
            return Sampling([], rows, [], inspect, list)
        survey = self._survey(logits)
        logits = _own(logits.detach()) if isinstance(survey, DeviceSurvey) else _plain(logits)
        edited = [number for number, row in enumerate(rows) if changes_logits(row)]
        tables = [logits]
        if edited:
            where = to_device(edited, torch.int64, logits.device)
            tables.append(edit(logits[where], [rows[number] for number in edited]))  # indexing copies
        places = _after(len(rows), edited)
        afters = [place if place >= len(rows) else None for place in places]
        asks = [ask_before(row, inspect, after) for row, after in zip(rows, afters, strict=True)]
        asks += [ask_after(rows[number], inspect, number) for number in edited]
        if not isinstance(survey, DeviceSurvey):
            return Sampling(tables, rows, edited, inspect, functools.partial(survey.look, tables, asks))
        wishes = [wish(row, place, asks[place]) for row, place in zip(rows, places, strict=True)] if guess else []
        surveyed = survey.start(tables, asks, wishes)
        return Sampling(
            tables,
            rows,
            edited,
            inspect,
            surveyed.looks,
            surveyed.guesses,
            surveyed.guessed,
            surveyed.fetched.wait,
        )

    def _survey(self, logits: Tensor) -> HostSurvey | NativeSurvey | DeviceSurvey:
        if logits.device.type != "cpu":
            return self._device
        if self._native is not None:
            return self._native
        vocabulary = logits.shape[1]
        if vocabulary not in self._host:
            self._host = {vocabulary: HostSurvey(vocabulary)}
        return self._host[vocabulary]


def _own(logits: Tensor) -> Tensor:
    """`logits` as float32 in memory that no later step writes to."""
    return logits.clone() if logits.dtype == torch.float32 else logits.float()


def _plain(logits: Tensor) -> Tensor:
    """`logits` as float32, without a copy where they are: even a call of torch that does nothing takes its time."""
    return logits if logits.dtype == torch.float32 and not logits.requires_grad else logits.detach().float()


def _after(rows: int, edited: Sequence[int]) -> list[int]:
    """Where each row's logits after the edits are: itself, or beyond the rows."""
    places = list(range(rows))
    for place, number in enumerate(edited, start=rows):
        places[number] = place
    return places


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
        candidates=candidates(drawing, case.row.candidates, before, case.after, log_total, case.row.spelling),
    )


def _rank(case: _Case, drawing: Drawing) -> int:
    """1 + tokens with a larger raw logit, or an equal one and a lower id."""
    places = np.flatnonzero(case.before.ids == drawing.token)
    if len(places):
        return int(places[0]) + 1
    raw = case.fetch_before()
    larger = np.count_nonzero(raw > drawing.logit)
    return 1 + int(larger) + int(np.count_nonzero(raw[: drawing.token] == drawing.logit))
