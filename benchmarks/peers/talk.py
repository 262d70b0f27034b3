"""The loop of every peer's driver: a JSON order a line on standard input, a JSON answer a line on standard output.

An order is {"prompts": [[ids], …], "new": n, "fresh": true}: read all prompts at once, write n tokens to each, greedily
and whatever they are. `fresh` forgets every earlier prompt first. The answer is {"first_s", "total_s"}: seconds until
every prompt has its first token, and until all is written.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Protocol


class Peer(Protocol):
    """An engine with its model loaded."""

    def run(self, prompts: Sequence[Sequence[int]], new: int, fresh: bool) -> tuple[float, float]:
        """Carry out one order; returns `first_s` and `total_s`."""
        ...


def serve(start: Callable[[], Peer]) -> None:
    """Start a peer, say so, and carry out orders until standard input ends. Only answers go to standard output."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints goes elsewhere
    peer = start()
    print(json.dumps({"ready": True}), file=answers)
    for line in sys.stdin:
        order = json.loads(line)
        first, total = peer.run(order["prompts"], order["new"], order["fresh"])
        print(json.dumps({"first_s": first, "total_s": total}), file=answers)
