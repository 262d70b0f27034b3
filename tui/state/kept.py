"""The requests that are still known, and how many of their tokens: the oldest go when there are too many."""

from __future__ import annotations

from collections import deque

import msgspec

from .labels import Letters
from .limits import Limits
from .request import RequestState


class KeptRequests:
    """Requests by name, oldest first, within `limits`."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.requests: dict[str, RequestState] = {}
        self.tokens = 0  # kept over all requests
        self._letters = Letters()
        self._with_candidates: deque[tuple[str, int, int]] = deque()

    def request(self, name: str) -> RequestState:
        """The request of that name, which is about to change; a new one is made, and an old one may go for it."""
        state = self.requests.get(name)
        if state is None:
            while len(self.requests) >= self.limits.requests:
                self._forget_one("")
            state = self.requests[name] = RequestState(name, self._letters.number(name), self.limits)
        state.version += 1
        return state

    def room(self, wanted: int, spare: str) -> int:
        """Make room for tokens by forgetting requests other than `spare`; returns how many may be kept."""
        while self.tokens + wanted > self.limits.tokens and self._forget_one(spare):
            pass
        return max(0, self.limits.tokens - self.tokens)

    def has_candidates(self, request: str, sample: int, index: int) -> None:
        """A token came with its candidates: those of the oldest tokens are given up, they are most of the memory."""
        self._with_candidates.append((request, sample, index))
        while len(self._with_candidates) > self.limits.candidates:
            self._strip(*self._with_candidates.popleft())

    def fail(self, why: str) -> None:
        """Whatever is not done will never be."""
        for state in self.requests.values():
            if not state.done:
                state.failure = why
                state.version += 1

    def letter_of(self, owner: str) -> str:
        """The one-cell mark of a request ("r1") or of an owner ("r1/0"); "?" for one that is not known."""
        state = self.requests.get(owner) or self.requests.get(owner.rpartition("/")[0])
        return state.letter if state else "?"

    def reserve_letter(self, request: str) -> None:
        """Give a request that is still to come the next free letter."""
        self._letters.number(request)

    def _forget_one(self, spare: str) -> bool:
        """Drop the oldest request, a finished one if there is; never `spare`. False: nothing left to drop."""
        others = [state for name, state in self.requests.items() if name != spare]
        if not others:
            return False
        victim = next((state for state in others if state.done), others[0])
        del self.requests[victim.request]
        self._letters.forget(victim.request)
        self.tokens -= victim.tokens_kept
        return True

    def _strip(self, request: str, number: int, index: int) -> None:
        state = self.requests.get(request)
        sample = state.samples.get(number) if state else None
        token = sample.tokens[index] if sample is not None and index < len(sample.tokens) else None
        if sample is not None and token is not None:
            sample.tokens[index] = msgspec.structs.replace(token, candidates=())
