"""The thread that writes: what is to be kept waits here, and what can't be written is kept here until it can.

Whoever saves never waits. Changes are written at once, replies that grow once a second; after a failure everything is
tried again, each chat and message in its newest state, so that the memory needed is that of the chats themselves.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable

from ...engine.errors import CutawayError
from .database import Changes, Database
from .errors import damaged, reason

EVERY_S = 0.9  # seconds between two writes of a growing reply
RETRY_S = 1.0  # seconds between two tries after a failure
Noted = Callable[[], Changes]  # takes what grows as it is at that moment


class Writer:
    """Writes through a connection of its own, made by `connect` in its thread.

    `on_change` is called from that thread whenever `trouble` changes; `on_damage` when the file turns out damaged;
    `on_lost` when what the changes build on is not in the file: another program removed it, or the file is a new one.
    """

    def __init__(
        self,
        connect: Callable[[], Database],
        on_change: Callable[[], None] = lambda: None,
        on_damage: Callable[[], None] = lambda: None,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self.trouble = ""
        self._connect = connect
        self._on_change = on_change
        self._on_damage = on_damage
        self._on_lost = on_lost
        self._database: Database | None = None
        self._wake = threading.Condition()
        self._waiting = Changes()
        self._writing = False
        self._noted: dict[int, Noted] = {}
        self._closing = False
        self._next_try = 0.0
        self._next_noted = 0.0
        self._thread = threading.Thread(target=self._run, name="chats-writer", daemon=True)
        self._thread.start()

    def put(self, changes: Changes) -> None:
        """Write these as soon as can be."""
        with self._wake:
            self._waiting.put(changes)
            for number in changes.messages:
                self._noted.pop(number, None)
            self._wake.notify_all()

    def note(self, number: int, take: Noted) -> None:
        """This message grows: take and write it within a second."""
        with self._wake:
            awaited = bool(self._noted)  # and the thread knows when it is due
            self._noted[number] = take
            if not awaited:
                self._wake.notify_all()

    def flush(self, timeout: float) -> bool:
        """Wait until all is written; False if it is not by then, or can't be."""
        with self._wake:
            self._next_noted = 0.0
            self._wake.notify_all()
            self._wake.wait_for(lambda: self._idle or self.trouble, timeout)
            return self._idle

    def unwritten(self) -> Changes:
        """What is not in the file."""
        with self._wake:
            left = Changes()
            left.put(self._waiting)
            for take in self._noted.values():
                left.put(take())
            return left

    def close(self, timeout: float) -> Changes:
        """Try once more to write everything, end the thread, and return what could not be written."""
        with self._wake:
            self._closing = True
            self._next_try = self._next_noted = 0.0
            self._wake.notify_all()
        self._thread.join(timeout)
        return self.unwritten()

    @property
    def _idle(self) -> bool:
        return not (self._waiting or self._noted or self._writing)

    # ----------------------------------------------------------------------------------------- the thread

    def _run(self) -> None:
        last = False
        while not last:
            with self._wake:
                while (pause := self._pause()) != 0 and not self._closing:
                    self._wake.wait(pause)
                last = self._closing
                taken = self._take()
                self._writing = bool(taken)
            failure = self._write(taken) if taken else None
            with self._wake:
                self._writing = False
                if failure is not None:
                    taken.put(self._waiting)
                    self._waiting = taken
                    self._next_try = time.monotonic() + RETRY_S
                self._wake.notify_all()
            if taken:
                self._tell(reason(failure) if failure is not None else "")
        if self._database is not None:
            with contextlib.suppress(sqlite3.Error):
                self._database.close()

    def _pause(self) -> float | None:
        """Seconds until there is something to do; None: until something comes."""
        if not self._waiting and not self._noted:
            return None
        now = time.monotonic()
        due = self._next_try if self._waiting else max(self._next_noted, self._next_try)
        return max(0.0, due - now)

    def _take(self) -> Changes:
        taken, self._waiting = self._waiting, Changes()
        noted, self._noted = self._noted, {}
        for take in noted.values():
            taken.put(take())
        if noted:
            self._next_noted = time.monotonic() + EVERY_S
        return taken

    def _write(self, changes: Changes) -> Exception | None:
        try:
            if self._database is not None and self._database.moved:
                self._database.close()
                self._database = None
                self._on_lost()
            if self._database is None:
                self._database = self._connect()
            if not self._database.write(changes):
                self._on_lost()
        except (sqlite3.Error, OSError, CutawayError) as error:
            if damaged(error):
                self._on_damage()
            return error
        return None

    def _tell(self, trouble: str) -> None:
        if trouble != self.trouble:
            with self._wake:
                self.trouble = trouble
                self._wake.notify_all()
            self._on_change()
