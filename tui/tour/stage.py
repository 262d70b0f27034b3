"""Where the chapters' scripts play: an engine that is theirs for a while. No Textual.

A script says what to run and waits for it; everything it measures comes from the events of its run:

    async def run(stage: Stage, setting: str) -> Figures:
        await stage.configure(max_lanes=2)
        await stage.ask("mine", stage.question, most=24)
        await stage.finished("mine")
        return {"ttft": figures.ttft(stage.view, "mine")}
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Literal

from ...engine.protocol import (
    Abort,
    ClearCache,
    Command,
    Configure,
    Configured,
    Event,
    Failed,
    Message,
    ModelCard,
    Pause,
    Rejected,
    Resume,
    SamplingSettings,
    Submit,
)
from ..session import Session
from ..state.conversation import Node
from .errors import ChapterError, NotHereError, StageError, StoppedError
from .progress import Outcome
from .scripts import Play
from .switching import as_found, beginning
from .view import View

FRAME_NS = 1_000_000_000 // 12  # a recording does not tell when text was painted: one frame after it came in
SEED = 7

Painting = Literal["screen", "receipt", "frame"]


class Stage:
    """One engine and the runs on it.

    While `attached`, the engine's events come here first; the session's own state takes them as ever. `changed` is
    called after each. `painting` says when text counts as painted: when a `screen` says so, when it came in, or a
    frame after that.
    """

    def __init__(self, session: Session, question: str, painting: Painting = "receipt", recorded: bool = False) -> None:
        self.session = session
        self.question = question
        self.painting: Painting = painting
        self.recorded = recorded
        self.view: View | None = None  # of the run under way, or the last one
        self.views: dict[tuple[str, str], View] = {}  # the newest run of each chapter and setting
        self.running = False
        self.changed: Callable[[], None] = lambda: None
        self.lost: Callable[[str, str], None] = lambda message, action: None
        self._before: Callable[[Event | None, list[Node]], None] | None = None
        self._switches: Configure | None = None  # to give back
        self._problem: StageError | None = None
        self._configured = 0
        self._open: list[str] = []  # requests of this run, by their names on the wire
        self._happened = asyncio.Event()

    @property
    def card(self) -> ModelCard:
        """The loaded model's; only once `ready` has returned."""
        card = self.session.state.card
        if card is None:
            raise StageError("No model is loaded yet.")
        return card

    @property
    def model(self) -> str:
        """What the figures are measured on."""
        return f"{self.card.name} (recorded)" if self.recorded else self.card.name

    # ------------------------------------------------------------------------------------------ the engine

    def attach(self) -> None:
        """Take the session's events, until `detach`."""
        self._before = self.session.on_event
        self.session.on_event = self._heard

    def detach(self) -> None:
        """Give the engine back as it was found."""
        self.abandon()
        if self._switches is not None and self.session.trouble is None:
            self.session.send(self._switches)
        self._switches = None
        if self._before is not None:
            self.session.on_event = self._before
            self._before = None

    async def ready(self) -> None:
        """Wait until a model is loaded, and served as it will be: what is compared must be computed alike.

        Raises `StageError` if it can't be loaded, `StoppedError` if there is no engine.
        """
        self._problem = None
        if self.session.trouble is not None:
            raise StoppedError(*self.session.trouble)
        failure = self.session.state.failure
        if self.session.state.card is None and isinstance(failure, Failed):
            raise StageError(failure.message, failure.action)
        state, link = self.session.state, self.session.link
        await self.until(lambda: state.card is not None and not state.card.compiling and link.ready)

    def _heard(self, event: Event | None, changed: list[Node]) -> None:
        if event is None:
            message, action = self.session.trouble or ("The engine ended.", "")
            self._problem = StoppedError(message, action)
            self.lost(message, action)
        else:
            self._take(event)
        self._happened.set()
        self.changed()

    def _take(self, event: Event) -> None:
        if isinstance(event, Configured):
            self._configured += 1
        elif (isinstance(event, Failed) and not event.fatal and event.kind != "kernels") or (
            isinstance(event, Rejected) and event.request in self._open
        ):
            self._problem = StageError(event.message, event.action)
        if self.view is not None and not self.view.over:
            self.view.apply(event)
            if self.painting != "screen":
                self.view.paint(later_ns=FRAME_NS if self.painting == "frame" else 0)

    def paint(self, at_ns: int) -> None:
        """Text of the run that has come in is on the screen since `at_ns`, on the session's clock."""
        if self.view is not None:
            self.view.paint(at_ns)
            self._happened.set()

    # ---------------------------------------------------------------------------------------------- a run

    async def perform(self, play: Play, setting: str) -> Outcome:
        """Run a chapter's script with one of its settings.

        Raises `NotHereError` if the model can't show it, `StageError` if the engine refuses or dies, `ChapterError` if
        the script is at fault.
        """
        chapter = play.chapter
        await self.ready()
        for capability in chapter.needs:
            if capability not in self.card.capabilities:
                reason = self.card.missing.get(capability, f"{self.card.name} has no {capability}.")
                raise NotHereError(f"This model can't show it: {reason}", "n goes on to the next chapter.")
        other = next(s.key for s in chapter.settings if s.key != setting)
        await self._prepare()
        view = View.fresh(chapter.name, setting, self.session, self.views.get((chapter.name, other)))
        self.view = self.views[chapter.name, setting] = view
        self.running = True
        try:
            figures = dict(await play.run(self, setting))
            await self._rest()
        except (StageError, asyncio.CancelledError):
            raise
        except Exception as error:  # a script may be the reader's own: it may fail in any way
            raise ChapterError(f"The script of {chapter.name} failed: {type(error).__name__}: {error}.") from error
        finally:
            self.running = False
            self.abandon()
            view.over = True
        if missing := [row.key for row in chapter.rows if row.key not in figures]:
            raise ChapterError(f"The script of {chapter.name} gives no figure {missing[0]!r}.")
        kept = {row.key: figures[row.key] for row in chapter.rows}
        return Outcome(kept, view.reply(), self.model, self.question)

    async def _prepare(self) -> None:
        """The same beginning for every run, with nothing cached."""
        now = self.session.state.switches
        self._switches = self._switches or as_found(self.card, now)
        self.view = None
        if now.paused:
            await self._switch(Resume())
        if "switches" in self.card.capabilities:
            self.session.send(ClearCache())
        await self._switch(beginning(self.card))

    async def _rest(self) -> None:
        """Wait for the end of everything that was asked."""
        view = self._view()
        await self.until(lambda: all(view.state.requests[name].done for name in self._open))
        self._open.clear()

    def abandon(self) -> None:
        """Stop what still runs."""
        state = self.view.state if self.view is not None else None
        for name in self._open:
            if state is None or name not in state.requests or not state.requests[name].done:
                self.session.send(Abort(name))
        self._open.clear()

    # ---------------------------------------------------------------------------------- what scripts call

    async def configure(self, **switches: object) -> None:
        """Set switches of the engine (the fields of `Configure`) and wait until they hold."""
        await self._switch(Configure(**switches))  # pyright: ignore[reportArgumentType]

    async def _switch(self, command: Command) -> None:
        before = self._configured
        self.session.send(command)
        await self.until(lambda: self._configured > before)

    @contextlib.asynccontextmanager
    async def held(self):
        """What is asked in here comes to the engine at once: it is paused meanwhile."""
        await self._switch(Pause())
        try:
            yield
        finally:
            self.session.send(Resume())

    async def ask(
        self,
        name: str,
        *messages: Message | str,
        text: str | None = None,
        most: int = 24,
        label: str = "",
        template: str = "",
        samples: int = 1,
        **sampling: object,
    ) -> None:
        """Submit a request and wait until its prompt is there. Greedy unless `sampling` says otherwise.

        A message that is a `str` is the user's. `text` goes to the model as it is, without a template. Names of
        requests are the script's own; the one called "mine" is what the panels follow.
        """
        view = self._view()
        given = tuple(Message("user", m) if isinstance(m, str) else m for m in messages)
        settings: dict[str, object] = {"temperature": 0.0, "seed": SEED, "max_tokens": most, "candidates": 0}
        if name == "mine":
            view.mine, view.messages = name, given
            settings["candidates"] = 8
            view.selection.select_request(view.full(name))
        submit = Submit(
            view.full(name),
            messages=given,
            text=text,
            settings=SamplingSettings(**{**settings, **sampling}),  # pyright: ignore[reportArgumentType]
            samples=samples,
            label=label or ("A" if name == "mine" else name),
            template=template,
        )
        self._open.append(submit.request)
        self.session.send(submit)
        await self.until(lambda: submit.request in view.state.requests)

    async def stop(self, name: str) -> None:
        """Abort a request and wait for its end."""
        view = self._view()
        self.session.send(Abort(view.full(name)))
        await self.finished(name)

    async def finished(self, *names: str) -> None:
        """Wait for the end of all of these."""
        view = self._view()
        await self.until(lambda: all(view.finished(name) for name in names))

    async def tokens(self, name: str, many: int) -> None:
        """Wait until a request has drawn so many tokens, or has ended before."""
        view = self._view()
        await self.until(lambda: view.finished(name) or view.drawn(name) >= many)

    async def painted(self, name: str) -> None:
        """Wait until text of a request has reached the screen, or it has ended without any."""
        view = self._view()

        def there() -> bool:
            sample = view.request(name).samples.get(0)
            return sample is not None and (
                sample.first_painted_ns > 0 or (sample.finished is not None and not sample.first_received_ns)
            )

        await self.until(there)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until something holds. Raises `StageError` when the engine refuses or goes away."""
        while True:
            if self._problem is not None:
                problem, self._problem = self._problem, None
                raise problem
            if condition():
                return
            self._happened.clear()
            await self._happened.wait()

    def _view(self) -> View:
        if self.view is None:
            raise StageError("No chapter is being run.")
        return self.view
