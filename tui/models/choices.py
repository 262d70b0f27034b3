"""What the picker chooses from, on whichever machine the engine runs. No Textual."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from ...engine import machine
from ...engine.errors import ModelError
from ...engine.models import default
from ...engine.models.memory import page_size_for
from ...engine.models.shelf import Entry, shelf
from ...engine.models.spec import read_spec
from ...engine.protocol import Load, Machine, ModelCard
from ..state.choice import Choice
from .offer import Offer

_ADDRESS = re.compile(r"https?://.|localhost\b|[\w.-]+:\d+\b")


class Choices:
    """The models, and the memory that one may take.

    `load` is how the next model will be loaded, `card` is the loaded one's. What the engine told of its machine
    (`told`) counts; without it, what this process sees does. `elsewhere`: the engine runs on another machine, whose
    models are not ours to list. `servers` are those that can be switched to, by name; None: nothing can be switched,
    and a server's models are all that there is. `now` answers at present.
    """

    def __init__(
        self,
        load: Load,
        card: ModelCard | None = None,
        told: Machine | None = None,
        elsewhere: bool = False,
        servers: Mapping[str, str] | None = None,
        now: Choice | None = None,
    ) -> None:
        self.load = load
        self.card = card
        self.elsewhere = elsewhere
        self.offline = load.offline
        self.servers = servers
        self.now = now or Choice()
        self._told = told

    @functools.cached_property
    def _room(self) -> tuple[str, int]:
        """The device that a model will be loaded on, and the bytes that are free on it."""
        told = self._told
        device, free = (told.device, told.room_bytes) if told is not None else machine.room()
        if self.load.device not in ("auto", device.split(":")[0], device):
            return self.load.device, machine.available_bytes()
        if device == "cpu" and not self.elsewhere:
            free = machine.available_bytes()  # as it is now
        return device, free

    @property
    def free(self) -> int:
        return self._room[1]

    @functools.cached_property
    def precision(self) -> str:
        """In which the weights will be held."""
        device, _ = self._room
        if self.load.precision != "auto":
            return self.load.precision
        if self._told is not None and self._told.device == device:
            return self._told.precision
        return machine.expected_precision(device)

    def entries(self) -> list[Entry]:
        """Everything there is to choose from, the server's own models and the other servers first.

        Reads headers from the disk, and asks the system what is free. Raises `CutawayError`.
        """
        device, _ = self._room
        if self.served and self.servers is None:
            return self.offers()
        page_size = self.load.page_size or page_size_for(device)
        return [*self.offers(), *shelf(self.precision, self.load.window, page_size)]

    def offers(self) -> list[Entry]:
        """What the server that answers has, then the servers that have names."""
        here = self.card.models if self.card is not None and self.served else ()
        offers: list[Entry] = [Offer.of(Choice(self.now.server, model), f"A model of {self.where}.") for model in here]
        return offers + [Offer.of(Choice(name), f"A server, {url}.") for name, url in (self.servers or {}).items()]

    def typed(self, text: str) -> list[Entry]:
        """What somebody may mean by text that names nothing in the list: a server's model or address, or a model."""
        found: list[Entry] = []
        if self.servers is not None and _ADDRESS.match(text):
            return [Offer.of(Choice(text), "The server at this address.")]
        if self.served or self.now.server:
            found.append(Offer.of(Choice(self.now.server, text), f"A model of {self.where}, as typed above."))
        if (self.servers is not None or not found) and _names_a_model(text):
            found.append(Entry(text, text, 0, "", kept=False, about="What is typed above."))
        return found

    @property
    def where(self) -> str:
        """The server that answers, for a sentence."""
        return self.now.server or (self.card.device if self.card is not None else "the server")

    def is_loaded(self, entry: Entry) -> bool:
        """Whether this is the model that serves now."""
        if self.card is None:
            return False
        if isinstance(entry, Offer):
            return self.served and entry.choice == Choice(self.now.server, self.card.name)
        if self.served:
            return False
        wanted = self.load.model or default.DEFAULT.name
        return entry.spec.lower() == wanted.lower() or (bool(entry.source) and entry.source == self.card.source)

    @property
    def served(self) -> bool:
        """The models are a server's: their names are typed."""
        return self.card is not None and self.card.attention == "remote"


def _names_a_model(typed: str) -> bool:
    """Whether this names something that could be loaded: a path that is there, or the id of a model on the hub."""
    try:
        read_spec(typed)
    except ModelError:
        return False
    return True
