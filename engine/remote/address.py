"""The address of a server, however it is spelled."""

from __future__ import annotations

import dataclasses
import ipaddress
from urllib.parse import urlsplit

from ..errors import SettingError

EXAMPLE = "For example http://localhost:8000/v1."
_ENDPOINTS = ("/chat/completions", "/completions", "/models", "/embeddings")


@dataclasses.dataclass(frozen=True, slots=True)
class Address:
    """Where an API may be: `bases` in the order to try, each followed by /models, /chat/completions and so on."""

    origin: str  # scheme, host and port
    bases: tuple[str, ...]

    @property
    def host(self) -> str:
        return urlsplit(self.origin).hostname or ""

    @property
    def loopback(self) -> bool:
        """Whether it names this machine, to which no proxy leads."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def root_of(base: str) -> str:
    """Where a server keeps what is its own (/tokenize, /metrics, /version): the base without its /v1."""
    return base.removesuffix("/v1")


def parse(text: str) -> Address:
    """Read an address with or without scheme, /v1, a final slash, an endpoint, or a proxy's path before it.

    Raises `SettingError` for what is no address, and for one with a password in it: that would be shown and logged.
    """
    given = text.strip()
    if "://" not in given:
        given = f"http://{given}"
    try:
        parts = urlsplit(given)
        port, host = parts.port, parts.hostname
        (host or "").encode("idna")  # as the resolver does: an empty or overlong label is a ValueError, too
    except ValueError:
        raise SettingError("server", f"{_shown(text)!r} is no address of a server.", EXAMPLE) from None
    if parts.scheme not in ("http", "https") or not host or not given.isprintable() or " " in given:
        raise SettingError("server", f"{_shown(text)!r} is no http or https address.", EXAMPLE)
    if "@" in parts.netloc:
        raise SettingError(
            "server",
            "The server's address must hold no user name or password: it is shown and logged.",
            "Put the key into an environment variable and name it by --key-env.",
        )
    if parts.query or parts.fragment:
        raise SettingError(
            "server",
            "The server's address must end before its ? or #.",
            "A key belongs into an environment variable, named by --key-env.",
        )
    host = f"[{host}]" if ":" in host else host
    origin = f"{parts.scheme}://{host}" + (f":{port}" if port else "")
    path = parts.path.rstrip("/")
    for endpoint in _ENDPOINTS:
        if path.endswith(endpoint):
            path = path.removesuffix(endpoint).rstrip("/")
            break
    paths = (path,) if path.endswith("/v1") else (f"{path}/v1", path)
    return Address(origin, tuple(origin + each for each in paths))


def _shown(text: str) -> str:
    """What an error may quote: nothing that stands before an @."""
    return text.rpartition("@")[2].strip()[:80]
