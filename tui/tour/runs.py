"""The tour's screen and the engine: runs, what goes wrong, and the recording that stands in for a model."""

from __future__ import annotations

import asyncio
import contextlib

from textual.worker import Worker

from ...engine.errors import CutawayError
from ...engine.protocol import Failed, ModelCard
from .base import TourBase
from .errors import StageError, StoppedError
from .pictures import forget_pictures, keep_picture
from .recorded import RecordedTour, recorded_session
from .stage import Stage

NO_MODEL = "download"  # kind of failure: none is cached and none can be fetched


class TourRuns(TourBase):
    """Runs the chapters' scripts. `recorded` says that a recording answers."""

    recorded = False
    _opening: Worker[None] | None = None
    _run: Worker[None] | None = None
    _card: ModelCard | None = None
    _own_link: asyncio.Task[None] | None = None  # of a recording that was begun here
    _own_question = ""  # the reader's, while a recording follows another
    _restarts = 0  # since a model was ready

    # ------------------------------------------------------------------------------------------ the engine

    def open_stage(self) -> None:
        """Wait for a model in the background; the text can be read meanwhile."""
        self._opening = self.run_worker(self._open(), group="open", exclusive=True)

    async def _open(self) -> None:
        try:
            await self.stage.ready()
        except StoppedError:
            return  # told by `engine_lost`
        except StageError as error:
            failure = self.stage.session.state.failure
            if isinstance(failure, Failed) and failure.kind == NO_MODEL:
                await self.play_recording()
            else:
                self.tell(f"✗ {error} R tries again.")
            return
        self.model_ready()
        if self._restarts:
            self._restarts = 0
            self.tell("The engine is back, and this chapter is where you left it. Enter runs it.")

    def model_ready(self) -> None:
        """A model answers: figures of another one are not compared with its own."""
        if isinstance(engine := self.stage.session.link.engine, RecordedTour):
            self._own_question = self._own_question or self.tour.question
            self.tour.question = self.stage.question = engine.question or self.tour.question
            self.stage.recorded = self.recorded = True
        if self.tour.on(self.stage.model):
            forget_pictures(self.pictures)
            self.say(f"The figures were another model's. {self.stage.model} is measured anew.")
        self._card = self.stage.card
        self.tell()
        self.view_changed()

    async def play_recording(self) -> None:
        """No model is there and none can be fetched: let the recorded tour answer."""
        self.stage.detach()
        session = recorded_session()
        self.stage = Stage(session, self.tour.question, "frame", recorded=True)
        self.recorded = True
        self.listen()
        self._own_link = asyncio.create_task(session.link.run())
        self.say("No model is here and none can be fetched: this is a recording of the default model.", "warning")
        await self._open()

    def listen(self) -> None:
        """Take the stage's events."""
        raise NotImplementedError

    def keep(self) -> None:
        if not self._own_question:
            super().keep()
            return
        # A recording follows its own question; the reader's is for the next time.
        kept = self.tour.kept()
        kept.question = self._own_question
        self.file.write(kept)

    def engine_lost(self, message: str, action: str) -> None:
        """The engine is gone: say so, and start it again, once."""
        self._restarts += 1
        self.say(f"{message} {action}", "error")
        if self._restarts > 1:
            self.tell(f"✗ {message} {action} R starts the engine again; this chapter is kept.")
            return
        self.tell(f"✗ {message} It is being started again; this chapter is kept.")
        self.start_engine()

    def start_engine(self) -> None:
        self.stage.session.trouble = None
        self.stage.session.link.restart()
        # Not at once: the link has not let go of the old engine yet.
        self.call_later(self.open_stage)

    def action_restart(self) -> None:
        session = self.stage.session
        if session.trouble is not None:
            self.tell("The engine is being started again.")
            self.start_engine()
        elif session.state.card is None and isinstance(session.state.failure, Failed):
            session.state.failure = None
            self.tell("Loading again.")
            session.link.load_again()
            self.open_stage()
        else:
            self.say("The engine is running.")

    # ------------------------------------------------------------------------------------------------ runs

    def action_run(self) -> None:
        if self.tour.mark.pick is None:
            self.say("Answer the question first: it is asked before you see. There are no marks.")
            return
        if self.stage.session.trouble is not None:
            self.tell("✗ There is no engine. R starts it again.")
            return
        if self._card is None:
            self.say("The model is not loaded yet.")
            return
        if self._run is not None and not self._run.is_finished:
            self.say("It is running; x stops it.")
            return
        self._run = self.run_worker(self._perform(self.desk.chosen), group="run", exclusive=True)

    async def _perform(self, setting: str) -> None:
        play = self.play
        name = play.chapter.name
        self.tell(f"● running: {play.chapter.setting(setting).name} (x stops it)")
        self.run_begins()
        try:
            outcome = await self.stage.perform(play, setting)
        except StoppedError:
            return  # told by `engine_lost`
        except CutawayError as error:
            self.tell(f"✗ {error}")
            return
        finally:
            self.view_changed()
        self.tour.expose(name, setting, outcome)
        self.keep()
        self.tell()
        await self.show_panels()
        with contextlib.suppress(OSError):
            title = f"{play.chapter.title}: {play.chapter.setting(setting).name}"
            keep_picture(self.pictures, f"{name}-{setting}", title, self.panels[0])

    def run_begins(self) -> None:
        """Show the run that begins."""
        raise NotImplementedError

    def action_halt(self) -> None:
        if self._run is None or self._run.is_finished:
            self.say("Nothing is running.")
        else:
            self.stop_run()
            self.tell("Stopped. Enter runs it again.")

    def stop_run(self) -> None:
        """End what is running, if anything is."""
        if self._run is not None:
            self._run.cancel()
            self._run = None
        self.stage.abandon()

    async def close_stage(self) -> None:
        """Leave the engine as it was found; end a recording that was begun here."""
        for worker in (self._opening, self._run):
            if worker is not None:
                worker.cancel()
        self.stage.detach()
        if self._own_link is not None:
            self._own_link.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._own_link
