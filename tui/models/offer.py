"""What a server offers, as a row of the picker."""

from __future__ import annotations

import dataclasses

from ...engine.models.shelf import Entry
from ..state.choice import Choice


@dataclasses.dataclass(frozen=True)
class Offer(Entry):
    """A server, or one of its models: nothing of it is on this machine, and nothing has to be fetched."""

    choice: Choice = dataclasses.field(default_factory=Choice)

    @classmethod
    def of(cls, choice: Choice, about: str) -> Offer:
        spec = choice.model or choice.server
        return cls(spec, spec, 0, "", kept=True, about=about, choice=choice)


def choice_of(entry: Entry) -> Choice:
    """What it is to choose this row."""
    return entry.choice if isinstance(entry, Offer) else Choice("", entry.spec)
