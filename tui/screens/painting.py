"""When the main screen is painted, and what a paint draws again."""

from __future__ import annotations

from textual.content import Content
from textual.timer import Timer

from ..pace import SOON, Pace
from ..panels import Panel
from ..printable import printable
from ..session import Session
from ..state.conversation import Node
from .base import MainBase
from .hints import composing
from .notice import notice

TURNS = 2  # paints in which every panel is drawn once


class Painting(MainBase):
    """Whatever has changed waits here for the next paint, which comes as soon as the processor's share allows."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._dirty: dict[int, Node] = {}
        self._next: Timer | None = None
        self._unmarked = 0  # paints of text that have not been marked as painted yet
        self._begun = ""  # the request whose first text was painted at once
        self._pace = Pace()
        self._turn = 0
        self._panels: list[Panel] = []
        self._due = 0  # paints until every panel has had its turn
        self._told = ""
        self._expired_ns = 0

    @property
    def due(self) -> bool:
        """Whether a paint is still to come, as far as is known."""
        return self._next is not None or self._unmarked > 0

    def changed(self, nodes: list[Node], soon: float = SOON) -> None:
        for node in nodes:
            self._dirty[id(node)] = node
        self._due = TURNS
        if self._next is None:
            self._wait_for_paint(soon)

    def hurry(self, request: str) -> None:
        """Text of this request has come: paint its first at once."""
        if request == self._begun:
            return
        self._begun = request
        self._pace.hurry()
        if self._next is not None:
            self._next.stop()
            self._next = None

    def _wait_for_paint(self, soon: float = SOON) -> None:
        self._next = self.set_timer(self._pace.left(soon), self._paint)

    def _paint(self) -> None:
        self._next = None
        nodes, self._dirty = list(self._dirty.values()), {}
        self.view.update_nodes(nodes)
        # The panels take turns, so that no single paint keeps a key waiting.
        self._due -= 1
        self._turn = (self._turn + 1) % TURNS
        self._panels = self._panels or list(self.query(Panel))
        for panel in self._panels[self._turn :: TURNS]:
            panel.refresh_if_changed()
        self.tell()
        if any(node.text for node in nodes):
            requests = [node.reply.request for node in nodes if node.reply is not None and node.text]
            self._unmarked += 1
            self.call_after_refresh(self._painted, requests)
        pool = self.session.state.pool
        if pool.flashes:
            # In a recording that is held the time stands still, and nothing goes out.
            now = self.session.state.now_ns()
            pool.expire(now)
            if now != self._expired_ns:
                self._expired_ns = now
                self.changed([])
        self._pace.pause()
        if self._due > 0 and self._next is None:
            self._wait_for_paint()

    def _painted(self, requests: list[str]) -> None:
        self._unmarked -= 1
        before = self.session.state.version
        self.session.painted(requests)
        if self.session.state.version != before:  # a first paint, which the timeline tells: it may be the last news
            self.changed([])

    def tell(self) -> None:
        """On the composer's border what Enter will do; below the messages what is or will be wrong, or how to begin."""
        text = composing(self.keymap, self.focused is self.composer, self.session.generating)
        if text != self._told:
            self._told = text
            self.composer.border_subtitle = Content(printable(text).replace("\n", " "))
        self.view.say(notice(self.session, self.keymap))
