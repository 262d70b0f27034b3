"""What happens to logits before temperature: bias, allowed ids, minimum tokens, then penalties. Torch, any device."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .protocol import SamplingSettings
from .transfers import to_device

LARGEST = torch.finfo(torch.float32).max
SMALLEST_PENALTY, LARGEST_PENALTY = 1e-30, 1e30  # beyond, float32 would make 0 * inf of a logit of 0


class History:
    """Which tokens a row has seen, and how often it generated each; follows `generated` as it grows.

    Kept from step to step (`SampleRow.history`) it costs one token a step instead of all of them.
    """

    def __init__(self, prompt_ids: Sequence[int]) -> None:
        self._prompt_ids = prompt_ids
        self._followed = -1

    def _restart(self) -> None:
        self._ids = np.unique(np.asarray(self._prompt_ids, dtype=np.int64))
        self._counts = np.zeros(len(self._ids), dtype=np.float32)
        self._slots = {token: slot for slot, token in enumerate(self._ids.tolist())}
        self._followed = 0
        self._last = -1

    def follow(self, generated: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Distinct ids of prompt and `generated` [n], and how often each was generated [n]."""
        done = self._followed
        if done < 0 or len(generated) < done or (done and generated[done - 1] != self._last):
            self._restart()
            done = 0
        for token in generated[done:]:
            slot = self._slots.setdefault(token, len(self._slots))
            if slot == len(self._ids):
                self._make_room()
            self._ids[slot] = token
            self._counts[slot] += 1
            self._last = token
        self._followed = len(generated)
        used = len(self._slots)
        return self._ids[:used], self._counts[:used]

    def _make_room(self) -> None:
        more = max(64, len(self._ids))
        self._ids = np.concatenate([self._ids, np.zeros(more, dtype=np.int64)])
        self._counts = np.concatenate([self._counts, np.zeros(more, dtype=np.float32)])


class Edited(Protocol):
    """What is needed of a row to edit its logits; `SampleRow` is one."""

    settings: SamplingSettings
    prompt_ids: Sequence[int]
    generated: Sequence[int]
    end_ids: frozenset[int]
    history: History | None


def penalises(settings: SamplingSettings) -> bool:
    return settings.repetition_penalty != 1.0 or settings.presence_penalty != 0.0 or settings.frequency_penalty != 0.0


def changes_logits(row: Edited) -> bool:
    """Whether `edit` would change anything for this row now."""
    settings = row.settings
    return bool(
        settings.logit_bias
        or settings.allowed_ids is not None
        or penalises(settings)
        or len(row.generated) < settings.min_tokens
    )


def edit(logits: Tensor, rows: Sequence[Edited]) -> Tensor:
    """Change float32 `logits` [R, V] in place, row by row as its settings say, and return them.

    A forbidden token becomes minus infinity. Ids outside the vocabulary are passed over. Repetition penalty
    divides positive and multiplies negative logits of tokens in prompt or reply (Keskar et al. 2019,
    arXiv:1909.05858); presence and frequency penalties are subtracted for generated tokens, once and per
    occurrence (the OpenAI API reference). Every step is elementwise: no row sees another.
    """
    _add_bias(logits, rows)
    _keep_allowed(logits, rows)
    _ban_early_ends(logits, rows)
    _penalise(logits, rows)
    return logits


def _known(ids: Collection[int], vocabulary: int) -> list[int]:
    return [token for token in ids if 0 <= token < vocabulary]


def _add_bias(logits: Tensor, rows: Sequence[Edited]) -> None:
    vocabulary = logits.shape[1]
    places: list[int] = []
    amounts: list[float] = []
    for number, row in enumerate(rows):
        bias: Mapping[int, float] = row.settings.logit_bias
        for token in _known(bias, vocabulary):
            places.append(number * vocabulary + token)
            amounts.append(bias[token])
    if places:
        where = to_device(places, torch.int64, logits.device)  # [n]
        logits.view(-1)[where] += to_device(amounts, torch.float32, logits.device)


def _keep_allowed(logits: Tensor, rows: Sequence[Edited]) -> None:
    for number, row in enumerate(rows):
        if row.settings.allowed_ids is not None:
            ids = _known(row.settings.allowed_ids, logits.shape[1])
            allowed = to_device(ids, torch.int64, logits.device)  # [n]
            kept = logits[number, allowed]  # [n], a copy
            logits[number].fill_(-torch.inf)
            logits[number, allowed] = kept


def _ban_early_ends(logits: Tensor, rows: Sequence[Edited]) -> None:
    vocabulary = logits.shape[1]
    places = [
        number * vocabulary + token
        for number, row in enumerate(rows)
        if len(row.generated) < row.settings.min_tokens
        for token in _known(row.end_ids, vocabulary)
    ]
    if places:
        logits.view(-1)[to_device(places, torch.int64, logits.device)] = -torch.inf


def _penalise(logits: Tensor, rows: Sequence[Edited]) -> None:
    vocabulary = logits.shape[1]
    places: list[NDArray[np.int64]] = []
    columns: list[NDArray[np.float32]] = []
    for number, row in enumerate(rows):
        settings = row.settings
        if not penalises(settings):
            continue
        if row.history is None:
            row.history = History(row.prompt_ids)
        ids, counts = row.history.follow(row.generated)
        inside = (ids >= 0) & (ids < vocabulary)
        ids, counts = ids[inside], counts[inside]
        repetition = min(max(settings.repetition_penalty, SMALLEST_PENALTY), LARGEST_PENALTY)
        fixed = settings.presence_penalty * (counts > 0) + settings.frequency_penalty * counts
        places.append(number * vocabulary + ids)
        columns.append(np.stack([np.full(len(ids), repetition, np.float32), fixed.astype(np.float32)]))
    if places:
        where = to_device(np.concatenate(places), torch.int64, logits.device)  # [n]
        repetition, fixed = to_device(np.concatenate(columns, axis=1), torch.float32, logits.device)  # each [n]
        flat = logits.view(-1)
        values = flat[where]
        values = torch.where(values > 0, values / repetition, values * repetition) - fixed
        flat[where] = values.clamp(max=LARGEST)
