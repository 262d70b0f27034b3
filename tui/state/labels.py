"""Letters for requests: A, B, C … in the order they are first met, never given to another one."""

from __future__ import annotations

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def letter(number: int) -> str:
    """The one-cell mark of the `number`-th request (from 0); repeats after 52."""
    return ALPHABET[number % len(ALPHABET)]


def name(number: int) -> str:
    """The mark in full, which never repeats: A … z, then A2 …"""
    turn = number // len(ALPHABET)
    return letter(number) + (str(turn + 1) if turn else "")


class Letters:
    """Hands out numbers to requests. A request that was forgotten and comes back gets a new number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._next = 0

    def number(self, request: str) -> int:
        """The request's number, given now if it has none."""
        if request not in self._numbers:
            self._numbers[request] = self._next
            self._next += 1
        return self._numbers[request]

    def forget(self, request: str) -> None:
        self._numbers.pop(request, None)

    def __len__(self) -> int:
        return len(self._numbers)
