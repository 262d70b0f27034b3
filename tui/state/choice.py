"""Who answers a chat."""

from __future__ import annotations

import msgspec


class Choice(msgspec.Struct, frozen=True, omit_defaults=True):
    """A server, by its name in the settings or its address, and one of its models; no server: a model of this machine.

    A server's model may be empty: the one that it has.
    """

    server: str = ""
    model: str = ""

    def told(self) -> str:
        """ "m on box", "box" or "m", for a sentence."""
        return f"{self.model} on {self.server}" if self.server and self.model else self.server or self.model
