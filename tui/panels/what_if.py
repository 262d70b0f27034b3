"""What another temperature would have made of a token that was drawn already. Derived, never measured."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from ...engine.protocol import Candidate


def reweigh(candidates: Sequence[Candidate], temperature: float) -> tuple[Candidate, ...]:
    """The candidates as temperature alone, without filters, would have weighed them against each other.

    Softmax of logit / T over the reported candidates only: the tokens that were not reported are not known, so the
    shares are among those shown. T = 0 gives the top one everything.
    """
    if not candidates:
        return ()
    top = max(candidate.logit for candidate in candidates)
    if temperature <= 0:
        first = next(at for at, candidate in enumerate(candidates) if candidate.logit == top)
        weights = [float(at == first) for at in range(len(candidates))]
    else:
        weights = [math.exp((candidate.logit - top) / temperature) for candidate in candidates]
    total = math.fsum(weights)
    return tuple(
        msgspec.structs.replace(candidate, prob=weight / total, tempered=weight / total, cut="")
        for candidate, weight in zip(candidates, weights, strict=True)
    )
