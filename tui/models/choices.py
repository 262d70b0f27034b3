"""What the picker chooses from, on whichever machine the engine runs. No Textual."""

from __future__ import annotations

from ...engine import machine
from ...engine.errors import ModelError
from ...engine.models import default
from ...engine.models.memory import page_size_for
from ...engine.models.shelf import Entry, shelf
from ...engine.models.spec import read_spec
from ...engine.protocol import Load, Machine, ModelCard


class Choices:
    """The models, and the memory that one may take.

    `load` is how the next model will be loaded, `card` is the loaded one's. What the engine told of its machine
    (`told`) counts; without it, what this process sees does. `elsewhere`: the engine runs on another machine, whose
    models are not ours to list.
    """

    def __init__(
        self, load: Load, card: ModelCard | None = None, told: Machine | None = None, elsewhere: bool = False
    ) -> None:
        self.load = load
        self.card = card
        self.elsewhere = elsewhere
        self.offline = load.offline
        device, self.free = (told.device, told.room_bytes) if told is not None else machine.room()
        if device == "cpu" and not elsewhere:
            self.free = machine.available_bytes()  # as it is now
        if load.device not in ("auto", device.split(":")[0], device):
            device, self.free = load.device, machine.available_bytes()
        self.page_size = load.page_size or page_size_for(device)
        if load.precision != "auto":
            self.precision = load.precision
        elif told is not None and told.device == device:
            self.precision = told.precision
        else:
            self.precision = machine.expected_precision(device)

    def entries(self) -> list[Entry]:
        """Everything there is to choose from; nothing where a server has the models. Reads headers from the disk.

        Raises `CutawayError`.
        """
        if self.served:
            return []
        return shelf(self.precision, self.load.window, self.page_size)

    def is_loaded(self, entry: Entry) -> bool:
        """Whether this is the model that serves now."""
        if self.card is None:
            return False
        wanted = self.load.model or default.DEFAULT.name
        return entry.spec.lower() == wanted.lower() or (bool(entry.source) and entry.source == self.card.source)

    @property
    def served(self) -> bool:
        """The models are a server's: their names are typed."""
        return self.card is not None and self.card.attention == "remote"

    def may_be_meant(self, typed: str) -> bool:
        """Whether this names something that could be loaded: a path that is there, or the id of a model on the hub."""
        if self.served:
            return True
        try:
            read_spec(typed)
        except ModelError:
            return False
        return True
