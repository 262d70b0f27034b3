"""What the sampler costs a step, in milliseconds: `python benchmarks/sampler.py [threads]`.

Logits are random but shaped as a language model's; beside each line stands torch's own softmax, full sort and
multinomial for the same rows, the least that a sampler without inspection usually does.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch
from cutaway.engine.protocol import SamplingSettings
from cutaway.engine.sampler import RowRandom, Sampler, SampleRow

VOCABULARY = 49152
REPEATS = 80

KINDS: dict[str, dict[str, object]] = {
    "greedy": {"temperature": 0.0},
    "temperature 0.7": {"temperature": 0.7},
    "temperature 0.7, top-p 0.95": {"temperature": 0.7, "top_p": 0.95},
    "temperature 0.3, top-k 40, min-p 0.05": {"temperature": 0.3, "top_k": 40, "min_p": 0.05},
    "temperature 0.7, repetition 1.2": {"temperature": 0.7, "repetition_penalty": 1.2},
    "temperature 2": {"temperature": 2.0},
}


def model_like(rows: int) -> torch.Tensor:
    """Logits [rows, VOCABULARY] whose probabilities fall with rank to the power of -1.6."""
    generator = torch.Generator().manual_seed(0)
    ranked = -1.6 * torch.arange(1, VOCABULARY + 1).log()
    noise = 0.3 * torch.randn(rows, VOCABULARY, generator=generator)
    return torch.stack([(ranked + n)[torch.randperm(VOCABULARY, generator=generator)] for n in noise])


class Words:
    """Spells tokens from two tables, as the tokenizer does once it has seen them."""

    def __init__(self) -> None:
        self._pieces = [f"word {token}" for token in range(VOCABULARY)]
        self._bytes = [piece.encode() for piece in self._pieces]

    def piece(self, token: int) -> str:
        return self._pieces[token]

    def token_bytes(self, token: int) -> bytes:
        return self._bytes[token]


def made_rows(count: int, kind: dict[str, object]) -> list[SampleRow]:
    settings = SamplingSettings(**kind)  # type: ignore[arg-type]
    prompt, end, words = tuple(range(100, 164)), frozenset({2}), Words()
    return [SampleRow(settings, prompt, [], end, RowRandom(n), words, candidates=8) for n in range(count)]


def measure(run: Callable[[int], object]) -> tuple[float, float]:
    """Median and best, in milliseconds: on a busy machine the best tells the cost, the median the wait."""
    times: list[float] = []
    for number in range(REPEATS + 5):
        began = time.perf_counter()
        run(number)
        times.append((time.perf_counter() - began) * 1e3)
    kept = sorted(times[5:])
    return kept[len(kept) // 2], kept[0]


def sorted_draw(logits: torch.Tensor) -> list[int]:
    probs, ids = logits.softmax(-1).sort(-1, descending=True)
    return ids.gather(1, probs.multinomial(1)).flatten().tolist()


def main() -> None:
    torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    print(f"{VOCABULARY} tokens, {torch.get_num_threads()} thread(s); milliseconds a step: median (best)")
    print(f"{'':40}{'':>8}{'inspect off':>18}{'inspect on':>18}{'softmax+sort':>18}")
    sampler = Sampler()
    with torch.inference_mode():
        for count in (1, 16):
            logits = model_like(count)
            plain = measure(lambda _, logits=logits: sorted_draw(logits))
            for name, kind in KINDS.items():
                rows = made_rows(count, kind)

                def step(
                    number: int, inspect: bool, rows: list[SampleRow] = rows, logits: torch.Tensor = logits
                ) -> None:
                    for row in rows:
                        row.generated = range(number)
                    sampler.sample(logits, rows, inspect)

                times = [
                    measure(lambda n, step=step: step(n, False)),
                    measure(lambda n, step=step: step(n, True)),
                    plain,
                ]
                cells = "".join(f"{f'{median:.3f} ({best:.3f})':>18}" for median, best in times)
                print(f"{name:40}{f'{count} row' + 's' * (count > 1):>8}{cells}")


if __name__ == "__main__":
    main()
