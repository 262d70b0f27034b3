"""HTTP to one server: the key in every request and in no log, and no limit of time but one for the connection."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import AsyncIterator

import httpx2

from .address import Address
from .keys import Key
from .troubles import unreachable

CONNECT = 10.0  # seconds until a host that says nothing counts as away; there is no other limit
ASIDE = 5.0  # seconds for what is only nice to know: versions, metrics, tokens of a prompt

for _noisy in ("httpx2", "httpcore2"):  # they log addresses and headers
    logging.getLogger(_noisy).setLevel(logging.WARNING)


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    body: bytes
    server: str = ""  # the header of that name
    location: str = ""  # where a redirect leads

    @property
    def good(self) -> bool:
        return self.status == 200


class Connection:
    """Requests to one server. Raises `Unreachable` for what gets no answer."""

    def __init__(self, address: Address, key: Key) -> None:
        self.address = address
        self.key = key
        self._client = httpx2.AsyncClient(
            headers={**key.headers, "User-Agent": "cutaway", "Accept-Encoding": "identity"},
            timeout=httpx2.Timeout(None, connect=CONNECT),
            # As many streams at once as there are requests; the server queues.
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=16, keepalive_expiry=4.0),
            trust_env=not address.loopback,
            follow_redirects=False,
        )

    @property
    def exposed(self) -> bool:
        """Whether the key is sent in the clear to another machine."""
        return bool(self.key.secret) and self.address.origin.startswith("http://") and not self.address.loopback

    async def get(self, url: str, aside: bool = True) -> Answer:
        """`aside`: give up soon."""
        return await self._whole("GET", url, None, aside)

    async def post(self, url: str, body: bytes, aside: bool = True) -> Answer:
        return await self._whole("POST", url, body, aside)

    @contextlib.asynccontextmanager
    async def stream(self, url: str, body: bytes) -> AsyncIterator[httpx2.Response]:
        """The answer to a posted JSON body, its bytes still to come. It waits as long as the server needs."""
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
        request = self._client.build_request("POST", url, content=body, headers=headers)
        try:
            response = await self._send(request)
        except httpx2.TransportError as error:
            raise unreachable(error, url.removesuffix("/completions").removesuffix("/chat")) from None
        try:
            yield response
        finally:
            await response.aclose()

    async def close(self) -> None:
        await self._client.aclose()

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        try:
            return await self._client.send(request, stream=True)
        except (httpx2.RemoteProtocolError, httpx2.ReadError):
            # A server may close a kept connection just as it is used again: a fresh one tells whether it lives.
            return await self._client.send(request, stream=True)

    async def _whole(self, method: str, url: str, body: bytes | None, aside: bool) -> Answer:
        timeout = httpx2.Timeout(ASIDE if aside else None, connect=CONNECT)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            request = self._client.build_request(method, url, content=body, headers=headers, timeout=timeout)
            response = await self._send(request)
            try:
                data = await response.aread()
            finally:
                await response.aclose()
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            raise unreachable(error, self.address.origin) from None
        return Answer(
            response.status_code, data, response.headers.get("server", ""), response.headers.get("location", "")
        )
