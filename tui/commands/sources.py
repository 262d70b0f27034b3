"""The engines that a chat can be switched among, made from the flags and the settings, and the choice made last."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ...engine import places
from ...engine.client import EngineClient
from ...engine.protocol import Configure
from ..settings.layers import Layers
from ..state.choice import Choice
from ..state.conversation import Conversation
from ..switching import Prepared, SwitchingEngine
from . import servers
from .flags import EngineFlags
from .setting_flag import DEFAULT_MODEL

FILE = "choice.json"
_CHOOSING = ("server", "model", "engine")  # settings that say who answers


class _Kept(msgspec.Struct, frozen=True):
    choice: Choice
    settings: tuple[str, str]  # server and model of the settings then: once they change, they are newer


class LastChoice:
    """What was chosen last, kept in a folder from one run of the program to the next."""

    def __init__(self, folder: Path, given: Layers) -> None:
        self.path = folder / FILE
        self._settings = (str(given.file.values.get("server", "")), str(given.file.values.get("model", "")))

    def read(self) -> Choice | None:
        """None where nothing was chosen, or where the settings were changed since."""
        try:
            kept = msgspec.json.decode(self.path.read_bytes(), type=_Kept)
        except (OSError, msgspec.MsgspecError, UnicodeError):
            return None
        return kept.choice if kept.settings == self._settings else None

    def keep(self, choice: Choice) -> None:
        """Whole or not at all; a disk that takes nothing must not disturb the chat."""
        with contextlib.suppress(OSError):
            places.put(self.path, msgspec.json.encode(_Kept(choice, self._settings)))


class EngineSources:
    """Makes engine processes take each other's place in `engine`. Implements `switching.Sources`."""

    def __init__(
        self, flags: EngineFlags, engine: SwitchingEngine, configure: Configure, last: LastChoice | None = None
    ) -> None:
        self.first: Choice | None = self._of_flags(flags)
        self._flags = flags
        self._engine = engine
        self._configure = configure
        self._last = last

    def begin(self, conversation: Conversation | None, given: Layers) -> Prepared | None:
        """What to start with instead of what the flags say: the kept chat's choice, else the last one.

        None where flags or variables say who answers, and where nothing was chosen. Raises `CutawayError`.
        """
        told = any(given.valued(name).for_this_run for name in _CHOOSING)
        if told or self._flags.command:
            return None
        last = self._last.read() if self._last is not None else None
        choice = conversation.choice if conversation is not None and conversation.choice is not None else last
        if choice is None or choice == self.first:
            return None
        prepared = self.prepare(choice)
        self.first = choice
        return prepared

    def servers(self) -> Mapping[str, str]:
        return {name: server.url for name, server in servers.named().items()}

    def prepare(self, choice: Choice) -> Prepared:
        flags, load, configure = self._flags, msgspec.structs.replace(self._flags.load, model=choice.model), None
        if choice.server:
            known = flags.server if flags.server is not None and choice.server == flags.server_name else None
            key = known.key_env if known is not None else ""
            server = servers.resolve(choice.server, choice.model, key, flags.patience)
            assert server is not None
            client = EngineClient(server.command())
            load = msgspec.structs.replace(load, model=server.model)
            # How a server batches is not ours to say.
            configure = msgspec.structs.replace(self._configure, policy=None, prefix_cache=None, kv_reuse=None)
        else:
            client = EngineClient(flags.command)
        return Prepared(load, configure or self._configure, lambda: setattr(self._engine, "engine", client))

    def keep(self, choice: Choice) -> None:
        if self._last is not None:
            self._last.keep(choice)

    @staticmethod
    def _of_flags(flags: EngineFlags) -> Choice:
        if flags.command:
            return Choice()
        if flags.server is not None:
            return Choice(flags.server_name, flags.load.model)
        return Choice("", flags.load.model or DEFAULT_MODEL)
