"""Events on their way out: the engine puts and never waits, one writer takes. No torch.

Texts of the same reply that wait together are joined: at the other end every event costs, and a screen paints them
together anyhow. A text that comes after a pause goes alone, so that a first text keeps its own time; and a reply's
first text is waited for, so it takes along at once what waits.

Else events pass as they are while the writer keeps up. Once `limit` wait, steps are folded into one and only the
newest progress is kept, so what waits is bounded by what was said and by the number of requests. Nothing is folded
across an event that must keep its place (a prompt, an end, a failure), so the order a reader relies on holds: prompt
before its steps, every text and token before its end.
"""

from __future__ import annotations

import threading
import time

import msgspec

from .protocol import (
    AnyEvent,
    Configured,
    Finished,
    Lane,
    LoadProgress,
    Metrics,
    PageChange,
    PageDetail,
    Sampled,
    Step,
    TextDelta,
)

LIMIT = 256  # events that may wait before they are folded

Owner = tuple[str, int]  # request, sample


class StepFold:
    """Consecutive steps becoming one: see `add`. Adding costs what the added step holds, however many came before."""

    def __init__(self, first: Step) -> None:
        self._oldest = self._newest = first
        self._sampled = list(first.sampled)
        self._preempted = list(first.preempted)
        self._pages = {change.page: change for change in first.pages}
        self._sums = {name: getattr(first, name) for name in _SUMMED}
        self._merged = first.merged

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """Of the newest step: what the next `add` drops."""
        return self._newest.lanes

    def add(self, step: Step) -> None:
        """Fold in the step after: durations and positions add up, the newest state of each page, of the pool, of
        lanes and waits stays, sampled tokens line up, and only the newest step's keep their candidates."""
        newest = len(self._sampled) - len(self._newest.sampled)
        self._sampled[newest:] = map(_bare, self._newest.sampled)
        self._sampled.extend(step.sampled)
        self._preempted.extend(step.preempted)
        for change in step.pages:
            self._pages[change.page] = _keep_eviction(self._pages.get(change.page), change)
        for name in _SUMMED:
            self._sums[name] += getattr(step, name)
        self._merged += 1 + step.merged
        self._newest = step

    def event(self) -> Step:
        """The one step: it began when the first of them did."""
        if self._newest is self._oldest:
            return self._newest
        return msgspec.structs.replace(
            self._newest,
            started_ns=self._oldest.started_ns,
            sampled=tuple(self._sampled),
            preempted=tuple(self._preempted),
            pages=tuple(self._pages.values()),
            merged=self._merged,
            **self._sums,
        )


class TextFold:
    """Texts of one reply and channel becoming one."""

    def __init__(self, first: TextDelta) -> None:
        self._newest = first
        self._parts = [first.text]

    @property
    def channel(self) -> str:
        return self._newest.channel

    def add(self, delta: TextDelta) -> None:
        self._parts.append(delta.text)
        self._newest = delta

    def event(self) -> TextDelta:
        if len(self._parts) == 1:
            return self._newest
        return msgspec.structs.replace(self._newest, text="".join(self._parts))


class Latest:
    """A state that only its newest report tells: how far a load is, how the switches stand, the totals."""

    def __init__(self, first: AnyEvent) -> None:
        self.newest = first

    def event(self) -> AnyEvent:
        return self.newest


