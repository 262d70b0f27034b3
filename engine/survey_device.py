"""Looking at rows of logits where they are, all at once, with one copy to the host."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from .guess import Wish, guess
from .survey import COLDEST, FLOOR, HOTTEST, NO_LOGITS, Ask, Look, Mass
from .transfers import Fetched, to_device


def leading_on_device(logits: Tensor, count: int) -> Tensor:
    """Ids [R, count] of the largest of `logits` [R, V], descending, equal ones by lower id.

    Each logit and its id make one 64-bit key, since `topk` alone leaves the order of equal values open.
    """
    if count == 1:
        return logits.argmax(dim=-1, keepdim=True)
    bits = (logits + 0.0).view(torch.int32)  # [R, V]; adding 0 makes 0.0 of -0.0
    ascending = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()  # orders as the floats do
    last = logits.shape[1] - 1
    keys = (ascending << 32) | (last - torch.arange(last + 1, device=logits.device))
    return last - (keys.topk(count, dim=-1).values & 0xFFFFFFFF)


def tree_sum(values: Tensor) -> Tensor:
    """Sum of `values` [R, N] over the last dimension, [R], by adding halves.

    Elementwise additions alone, so that the result does not depend on R, which reduction kernels do not promise.
    """
    while (length := values.shape[1]) > 1:
        half = (length + 1) // 2
        folded = values[:, :half].clone()
        folded[:, : length - half] += values[:, half:]
        values = folded
    return values[:, 0]


@dataclasses.dataclass(slots=True)
class Surveyed:
    """Looks on their way from the device, and the tokens it guesses will be drawn: [W] int32, where wished."""

    asks: Sequence[Ask]
    vocabulary: int
    count: int  # leading tokens of every row
    fetched: Fetched  # int32: the rows [R, 3K + 1 + 2D], then the guesses [W]
    guesses: Tensor | None

    def looks(self) -> list[Look]:
        """One look a row. Waits for the device."""
        everything = self.fetched.wait()
        guessed = 0 if self.guesses is None else len(self.guesses)
        packed = everything[: len(everything) - guessed].reshape(len(self.asks), -1)
        found = packed[:, self.count :].view(np.float32)  # [R, 2K + 1 + 2D]
        return [_look(packed[row, : self.count], found[row], ask, self.vocabulary) for row, ask in enumerate(self.asks)]

    def guessed(self) -> list[int]:
        """The guesses, here. Waits for the device."""
        return [] if self.guesses is None else self.fetched.wait()[-len(self.guesses) :].tolist()


class DeviceSurvey:
    """Looks at rows in device memory. Twin of `HostSurvey`."""

    def look(self, tables: Sequence[Tensor], asks: Sequence[Ask]) -> list[Look]:
        """One look a row of `tables` (float32 [R, V] each, numbered through), as `asks` wants it."""
        return self.start(tables, asks).looks()

    def start(self, tables: Sequence[Tensor], asks: Sequence[Ask], wishes: Sequence[Wish] = ()) -> Surveyed:
        """The same without waiting for the device, and a guess for each of `wishes`."""
        logits = tables[0] if len(tables) == 1 else torch.cat(list(tables))  # [R, V]
        vocabulary = logits.shape[1]
        device = logits.device
        count = min(max(ask.lead for ask in asks), vocabulary)
        ids = leading_on_device(logits, count)  # [R, K]
        top = logits.amax(dim=-1, keepdim=True)  # [R, 1]
        partners = [ask.partner if ask.partner >= 0 else row for row, ask in enumerate(asks)]
        offsets = to_device(partners, torch.int64, device)[:, None] * vocabulary  # [R, 1]
        floats = [logits.gather(1, ids), logits.reshape(-1)[offsets + ids], top]

        depth = max(len(ask.temperatures) for ask in asks)
        columns = [[*ask.temperatures, *[1.0] * (depth - len(ask.temperatures))] for ask in asks]
        bounded = [[min(max(temperature, COLDEST), HOTTEST) for temperature in column] for column in columns]
        divisors = to_device(bounded, torch.float32, device)  # [R, D]
        differences = logits - top if depth else logits
        for column in range(depth):
            scaled = (differences / divisors[:, column : column + 1]).clamp_(min=FLOOR)  # [R, V]
            weights = scaled.exp()
            floats += [tree_sum(weights)[:, None], tree_sum(weights * scaled)[:, None]]

        packed = torch.cat([ids.int(), torch.cat(floats, dim=1).view(torch.int32)], dim=1).view(-1)
        guesses = None
        if wishes:
            totals = torch.cat(floats[3::2], dim=1) if depth else floats[0][:, :0]  # [R, D]
            guesses = guess(ids, floats[0], totals, wishes).int()
            packed = torch.cat([packed, guesses])
        return Surveyed(asks, vocabulary, count, Fetched(packed), guesses)


def _look(ids: np.ndarray, found: np.ndarray, ask: Ask, vocabulary: int) -> Look:
    count = len(ids)
    lead = min(ask.lead, count)
    lead = int(np.count_nonzero(found[:lead] > -np.inf))
    sums = found[2 * count + 1 :].tolist()
    masses = {
        temperature: Mass(sums[2 * column], sums[2 * column + 1]) for column, temperature in enumerate(ask.temperatures)
    }
    return Look(
        top=float(found[2 * count]),
        ids=ids[:lead].astype(np.int64),
        logits=found[:lead],
        complete=lead < min(ask.lead, vocabulary) or lead == vocabulary,
        masses=masses,
        partner=found[count : count + lead] if ask.partner >= 0 else NO_LOGITS,
    )
