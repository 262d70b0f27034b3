"""Conversations as templates want them: turns joined, the system prompt folded in, when a template refuses."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """What one message says, and the message's index."""

    message: int
    content: str


@dataclasses.dataclass(frozen=True, slots=True)
class Turn:
    """One turn as the template gets it: usually one message, or several joined by a blank line each."""

    role: str
    parts: tuple[Part, ...]


Turns = tuple[Turn, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Repaired:
    """A conversation after zero or more repairs, each told in words."""

    turns: Turns
    repairs: tuple[str, ...] = ()


def repairs_of(turns: Turns) -> Iterator[Repaired]:
    """The conversation as it is, then repaired: those with fewer repairs first."""
    steps = (fold_system, begin_with_user, merge_same_roles)
    chosen = [c for size in range(len(steps) + 1) for c in itertools.combinations(steps, size)]
    seen: list[Turns] = []
    for combination in chosen:
        current = Repaired(turns)
        for step in combination:
            changed, told = step(current.turns)
            if told:
                current = Repaired(changed, (*current.repairs, told))
        if current.turns not in seen:
            seen.append(current.turns)
            yield current


def fold_system(turns: Turns) -> tuple[Turns, str]:
    """Put each system turn before the user turn that follows it, or make it a user turn of its own."""
    folded: list[Turn] = []
    for turn in turns:
        if folded and folded[-1].role == "system" and turn.role == "user":
            folded[-1] = Turn("user", (*folded[-1].parts, *turn.parts))
        else:
            folded.append(turn)
    changed = tuple(dataclasses.replace(turn, role="user") if turn.role == "system" else turn for turn in folded)
    if changed == turns:
        return turns, ""
    return changed, "The template takes no system role here, so the system prompt was put into the user turn after it."


def begin_with_user(turns: Turns) -> tuple[Turns, str]:
    """Put an empty user turn before an assistant turn that comes first."""
    first = next((at for at, turn in enumerate(turns) if turn.role != "system"), None)
    if first is None or turns[first].role != "assistant":
        return turns, ""
    changed = (*turns[:first], Turn("user", ()), *turns[first:])
    return changed, "The template wants the user to begin, so an empty user turn was put first."


def merge_same_roles(turns: Turns) -> tuple[Turns, str]:
    """Join neighbouring turns of the same role by a blank line."""
    merged: list[Turn] = []
    for turn in turns:
        if merged and merged[-1].role == turn.role:
            merged[-1] = Turn(turn.role, (*merged[-1].parts, *turn.parts))
        else:
            merged.append(turn)
    if len(merged) == len(turns):
        return turns, ""
    joined = [turn for turn in merged if turn not in turns]
    roles = " and ".join(dict.fromkeys(turn.role for turn in joined))
    return tuple(merged), (
        f"The template wants roles to alternate, so {roles} turns in a row were joined by a blank line "
        f"({'; '.join(_listed(turn.parts) for turn in joined)})."
    )


def _listed(parts: Sequence[Part]) -> str:
    numbers = [str(part.message + 1) for part in parts]
    return f"messages {', '.join(numbers[:-1])} and {numbers[-1]}" if len(numbers) > 1 else f"message {numbers[0]}"
