"""Several replies on one output: the first is shown as it is written, those after it when their turn comes."""

from __future__ import annotations

import dataclasses

from ...engine.protocol import AnyEvent, Finished, TextDelta
from .output import Output

Owner = tuple[str, int]  # request, sample


@dataclasses.dataclass
class _Reply:
    heading: str
    waiting: list[str] = dataclasses.field(default_factory=list)
    ended: bool = False


class Replies:
    """Replies in the order in which they were begun."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._replies: dict[Owner, _Reply] = {}
        self._begun: set[str] = set()

    def begin(self, request: str, samples: int, heading: str = "") -> None:
        """Expect the replies of a request; `heading` comes before the first, a count before each of the others.

        Said again, it only changes a heading that is still to be shown.
        """
        if request in self._begun:
            first = self._replies.get((request, 0))
            if first is not None and first.heading:
                first.heading = heading
            return
        self._begun.add(request)
        for sample in range(samples):
            title = heading if sample == 0 else f"--- {sample + 1} of {samples} ---\n"
            self._replies[request, sample] = _Reply(title)

    def show(self, event: AnyEvent) -> None:
        """Show what this event adds, if it is its reply's turn, and every reply whose turn comes with it."""
        if not isinstance(event, (TextDelta, Finished)):
            return
        reply = self._replies.get((event.request, event.sample))
        if reply is None:
            return
        if isinstance(event, Finished):
            reply.ended = True
        elif event.channel == "answer":
            reply.waiting.append(event.text)
        while self._replies:
            owner, first = next(iter(self._replies.items()))
            self._write(first)
            if not first.ended:
                return
            del self._replies[owner]

    def rest(self) -> None:
        """Show what came of replies that never ended, and end the line."""
        for reply in self._replies.values():
            self._write(reply)
        self._output.end_line()
        self._replies.clear()

    def _write(self, reply: _Reply) -> None:
        if reply.heading:
            self._output.end_line()
        self._output.write(reply.heading + "".join(reply.waiting))
        reply.heading = ""
        reply.waiting.clear()
