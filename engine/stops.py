"""Stop strings: searched in the text whatever pieces it comes in, and never half shown."""

from __future__ import annotations


class StopChecker:
    """Finds the first stop string to be complete; of those that end together, the longest.

    Each stop string has a Knuth-Morris-Pratt automaton (SIAM J. Comput. 6, 1977), so a character costs O(number of
    stop strings) however long they are, and the automata's states say exactly how much text to hold back.
    """

    def __init__(self, stop: tuple[str, ...] = ()) -> None:
        self.stop = tuple(dict.fromkeys(s for s in stop if s))
        self._failures = [_failures(s) for s in self.stop]
        self._states = [0] * len(self.stop)
        self._held = ""
        self.matched: str | None = None

    def push(self, text: str) -> tuple[str, str | None]:
        """Text that may be shown now, and the stop string found, after which no more text is taken."""
        if self.matched is not None:
            return "", self.matched
        held = self._held + text
        for at, character in enumerate(text, start=len(self._held) + 1):
            found = self._advance(character)
            if found is not None:
                self.matched, self._held = found, ""
                return held[: at - len(found)], found
        certain = len(held) - max(self._states, default=0)
        self._held = held[certain:]
        return held[:certain], None

    def skip(self, text: str) -> str:
        """Take `text` without searching it; returns what may be shown, which is all of it and all that was held."""
        held, self._held = self._held, ""
        self._states = [0] * len(self.stop)
        return held + text

    def flush(self) -> str:
        """The text held back, at the end of a reply that no stop string ended."""
        held, self._held = self._held, ""
        return held

    def _advance(self, character: str) -> str | None:
        found: str | None = None
        for which, (stop, failures) in enumerate(zip(self.stop, self._failures, strict=True)):
            state = self._states[which]
            while state and stop[state] != character:
                state = failures[state - 1]
            if stop[state] == character:
                state += 1
            self._states[which] = state
            if state == len(stop) and (found is None or len(stop) > len(found)):
                found = stop
        return found


def _failures(pattern: str) -> list[int]:
    """For each prefix of `pattern`, the length of its longest proper border."""
    failures = [0] * len(pattern)
    size = 0
    for at in range(1, len(pattern)):
        while size and pattern[at] != pattern[size]:
            size = failures[size - 1]
        if pattern[at] == pattern[size]:
            size += 1
        failures[at] = size
    return failures