class Outbox:
    """A queue of events between the engine and one writer thread. `put` never blocks; `take` does."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self.merged = 0  # steps folded into others so far
        self._waiting: list[AnyEvent | StepFold | TextFold | Latest] = []
        self._step: StepFold | None = None  # where the next step may go, while nothing that keeps its place came after
        self._texts: dict[Owner, TextFold] = {}
        self._begun: set[Owner] = set()  # whose first text came, and whose end did not
        self._said: set[Owner] = set()  # whose text came since the last taking
        self._saying: set[Owner] = set()  # and whose came before that one
        self._latest: dict[object, Latest] = {}
        self._tables: dict[Owner, tuple[int, ...]] = {}  # block tables told only by lanes that were folded away
        self._changed = threading.Condition()
        self._closed = False
        self._gathering = False  # the writer is awake already, and leaves what does not press until its rest is over
        self._presses = False
        self._taken = 0.0  # monotonic seconds

    def put(self, event: AnyEvent) -> None:
        """Queue `event`, or fold it into what waits. After `close` it is dropped."""
        with self._changed:
            if self._closed:
                return
            if isinstance(event, Step):
                self._put_step(event)
            elif isinstance(event, TextDelta):
                self._put_text(event)
            elif len(self._waiting) < self.limit:
                self._forget_folds()
                self._waiting.append(event)
            elif isinstance(event, (LoadProgress, Configured, Metrics, PageDetail)):
                self._put_latest(event)
            else:
                self._forget_folds()
                self._waiting.append(event)
            if isinstance(event, Finished):
                self._tables.pop((event.request, event.sample), None)
                self._begun.discard((event.request, event.sample))
            self._presses |= not isinstance(event, (Step, TextDelta)) or len(self._waiting) >= self.limit // 2
            if self._presses or not self._gathering:
                self._changed.notify()

    def take(self, timeout: float | None = None, rest: float = 0.0) -> list[AnyEvent]:
        """Everything that waits, oldest first; waits for something to come, `timeout` seconds at most.

        Steps and texts are taken together that come within `rest` seconds of the last taking, as long as few wait,
        nothing else does and no reply begins: after a pause the first is taken at once. Waking up for each of them,
        here and at the reader's end, would take a core from the computing every time.

        Empty means closed and drained, or that the time is over.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed, timeout)
            if (left := self._taken + rest - time.monotonic()) > 0 and self._waiting:
                self._gathering = True
                self._changed.wait_for(lambda: self._presses or self._closed, left)
                self._gathering = False
            self._taken, self._presses = time.monotonic(), False
            waiting, self._waiting = self._waiting, []
            self._saying, self._said = self._said, set()
            self._forget_folds()
        return [item.event() if isinstance(item, (StepFold, TextFold, Latest)) else item for item in waiting]

    def close(self) -> None:
        """Take no more events; what waits can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def __len__(self) -> int:
        return len(self._waiting)

    def _put_step(self, step: Step) -> None:
        fold = self._step if len(self._waiting) >= self.limit else None
        if fold is not None:
            self._tables.update(
                {(lane.request, lane.sample): lane.block_table for lane in fold.lanes if lane.block_table}
            )
        step = self._with_tables(step)
        if fold is not None:
            fold.add(step)
            self.merged += 1
        elif len(self._waiting) >= self.limit:
            self._step = StepFold(step)
            self._waiting.append(self._step)
        else:
            self._waiting.append(step)

    def _with_tables(self, step: Step) -> Step:
        # A lane tells its block table only when it changed; if that lane was folded away, the next one must tell it.
        if not self._tables:
            return step
        lanes: list[Lane] = []
        for lane in step.lanes:
            untold = self._tables.pop((lane.request, lane.sample), ())
            lanes.append(lane if lane.block_table or not untold else msgspec.structs.replace(lane, block_table=untold))
        return msgspec.structs.replace(step, lanes=tuple(lanes))

    def _put_text(self, delta: TextDelta) -> None:
        owner = (delta.request, delta.sample)
        fold = self._texts.get(owner)
        if fold is not None and fold.channel == delta.channel:
            fold.add(delta)
        elif owner in self._said or owner in self._saying:
            self._texts[owner] = TextFold(delta)
            self._waiting.append(self._texts[owner])
        else:
            self._waiting.append(delta)
        self._said.add(owner)
        if owner not in self._begun:
            self._begun.add(owner)
            self._presses = True

    def _put_latest(self, event: LoadProgress | Configured | Metrics | PageDetail) -> None:
        key = (type(event), event.page if isinstance(event, PageDetail) else None)
        if key in self._latest:
            self._latest[key].newest = event
        else:
            self._latest[key] = Latest(event)
            self._waiting.append(self._latest[key])

    def _forget_folds(self) -> None:
        self._step = None
        self._texts.clear()
        self._latest.clear()


_SUMMED = (
    "schedule_ns",
    "run_ns",
    "sample_ns",
    "finish_ns",
    "computed",
    "padding",
    "reuse_needs",
    "recompute_needs",
    "spared",
)


def _bare(token: Sampled) -> Sampled:
    return msgspec.structs.replace(token, candidates=()) if token.candidates else token


def _keep_eviction(before: PageChange | None, now: PageChange) -> PageChange:
    # A page that was evicted and filled again within the fold must still be seen to have been evicted.
    if before is not None and before.evicted and not now.evicted:
        return msgspec.structs.replace(now, evicted=True)
    return now
