"""The key of a server: where it comes from, and how it is kept out of everything that is shown or written."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping

from ..errors import CutawayError
from .address import Address

VARIABLE = "CUTAWAY_API_KEY"
SERVICE = "cutaway"  # in the system's keyring; the account is the server's origin, such as http://gpu-box:8000
HIDDEN = "[key]"
_TELLING = 8  # leading characters that give a key away
_REST = r"""[^\s"'`,;)\]}]*"""  # of a key that is quoted in part
_OPENAI = ("api.openai.com", "OPENAI_API_KEY")


class KeyMissing(CutawayError):
    """A key that should be there, or was refused."""

    kind = "key"


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """A key and the name of where it came from. Its text shows in no representation."""

    secret: str = dataclasses.field(default="", repr=False)
    source: str = ""  # "$CUTAWAY_API_KEY", "the keyring", or empty: there is none

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.secret}"} if self.secret else {}

    def redact(self, text: str) -> str:
        """`text` without the key, also where a server quotes only its beginning."""
        beginning = self.secret[:_TELLING]
        if not self.secret or beginning not in text:
            return text
        # In one go: what stands for a key may hold a short one itself, such as "key".
        return re.sub(rf"{re.escape(self.secret)}|{re.escape(beginning)}{_REST}", lambda _: HIDDEN, text)


def find(address: Address, variable: str = "", environment: Mapping[str, str] | None = None) -> Key:
    """The key for a server: from `variable` if one is named, else $CUTAWAY_API_KEY, else the system's keyring.

    $OPENAI_API_KEY is taken for OpenAI's own host alone: no other server shall be sent it. Raises `KeyMissing` where
    `variable` is named and not set, or holds what no header can carry.
    """
    values = os.environ if environment is None else environment
    if variable:
        if not values.get(variable, "").strip():
            raise KeyMissing(f"The variable {variable} that should hold the server's key is not set.", "Export it.")
        return _checked(values[variable], f"${variable}")
    names = [VARIABLE] + ([_OPENAI[1]] if address.host == _OPENAI[0] else [])
    for name in names:
        if values.get(name, "").strip():
            return _checked(values[name], f"${name}")
    secret = _from_keyring(address.origin)
    return _checked(secret, "the keyring") if secret else Key()


def _checked(secret: str, source: str) -> Key:
    secret = secret.strip()
    if not (secret.isascii() and secret.isprintable()):
        raise KeyMissing(f"The key in {source} holds characters that no HTTP header can carry.", "Set it again.")
    return Key(secret, source)


def _from_keyring(origin: str) -> str:
    try:
        import keyring  # pyright: ignore[reportMissingImports] - an optional extra
    except ImportError:
        return ""
    try:
        return keyring.get_password(SERVICE, origin) or ""
    except Exception:  # a locked or broken keyring has its own kinds of errors, and a key may not be needed at all
        return ""
