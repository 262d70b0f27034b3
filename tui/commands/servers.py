"""Which server `--server` means: an address, or a name that stands for one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

import msgspec

from ...engine.client import own_command
from ...engine.errors import SettingError
from ...engine.remote.limits import USUAL, Limits
from ..settings.document import Server as Entry
from ..settings.document import load

_ADDRESS = re.compile(r"://|^localhost\b|^\[|[.:/]")


class Server(msgspec.Struct, frozen=True):
    """A server to talk to. `model` empty: the one that it has; `key_env` empty: see `engine.remote.keys.find`."""

    url: str
    model: str = ""
    key_env: str = ""
    limits: Limits = USUAL

    def command(self) -> list[str]:
        """The engine process that stands in for it."""
        key = ["--key-env", self.key_env] if self.key_env else []
        return own_command(*self._limits(), "--server", self.url, *key)

    def _limits(self) -> list[str]:
        """What differs from the engine's own limits, as its flags."""
        given = {"--first-token-limit-s": (self.limits.first_token_s, USUAL.first_token_s),
                 "--gap-limit-s": (self.limits.gap_s, USUAL.gap_s)}  # fmt: skip
        return [part for flag, (ours, theirs) in given.items() if ours != theirs for part in (flag, f"{ours:.0f}")]


class Patience(msgspec.Struct, frozen=True):
    """How long a server is waited for: as its entry says, else `limits`; what is in `fixed` holds for all of them."""

    limits: Limits = USUAL
    fixed: tuple[str, ...] = ()  # given by a flag or a variable

    def of(self, entry: Entry) -> Limits:
        """The limits of a server with this entry in the settings."""
        first = self._one("first_token_limit_s", entry.first_token_limit_s, self.limits.first_token_s)
        return Limits(first, self._one("gap_limit_s", entry.gap_limit_s, self.limits.gap_s))

    def _one(self, name: str, own: int | None, usual: float) -> float:
        return usual if own is None or name in self.fixed else own


AS_USUAL = Patience()


def named() -> Mapping[str, Entry]:
    """The servers that the user has given names."""
    return load().servers


def resolve(text: str, model: str = "", key_env: str = "", patience: Patience = AS_USUAL) -> Server | None:
    """The server that `text` names, with what the flags say put before what its entry says; None for no text.

    Raises `SettingError` for a name that stands for nothing and for an address that is none.
    """
    if not text:
        return None
    if _ADDRESS.search(text):
        from ...engine.remote.address import parse

        parse(text)
        return Server(text, model, key_env, patience.limits)
    entries = named()
    if text not in entries:
        near = difflib.get_close_matches(text, entries, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else "Give its address, such as http://localhost:8000/v1."
        raise SettingError("server", f"There is no server called {text!r} in the settings.", hint)
    entry = entries[text]
    return Server(entry.url, model or entry.model, key_env or entry.key_env, patience.of(entry))
