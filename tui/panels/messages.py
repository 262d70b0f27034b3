"""What panels tell the app. They never talk to the engine themselves."""

from __future__ import annotations

from textual.message import Message


class SelectionChanged(Message):
    """The user selected a request, token or page in a panel; the shared `Selection` has it already."""


class ForkRequested(Message):
    """Go on from generated token `index` of a sample with another token: `Fork(at=index, forced=token_id)`."""

    def __init__(self, request: str, sample: int, index: int, token_id: int) -> None:
        super().__init__()
        self.request = request
        self.sample = sample
        self.index = index
        self.token_id = token_id


class InspectRequested(Message):
    """A page is selected whose contents are not known: ask the engine with `Inspect(page=page)`."""

    def __init__(self, page: int) -> None:
        super().__init__()
        self.page = page
