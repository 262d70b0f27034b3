"""How long a reply may keep us waiting. A server may load a model or read a long prompt first, so both are generous."""

from __future__ import annotations

import msgspec

FIRST_TOKEN_S, GAP_S = 600, 300


class Limits(msgspec.Struct, frozen=True):
    """Seconds until the first token, and between two parts of a reply after it; 0 is no limit.

    A server's comments and empty events are no part of a reply.
    """

    first_token_s: float = FIRST_TOKEN_S
    gap_s: float = GAP_S

    def now(self, said: bool) -> float:
        """The limit in force, where something was `said` already or not yet."""
        return self.gap_s if said else self.first_token_s

    def waiting(self, said: bool, silent_s: float) -> str:
        """ "waiting for the server 12 s of 600" """
        limit = self.now(said)
        return f"waiting for the server {silent_s:.0f} s{f' of {limit:g}' if limit else ''}"

    def exceeded(self, said: bool) -> str:
        """Why a reply ended at a limit, with the setting that is to be raised for longer ones."""
        if said:
            return f"nothing more came from the server for {self.gap_s:g} s, the limit that gap_limit_s sets"
        return f"no token came from the server in {self.first_token_s:g} s, the limit that first_token_limit_s sets"


USUAL = Limits()
