"""The flags that several commands share, and what is made of them. They are made from the settings' schema."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from ...engine.client import Engine, EngineClient
from ...engine.errors import SettingError
from ...engine.protocol import Configure, Load, SamplingSettings
from ...engine.remote.limits import Limits
from ...engine.settings import parse
from ..settings.document import SERVER_LIMITS
from ..settings.schema import SETTINGS
from . import servers
from .configured import settings, was_given
from .servers import AS_USUAL, Patience, Server
from .setting_flag import setting_flag

F = TypeVar("F", bound=Callable[..., Any])


def _option(name: str, **settings: Any) -> Callable[[F], F]:
    if not settings.get("multiple"):
        settings.setdefault("envvar", "CUTAWAY_" + name.split("/")[0].strip("-").replace("-", "_").upper())
    return click.option(name, **settings)


_SAMPLING = [setting for setting in SETTINGS if setting.section == "sampling"]
_TEXTS = [setting.name for setting in _SAMPLING if setting.kind in ("number", "whole")]
_SAMPLING_OPTIONS = [setting_flag(setting.name) for setting in _SAMPLING]
_ENGINE_OPTIONS = [
    *(setting_flag(setting.name) for setting in SETTINGS if setting.section == "engine"),
    _option("--trace", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
            help="Record what the engine says, for `cutaway replay`."),
]  # fmt: skip


class EngineFlags(msgspec.Struct, frozen=True):
    """Which engine, which model, and how it serves."""

    load: Load
    configure: Configure
    command: str | None
    trace: Path | None
    buffered: bool
    server: Server | None = None
    server_name: str = ""  # as it was given: a name or an address
    patience: Patience = AS_USUAL  # how long any server is waited for

    def engine(self) -> Engine:
        """The engine that these flags ask for, not started. Raises `EngineDied` for a command that can't be read."""
        return self.recorded(self.client())

    def client(self) -> EngineClient:
        """The engine without its recording. Raises `EngineDied` for a command that can't be read."""
        return EngineClient(self.server.command() if self.server is not None else self.command)

    def recorded(self, engine: Engine) -> Engine:
        """The engine, recorded if the flags ask for that."""
        if self.trace is None:
            return engine
        from ...engine.trace import Recording

        return Recording(engine, self.trace)


def sampling_flags(function: F) -> F:
    """Add the sampling flags; `sampling_from` takes them out again."""
    return _with(function, _SAMPLING_OPTIONS)


def engine_flags(function: F) -> F:
    """Add the flags of the engine and its model; `engine_from` takes them out again."""
    return _with(function, _ENGINE_OPTIONS)


def sampling_from(values: dict[str, Any], **fixed: Any) -> SamplingSettings:
    """Take the sampling flags out of `values`. Raises `SettingError`."""
    given = {name: values.pop(name) for name in _TEXTS}
    given = {name: value for name, value in given.items() if value is not None}
    given["stop"] = [_readable(text) for text in values.pop("stop")]
    given["stop_ids"] = list(values.pop("stop_ids"))
    given["ignore_eos"] = values.pop("ignore_eos")
    given["logit_bias"] = dict(_bias(text) for text in values.pop("logit_bias"))
    return parse(given | fixed)


def engine_from(values: dict[str, Any], inspect: bool) -> EngineFlags:
    """Take the engine's flags out of `values`. `inspect` asks for candidates and pages in the events."""
    load = Load(
        model=values.pop("model"),
        precision=values.pop("precision"),
        device=values.pop("device"),
        threads=values.pop("threads"),
        deterministic=values.pop("deterministic"),
        page_size=values.pop("page_size"),
        pages=values.pop("pages"),
        max_lanes=values.pop("lanes"),
        token_budget=values.pop("token_budget"),
        window=values.pop("window"),
        offline=values.pop("offline"),
        chat_template=values.pop("chat_template"),
    )
    trace = values.pop("trace")
    configure = Configure(
        policy=values.pop("policy"),
        prefix_cache=values.pop("prefix_cache"),
        kv_reuse=values.pop("kv_reuse"),
        inspect=inspect or trace is not None,
    )
    command, address = values.pop("engine") or None, values.pop("server") or ""
    if command and address:
        if was_given("engine") == was_given("server"):
            raise click.UsageError('Give --server or --engine. Both: --engine "ssh box cutaway engine --server URL".')
        command, address = (command, "") if was_given("engine") else (None, address)
    # A model that the settings name for the machine itself is none of a server that a flag names.
    named = load.model if was_given("model") or not was_given("server") else ""
    patience = _patience(values)
    server = servers.resolve(address, named, values.pop("key_env"), patience)
    if server is not None:
        load = msgspec.structs.replace(load, model=server.model)
    return EngineFlags(load, configure, command, trace, values.pop("buffered"), server, address, patience)


def _patience(values: dict[str, Any]) -> Patience:
    limits = Limits(values.pop("first_token_limit_s"), values.pop("gap_limit_s"))
    given = settings()
    fixed = [name for name in SERVER_LIMITS if given.valued(name).for_this_run]
    return Patience(limits, tuple(fixed))


def _with(function: F, options: list[Callable[[F], F]]) -> F:
    for option in reversed(options):
        function = option(function)
    return function


def _bias(text: str) -> tuple[str, str]:
    token, equals, number = text.partition("=")
    if not equals or not token.strip().isdigit():
        raise SettingError("logit_bias", f"logit_bias must be ID=NUMBER, not {text!r}.", "For example 5=-100.")
    return token.strip(), number.strip()


def _readable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
