"""The one selection that joins all panels: a request, a sample, a token, a page."""

from __future__ import annotations

import msgspec

from ...engine.protocol import Candidate, PromptToken, Sampled
from .engine import EngineState
from .request import RequestState
from .sample import SampleState


class Selection(msgspec.Struct):
    """What is selected. While `follow_live` is on, the newest token of the request is.

    `request` None stands for the newest request. `page` is set only when a page was selected by itself; a selected
    token brings its own page along through `resolve`. `version` grows with every change.
    """

    request: str | None = None
    sample: int = 0
    position: int | None = None  # in the sequence, from 0
    page: int | None = None
    follow_live: bool = True
    version: int = 0

    def select_request(self, request: str | None, sample: int = 0) -> None:
        """Go to a request and follow its newest token."""
        self.request, self.sample = request, sample
        self.position = self.page = None
        self.follow_live = True
        self.version += 1

    def select_token(self, request: str, sample: int, position: int) -> None:
        """Go to one token and stay there."""
        self.request, self.sample, self.position = request, sample, max(0, position)
        self.page = None
        self.follow_live = False
        self.version += 1

    def select_page(self, page: int | None) -> None:
        """Go to one page; request and token stay as they are."""
        self.page = page
        self.version += 1

    def live(self) -> None:
        """Follow the newest token again."""
        self.position = self.page = None
        self.follow_live = True
        self.version += 1


class TokenAt(msgspec.Struct, frozen=True):
    """A token and where it stands."""

    request: str
    sample: int
    position: int
    token: PromptToken | Sampled | None


class Resolved(msgspec.Struct, frozen=True):
    """Where the selection leads. None and -1 stand for "not known" or "nothing there"."""

    request: RequestState | None = None
    sample: SampleState | None = None
    position: int = -1
    token: PromptToken | Sampled | None = None
    page: int = -1
    offset: int = -1  # in the page
    slot: int = -1  # page * page_size + offset
    written: bool = False  # its key and value are in the page
    held: bool = False  # the page still belongs to this sample
    candidates: tuple[Candidate, ...] = ()
    iteration: int = -1  # that drew it, or computed it for the first time
    lane: int = -1
    owners: tuple[str, ...] = ()  # of the page, "request/sample"
    page_tokens: tuple[TokenAt, ...] = ()


def newest_position(request: RequestState, sample: int) -> int:
    """Position of the newest token that is known, -1: none."""
    state = request.samples.get(sample)
    return request.prompt_length + (len(state.tokens) if state else 0) - 1


def selected_request(selection: Selection, state: EngineState) -> RequestState | None:
    """The selected request, or the newest where none is selected or the selected one is forgotten."""
    found = state.requests.get(selection.request) if selection.request is not None else None
    return found or state.newest_request()


def resolve(selection: Selection, state: EngineState) -> Resolved:
    """Follow the selection through block table, candidates, step and lane. Never raises."""
    request = selected_request(selection, state)
    if request is None:
        page = -1 if selection.page is None else selection.page
        return Resolved(page=page, owners=_owners(state, page), page_tokens=page_tokens(state, page))
    same = request.request == selection.request or selection.request is None
    number = selection.sample if same else 0
    sample = request.samples.get(number)
    newest = newest_position(request, number)
    position = newest if selection.follow_live or selection.position is None else min(selection.position, newest)
    token = request.token_at(number, position)
    page, offset = _place(state, sample, position)
    slot = page * state.pool.page_size + offset if page >= 0 else -1
    iteration, lane = _made(request, sample, position)
    if selection.page is not None and selection.page != page:
        page, offset, slot = selection.page, -1, -1
    owners = _owners(state, page)
    return Resolved(
        request=request,
        sample=sample,
        position=position,
        token=token,
        page=page,
        offset=offset,
        slot=slot,
        written=sample is not None and 0 <= position < sample.written,
        held=sample is not None and sample.key in owners,
        candidates=token.candidates if isinstance(token, Sampled) else (),
        iteration=iteration,
        lane=lane,
        owners=owners,
        page_tokens=page_tokens(state, page),
    )


def page_tokens(state: EngineState, page: int) -> tuple[TokenAt, ...]:
    """The tokens a page holds by the newest block tables, of its first owner that is known."""
    size = state.pool.page_size
    if page < 0 or size <= 0:
        return ()
    change = state.pool.pages.get(page)
    for owner in _owners(state, page):
        request_id, _, number = owner.rpartition("/")
        request = state.requests.get(request_id)
        sample = request.samples.get(int(number)) if request and number.isdecimal() else None
        if request is None or sample is None or page not in sample.block_table:
            continue
        start = sample.block_table.index(page) * size
        end = min(start + (change.fill if change else size), request.length(sample.sample), start + size)
        return tuple(
            TokenAt(request_id, sample.sample, position, request.token_at(sample.sample, position))
            for position in range(start, end)
        )
    return ()


def _owners(state: EngineState, page: int) -> tuple[str, ...]:
    change = state.pool.pages.get(page)
    return change.owners if change else ()


def _place(state: EngineState, sample: SampleState | None, position: int) -> tuple[int, int]:
    size = state.pool.page_size
    if sample is None or position < 0 or size <= 0 or position // size >= len(sample.block_table):
        return -1, -1
    return sample.block_table[position // size], position % size


def _made(request: RequestState, sample: SampleState | None, position: int) -> tuple[int, int]:
    if sample is None or position < 0:
        return -1, -1
    index = position - request.prompt_length
    if index >= 0:
        return sample.made[index] if index < len(sample.made) else (-1, -1)
    for chunk in sample.chunks:
        if chunk.start <= position < chunk.end:
            return chunk.iteration, chunk.lane
    return -1, -1
