"""What can go wrong between us and a server, each in one sentence with the thing to do."""

from __future__ import annotations

import ssl

import httpx2
import msgspec

from ..errors import CutawayError
from .answers import error_text
from .keys import VARIABLE, Key, KeyMissing


class Unreachable(CutawayError):
    """No server answers: it may come back, so it is asked again."""

    kind = "unreachable"


class ServerTrouble(CutawayError):
    """The server answers, but not as such a server does."""

    kind = "server"


class Refusal(CutawayError):
    """The server does not take this request. `status` is HTTP's; `param` the parameter it names."""

    kind = "prompt"

    def __init__(self, status: int, message: str, action: str = "", param: str = "") -> None:
        super().__init__(message, action)
        self.status = status
        self.param = param


def unreachable(error: Exception, base: str) -> Unreachable:
    """What to tell about a request that got no answer."""
    reason, action = _reason(error), "Start it, or check its address."
    if isinstance(error, httpx2.RemoteProtocolError) and base.startswith("http://"):
        action = "If it speaks https, say https:// in its address."
    elif _tls(error):
        action = "If it speaks plain http, say http:// in its address."
    return Unreachable(f"No server answers at {base}: {reason}.", action)


def _tls(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError) or "SSL" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _reason(error: Exception) -> str:
    if isinstance(error, httpx2.ConnectTimeout):
        return "it does not take the connection"
    text = str(error)
    if "Name or service not known" in text or "nodename nor servname" in text or "getaddrinfo" in text:
        return "there is no host of that name"
    if isinstance(error, httpx2.ConnectError) and ("refused" in text or "All connection attempts failed" in text):
        return "the connection was refused"
    if isinstance(error, httpx2.RemoteProtocolError):
        return "it hung up without an HTTP answer"
    return (text or type(error).__name__).strip().rstrip(".")[:200]


def refused_key(status: int, told: str, key: Key, variable: str) -> KeyMissing:
    """What to tell about a 401 or 403."""
    quoted = f": {key.redact(told).rstrip('.')}" if told else ""
    if not key.secret:
        return KeyMissing(
            f"The server wants a key ({status}{quoted}).",
            f"Export it as {VARIABLE}, or name its variable by --key-env.",
        )
    where = f"${variable}" if variable else key.source
    return KeyMissing(f"The server refuses the key from {where} ({status}{quoted}).", f"Correct {where}.")


def refusal(status: int, body: bytes, key: Key, variable: str) -> CutawayError:
    """What to tell about an answer that is no success: a `Refusal`, `KeyMissing`, or `ServerTrouble` from 500 on."""
    told, param = "", ""
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        decoded = None
    if isinstance(decoded, dict):
        error = decoded.get("error") or decoded.get("detail") or decoded
        told = key.redact(error_text(error))[:400]
        if isinstance(error, dict) and isinstance(error.get("param"), str):
            param = error["param"]
    if status in (401, 403):
        return refused_key(status, told, key, variable)
    sentence = told.rstrip(".") or f"it answers {status} without a reason"
    if status == 429:
        return ServerTrouble(f"The server takes no more requests for now: {sentence}.", "Wait, then ask again.")
    if status >= 500:
        return ServerTrouble(f"The server failed ({status}): {sentence}.", "Its own log tells more.")
    return Refusal(status, f"The server refuses this request: {sentence}.", param=param)
