"""What one run looks like: the state that the panels of the main screen draw, and the events the figures come from."""

from __future__ import annotations

import copy
import dataclasses

from ...engine.protocol import Event, Message, Step, TextDelta
from ..session import Session
from ..state import EngineState, RequestState, SampleState, Selection


@dataclasses.dataclass
class View:
    """One run of one setting. Requests are known by the names the script gave them."""

    chapter: str
    setting: str
    state: EngineState
    selection: Selection = dataclasses.field(default_factory=Selection)
    steps: list[Step] = dataclasses.field(default_factory=list)  # iterations in which something ran
    texts: list[TextDelta] = dataclasses.field(default_factory=list)
    messages: tuple[Message, ...] = ()  # of the reader's own request
    mine: str = ""  # the name of the reader's own request
    over: bool = False

    @classmethod
    def fresh(cls, chapter: str, setting: str, session: Session, other: View | None = None) -> View:
        """A view on which nothing has happened yet, of the session's engine as it stands.

        Of the `other` setting's run it keeps what the panels compare.
        """
        known = session.state
        state = EngineState(now_ns=known.now_ns)
        state.welcome = known.welcome
        state.clock = copy.copy(known.clock)
        if known.card is not None:
            state.card = known.card
            state.pool.reset(known.card)
        state.switches = known.switches
        state.lanes.max_lanes = known.switches.max_lanes
        if other is not None:
            state.lanes.finishes.extend(other.state.lanes.finishes)
            state.timeline.shown.update(other.state.timeline.shown)
        view = cls(chapter, setting, state)
        state.reserve_letter(view.full("mine"))  # the reader's own is always A, whoever comes first
        return view

    def apply(self, event: Event) -> None:
        """Take one event of the run."""
        self.state.apply(event)
        if isinstance(event, Step) and event.lanes:
            self.steps.append(event)
        elif isinstance(event, TextDelta):
            self.texts.append(event)

    @property
    def unpainted(self) -> bool:
        """The first text of some request has come in and is not on the screen yet."""
        samples = [sample for request in self.state.requests.values() for sample in request.samples.values()]
        return any(sample.first_received_ns and not sample.first_painted_ns for sample in samples)

    def paint(self, at_ns: int = 0, later_ns: int = 0) -> None:
        """Text that has come in is on the screen at `at_ns`; 0: `later_ns` after it came."""
        for name, request in self.state.requests.items():
            for number, sample in request.samples.items():
                if sample.first_received_ns and (at_ns or not sample.first_painted_ns):
                    self.state.mark_painted(name, at_ns or sample.first_received_ns + later_ns, number)

    def full(self, name: str) -> str:
        """A request's name on the wire."""
        return f"tour/{self.chapter}/{self.setting}/{name}"

    def request(self, name: str) -> RequestState:
        """A request that has been submitted."""
        return self.state.requests[self.full(name)]

    def sample(self, name: str, number: int = 0) -> SampleState:
        return self.request(name).samples[number]

    def drawn(self, name: str) -> int:
        """Tokens that a request has drawn so far."""
        sample = self.request(name).samples.get(0)
        return sample.generated if sample is not None else 0

    def finished(self, name: str) -> bool:
        found = self.state.requests.get(self.full(name))
        return found is not None and found.done

    def reply(self) -> str:
        """What the reader's own request has said so far."""
        found = self.state.requests.get(self.full(self.mine)) if self.mine else None
        sample = found.samples.get(0) if found is not None else None
        return (sample.text() or sample.text("reasoning")) if sample is not None else ""
