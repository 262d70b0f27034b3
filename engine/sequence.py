"""A sequence: one sample of one request, as the scheduler sees it. Pure Python, no torch."""

from __future__ import annotations

import dataclasses
import enum


class Status(enum.Enum):
    WAITING = "waiting"
    RUNNING = "running"
    PADDING = "padding"  # finished, but a static batch keeps its lane
    FINISHED = "finished"


@dataclasses.dataclass(eq=False, slots=True)
class Sequence:
    """Tokens, how many of them have keys and values in pages, and which pages.

    The scheduler owns `status`, `lane`, `block_table`, `computed`, `cached`, `preemptions`, `overtaken` and what
    follows them; the core appends to `tokens`.
    """

    request: str
    sample: int
    tokens: list[int]  # prompt, then what was generated
    prompt_length: int
    max_length: int  # tokens it may have at most: prompt + max_tokens, within the window
    status: Status = Status.WAITING
    lane: int = -1
    block_table: list[int] = dataclasses.field(default_factory=list)
    computed: int = 0  # positions [0, computed) have keys and values in the block table's pages
    cached: int = 0  # of which the prefix cache gave at the first admission
    preemptions: int = 0
    overtaken: int = 0
    arrival: int = 0  # order of arrival, given by the scheduler
    remains: tuple[tuple[int, int], ...] = ()  # (page, generation) of its computed pages, once it has finished
    chain: list[bytes] = dataclasses.field(default_factory=list)  # names of its full pages, made when first needed

    @property
    def key(self) -> str:
        """ "request/sample": the owner's name in page and lane events."""
        return f"{self.request}/{self.sample}"

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def generated(self) -> list[int]:
        return self.tokens[self.prompt_length :]
