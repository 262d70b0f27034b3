"""The sampler again, written the straightforward way: float64, everything sorted. And rows to try."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
from cutaway.engine.protocol import SamplingSettings
from cutaway.engine.sampler import Draw, RowRandom, Sampler, SampleRow


class Numbers:
    """Spells a token as its number."""

    def piece(self, token: int) -> str:
        return str(token)

    def token_bytes(self, token: int) -> bytes:
        return str(token).encode()


def make_row(
    prompt: Sequence[int] = (),
    generated: Sequence[int] = (),
    end: Sequence[int] = (),
    seed: int | None = 0,
    candidates: int = 64,
    **settings: object,
) -> SampleRow:
    """A row with short names; `settings` are those of `SamplingSettings`, temperature 1 if not given."""
    made = SamplingSettings(**{"temperature": 1.0, **settings})  # type: ignore[arg-type]
    return SampleRow(made, prompt, generated, frozenset(end), RowRandom(seed), Numbers(), candidates)


@dataclasses.dataclass
class Expected:
    """Per token [V]: raw log-probability, edited logit, tempered and final probability, cut; and the order of ids."""

    logprobs: np.ndarray
    edited: np.ndarray
    tempered: np.ndarray
    probs: np.ndarray
    cuts: list[str]
    order: list[int]
    edge: float  # how near the nearest token is to a filter's border

    @property
    def entropy_after(self) -> float:
        return entropy(self.probs)

    def token_at(self, number: float) -> int:
        """The token a uniform number falls on, walking down the order."""
        passed = 0.0
        for token in self.order:
            passed += self.probs[token]
            if passed > number:
                return token
        return max((t for t in self.order if self.probs[t] > 0), key=self.order.index)


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def entropy(probs: np.ndarray) -> float:
    positive = probs[probs > 0]
    return float(-(positive * np.log(positive)).sum())


def edited_logits(raw: np.ndarray, row: SampleRow) -> np.ndarray:
    settings, out = row.settings, raw.copy()
    for token, bias in settings.logit_bias.items():
        if token < len(out):
            out[token] += bias
    if settings.allowed_ids is not None:
        for token in range(len(out)):
            if token not in settings.allowed_ids:
                out[token] = -np.inf
    if len(row.generated) < settings.min_tokens:
        for token in row.end_ids:
            if token < len(out):
                out[token] = -np.inf
    for token in {*row.prompt_ids, *row.generated}:
        penalty = settings.repetition_penalty
        out[token] = out[token] / penalty if out[token] > 0 else out[token] * penalty
    for token in set(row.generated):
        out[token] -= settings.presence_penalty + settings.frequency_penalty * list(row.generated).count(token)
    return out


def expect(raw: np.ndarray, row: SampleRow) -> Expected:
    settings = row.settings
    raw = raw.astype(np.float64)
    edited = edited_logits(raw, row)
    with np.errstate(divide="ignore"):
        logprobs = np.log(softmax(raw))
    order = sorted(range(len(raw)), key=lambda token: (-edited[token], token))
    cuts = ["banned" if edited[token] == -np.inf else "" for token in range(len(raw))]
    if settings.temperature == 0:
        probs = np.zeros(len(raw))
        probs[order[0]] = 1.0
        cuts = [cut or ("" if token == order[0] else "greedy") for token, cut in enumerate(cuts)]
        return Expected(logprobs, edited, probs, probs, cuts, order, 1.0)

    tempered = softmax((edited - edited.max()) / settings.temperature)
    kept = [token for token in order if edited[token] > -np.inf]
    edge = 1.0
    if settings.min_p > 0:
        shares = {token: tempered[token] / tempered[order[0]] for token in kept}
        lower = [share for token, share in shares.items() if edited[token] < edited[order[0]]]
        edge = min([edge, *(abs(share - settings.min_p) for share in lower)])
        for token in kept:
            if shares[token] < settings.min_p:
                cuts[token] = "min_p"
        kept = [token for token in kept if not cuts[token]]
    if settings.top_k > 0:
        for token in kept[settings.top_k :]:
            cuts[token] = "top_k"
        kept = kept[: settings.top_k]
    if settings.top_p < 1:
        mass = sum(tempered[token] for token in kept)
        before = 0.0
        for token in kept:
            edge = min(edge, abs(before - settings.top_p)) if before else edge
            if before >= settings.top_p:
                cuts[token] = "top_p"
            before += tempered[token] / mass
        kept = [token for token in kept if not cuts[token]]
    probs = np.zeros(len(raw))
    probs[kept] = tempered[kept] / tempered[kept].sum()
    return Expected(logprobs, edited, tempered, probs, cuts, order, edge)


def draw_one(logits: np.ndarray | list[float], row: SampleRow, inspect: bool = True) -> Draw:
    tensor = torch.tensor(np.asarray(logits, dtype=np.float32))[None]
    return Sampler().sample(tensor, [row], inspect)[0]


def wide_logits(seed: int, rows: int, vocabulary: int, decay: float = 1.5) -> torch.Tensor:
    """Logits [rows, vocabulary] shaped as a language model's: probabilities fall as a power of the rank."""
    generator = torch.Generator().manual_seed(seed)
    made = torch.empty(rows, vocabulary)
    for row in made:
        noise = 0.3 * torch.randn(vocabulary, generator=generator)
        ranked = noise - decay * torch.arange(1, vocabulary + 1).log()
        row.copy_(ranked[torch.randperm(vocabulary, generator=generator)])
    return made


def mixed_rows(count: int) -> list[SampleRow]:
    """Rows of the most different kinds, so that every path is in one batch."""
    kinds = [
        {"temperature": 0.0},
        {"temperature": 0.7},
        {"temperature": 1.0, "top_p": 0.95},
        {"temperature": 1e17},
        {"temperature": 1.3, "top_k": 40, "min_p": 0.02},
        {"temperature": 0.8, "repetition_penalty": 1.3, "frequency_penalty": 0.5},
        {"temperature": 2.0, "top_p": 0.999},
        {"temperature": 0.9, "logit_bias": {11: 30.0}, "allowed_ids": tuple(range(5, 5000))},
        {"temperature": 0.0, "presence_penalty": 2.0, "min_tokens": 9},
        {"temperature": 1.0, "min_p": 1e-7},
        {"temperature": 1.0, "top_k": 700, "top_p": 0.9},
    ]
    return [
        make_row(
            prompt=tuple(range(n, n + 20)),
            generated=[n * 7 % 50, 3, 3, 4][: n % 5],
            end=(2, 3),
            seed=n,
            candidates=(8, 0, 20)[n % 3],
            **kinds[n % len(kinds)],
        )
        for n in range(count)
    ]
