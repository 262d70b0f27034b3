"""Who gets how much of an iteration's token budget: pure functions."""

from __future__ import annotations

from collections.abc import Sequence as Items


def fair_shares(needs: Items[int], budget: int) -> list[int]:
    """Divide `budget` so that nobody gets more than needed and the smallest unmet share is as large as possible.

    Max-min fairness by progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2): a short prompt is never
    held up by a long one. What can't be divided goes to those named first.
    """
    shares = [0] * len(needs)
    left = budget
    order = sorted(range(len(needs)), key=needs.__getitem__)
    for place, index in enumerate(order):
        open_ = len(order) - place
        if needs[index] * open_ <= left:
            shares[index] = needs[index]
            left -= needs[index]
            continue
        share, extra = divmod(left, open_)
        for rank, unmet in enumerate(sorted(order[place:])):
            shares[unmet] = share + (rank < extra)
        break
    return shares


def take_turns(lengths: Items[int], budget: int) -> list[int]:
    """Indices of those who are served whole from `budget`: the first always, later ones if they still fit."""
    served: list[int] = []
    left = budget
    for index, length in enumerate(lengths):
        if not served or length <= left:
            served.append(index)
            left -= length
    return served
