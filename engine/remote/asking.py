"""One request to a server, from the command to the ends of its samples."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

import httpx2

from ..errors import CutawayError
from ..protocol import AnyEvent, Finished, PromptRendered, PromptToken, Rejected, Step, Submit, Wait
from . import tokens
from .answers import Chunk, error_text, read
from .body import Body, after_refusal, build
from .connection import Connection
from .discovery import Found
from .drawn import UNTOLD
from .limits import USUAL, Limits
from .reply import Reply
from .sse import EventReader, ServerEvent, TooLarge
from .troubles import Refusal, ServerTrouble, Unreachable, refusal

TELL_EVERY = 1.0  # seconds between two words on what is waited for
RETRIES = 2  # after refusals that name something to leave out
DONE = b"[DONE]"
CUT = "the connection was cut in the middle of the reply"


class Asking:
    """A request under way. `unreachable` is called when there is no server any more, `learned` with what it refuses."""

    def __init__(
        self,
        command: Submit,
        connection: Connection,
        found: Found,
        emit: Callable[[AnyEvent], None],
        *,
        panels: bool,
        refused: frozenset[str] = frozenset(),
        variable: str = "",
        limits: Limits = USUAL,
        buffered: Callable[[], bool] = lambda: False,
        unreachable: Callable[[Unreachable], None] = lambda error: None,
        learned: Callable[[frozenset[str]], None] = lambda refused: None,
        no_logprobs: Callable[[], None] = lambda: None,
    ) -> None:
        self.command = command
        self._connection = connection
        self._found = found
        self._emit = emit
        self._panels = panels
        self._refused = refused
        self._variable = variable
        self._limits = limits
        self._buffered = lambda: command.delivery == "buffered" or buffered()
        self._unreachable = unreachable
        self._learned = learned
        self._no_logprobs = no_logprobs
        self._submitted_ns = time.monotonic_ns()
        self._heard: dict[int, float] = {}  # by a reply's first sample: when its last part came
        self._timers: dict[int, asyncio.Timeout] = {}
        self._notes: tuple[str, ...] = ()
        self._prompt: tuple[str, tuple[PromptToken, ...], int] = ("", (), 0)  # text, tokens, duration of asking
        self._replies: list[Reply] = []
        self._over = False

    async def run(self) -> None:
        """Ask, and tell everything that comes of it. Never raises but for a cancel."""
        try:
            body = build(
                self.command, self._found.model, self._found.dialect, panels=self._panels, refused=self._refused
            )
        except CutawayError as error:
            self._reject(error)
            return
        self._notes = body.notes
        self._say_prompt()
        several = self.command.samples > 1 and "n" not in body.values
        parts = [(sample, 1) for sample in range(self.command.samples)] if several else [(0, self.command.samples)]
        self._replies = [
            Reply(self.command, self._emit, self._buffered, self._submitted_ns, first, count, self._found.window)
            for first, count in parts
        ]
        telling, tokenizing = asyncio.create_task(self._tell_waiting()), asyncio.create_task(self._tokenize())
        try:
            await asyncio.gather(*(self._part(body, reply) for reply in self._replies))
            await tokenizing  # a reply may end before its prompt's tokens are told: they still come
        finally:
            for task in (telling, tokenizing):
                task.cancel()
            await asyncio.gather(telling, tokenizing, return_exceptions=True)

    def abort(self) -> None:
        """End what has not ended, now; the stream is closed by whoever cancels `run`."""
        if not self._replies and not self._over:
            for sample in range(self.command.samples):
                self._emit(Finished(self.command.request, sample, "aborted"))
        for reply in self._replies:
            reply.broken("aborted", "", time.monotonic_ns())
        self._over = True

    def fail(self, detail: str) -> None:
        """End what has not ended as failed."""
        for reply in self._replies:
            reply.broken("failed", detail, time.monotonic_ns())
        self._over = True

    # ------------------------------------------------------------------------------------------------ the stream

    async def _part(self, body: Body, reply: Reply) -> None:
        try:
            async with asyncio.timeout(self._limits.first_token_s or None) as timer:
                self._timers[reply.first] = timer
                await self._ask(_seeded(body, reply.open[0]), reply)
        except TimeoutError:
            reply.broken("failed", self._limits.exceeded(reply.said), time.monotonic_ns())
        except (Refusal, Unreachable, CutawayError) as error:
            if isinstance(error, Unreachable):
                self._unreachable(error)
            # A refusal is of the whole request; a server in trouble may have kept a part of it.
            if isinstance(error, Unreachable | ServerTrouble) or reply.said:
                reply.broken("failed", f"{error}".rstrip("."), time.monotonic_ns())
            else:
                self._reject(error)

    async def _ask(self, body: Body, reply: Reply) -> None:
        for last in [False] * RETRIES + [True]:
            try:
                await self._stream(body, reply)
                return
            except Refusal as error:
                again = None if last or error.status not in (400, 422) else after_refusal(body, error.param, str(error))
                if again is None:
                    raise
                body, dropped = again
                self._notes = tuple(dict.fromkeys(self._notes + body.notes))
                if dropped:
                    self._learned(dropped)
                self._say_prompt()

    async def _stream(self, body: Body, reply: Reply) -> None:
        """Post and read to the end. Raises `CutawayError` for what no reply came of."""
        url = self._found.chat if "messages" in body.values else self._found.completions
        async with self._connection.stream(url, body.encoded()) as response:
            try:
                if response.status_code != 200:
                    data = await response.aread()
                    raise refusal(response.status_code, data, self._connection.key, self._variable)
                if "json" in response.headers.get("content-type", ""):
                    self._whole(await response.aread(), reply)
                    return
                if await self._read(response, reply, "logprobs" in body.values):
                    reply.complete(time.monotonic_ns())
                else:
                    reply.broken("failed", CUT, time.monotonic_ns())
            except httpx2.TransportError:
                reply.broken("failed", CUT, time.monotonic_ns())
            except TooLarge as error:
                raise ServerTrouble(f"The server sends {error}.") from None

    def _whole(self, data: bytes, reply: Reply) -> None:
        """A reply that was not streamed."""
        chunk = read(Chunk, data)
        if chunk is None:
            raise ServerTrouble("The server's answer is no chat completion.", "Check --server.")
        self._take(chunk, reply)
        reply.complete(time.monotonic_ns())

    async def _read(self, response: httpx2.Response, reply: Reply, logprobs_asked: bool) -> bool:
        """Read events until the server says that it is done; False: it hung up before."""
        reader = EventReader()
        with contextlib.suppress(httpx2.TransportError):  # cut: what had come whole still counts
            async for piece in response.aiter_bytes():
                for event in reader.feed(piece):
                    if self._event(event, reply):
                        return True
                if logprobs_asked and reply.logprobs_told is False:
                    logprobs_asked = False
                    self._no_logprobs()
        for event in reader.end():
            if self._event(event, reply):
                return True
        return reply.finished

    def _event(self, event: ServerEvent, reply: Reply) -> bool:
        """Take one event; True for the one that ends the stream."""
        data = b"\n".join(event.data)
        if data.strip() == DONE:
            return True
        chunk = read(Chunk, data)
        # Some servers leave out the empty lines between events: each line is one then.
        chunks = [chunk] if chunk is not None else [read(Chunk, line) for line in event.data if line.strip() != DONE]
        if event.name == "error" and not any(part is not None and part.error for part in chunks):
            raise ServerTrouble(self._redacted(error_text(_text(data)) or "the server reports an error"))
        for part in chunks:
            if part is None:
                raise ServerTrouble(
                    f"the server sent what is no part of a reply: {self._redacted(_text(data))[:120]!r}"
                )
            self._take(part, reply)
        return chunk is None and event.data[-1].strip() == DONE

    def _take(self, chunk: Chunk, reply: Reply) -> None:
        reply.prompt_tokens = max(reply.prompt_tokens, len(self._prompt[1]))
        try:
            reply.take(chunk, time.monotonic_ns())
        except ServerTrouble as error:
            raise ServerTrouble(self._redacted(error.message)) from None
        if reply.said:
            self._heard[reply.first] = time.monotonic()
            gap = self._limits.gap_s
            self._timers[reply.first].reschedule(asyncio.get_running_loop().time() + gap if gap else None)

    def _redacted(self, text: str) -> str:
        return self._connection.key.redact(text)

    # ----------------------------------------------------------------------------------------------- beside it

    def _reject(self, error: CutawayError) -> None:
        if not self._over:
            self._over = True
            field = getattr(error, "field", "") or getattr(error, "param", "")
            self._emit(Rejected(self.command.request, error.message, error.action, field))
            for reply in self._replies:
                reply.give_up()

    def _say_prompt(self) -> None:
        text, row, took_ns = self._prompt
        command = self.command
        self._emit(
            PromptRendered(
                command.request,
                text,
                row,
                template_ns=0,
                tokenize_ns=took_ns,
                submitted_ns=self._submitted_ns,
                rendered_ns=time.monotonic_ns(),
                window=self._found.window,
                stop=command.settings.stop,
                notes=self._notes,
                label=command.label,
                samples=command.samples,
                delivery="buffered" if self._buffered() else "streamed",
                settings=command.settings,
            )
        )

    async def _tokenize(self) -> None:
        if not (self._panels and self._found.tokenizes and self.command.messages):
            return
        began = time.monotonic_ns()
        found, messages = self._found, self.command.messages
        try:
            text, row = await tokens.of_prompt(
                self._connection, found.root, found.dialect, found.model, messages, self.command.continue_last
            )
        except Unreachable:
            return  # whoever asks for the reply tells of that
        if row and not self._over:
            self._prompt = (text, row, time.monotonic_ns() - began)
            self._say_prompt()

    async def _tell_waiting(self) -> None:
        began = time.monotonic()
        while True:
            await asyncio.sleep(TELL_EVERY)
            waits = [
                Wait(self.command.request, sample, self._limits.waiting(reply.said, silent))
                for reply in self._replies
                if (silent := time.monotonic() - self._heard.get(reply.first, began)) >= TELL_EVERY
                for sample in reply.open
            ]
            if waits:
                self._emit(Step(UNTOLD, time.monotonic_ns(), waits=tuple(waits)))


def _seeded(body: Body, sample: int) -> Body:
    """Of several requests with one seed, each gets another: they would all write the same."""
    if not sample or "seed" not in body.values or "n" in body.values:
        return body
    return Body(body.values | {"seed": body.values["seed"] + sample}, body.notes)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
