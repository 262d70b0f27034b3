"""The flags that several commands share, and what is made of them. Each can also be set as `CUTAWAY_<NAME>`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from ...engine.client import Engine, EngineClient
from ...engine.errors import SettingError
from ...engine.protocol import Configure, Load, SamplingSettings
from ...engine.settings import parse
from . import completing, servers
from .servers import Server

F = TypeVar("F", bound=Callable[..., Any])

# Given as text and read by `settings.parse`, so that a wrong value is told in the same words everywhere.
_SAMPLING: dict[str, tuple[str, str]] = {
    "temperature": ("NUMBER", "0 is greedy; higher is more surprising.  [default: 0.7]"),
    "top-k": ("N", "Draw from the N likeliest tokens; 0 is off."),
    "top-p": ("P", "Draw from the likeliest tokens that make up P; 1 is off."),
    "min-p": ("P", "Leave out tokens below P times the likeliest; 0 is off."),
    "repetition-penalty": ("NUMBER", "Above 1: avoid tokens seen before."),
    "presence-penalty": ("NUMBER", "From -2 to 2: avoid tokens already said."),
    "frequency-penalty": ("NUMBER", "From -2 to 2: the more often said, the more avoided."),
    "seed": ("N", "The same seed gives the same reply."),
    "max-tokens": ("N", "Cut the reply after N tokens."),
    "min-tokens": ("N", "Do not end before N tokens."),
}


def _option(name: str, **settings: Any) -> Callable[[F], F]:
    if not settings.get("multiple"):
        settings.setdefault("envvar", "CUTAWAY_" + name.split("/")[0].strip("-").replace("-", "_").upper())
    return click.option(name, **settings)


_SAMPLING_OPTIONS = [
    *(_option(f"--{name}", metavar=unit, help=text) for name, (unit, text) in _SAMPLING.items()),
    _option("--stop", multiple=True, metavar="TEXT", help="End the reply at TEXT. Can be repeated."),
    click.option("--stop-id", "stop_ids", multiple=True, metavar="ID", help="End at this token. Can be repeated."),
    _option("--ignore-eos", is_flag=True, help="Go on when the model wants to end."),
    _option("--logit-bias", multiple=True, metavar="ID=NUMBER", help="Make a token likelier or less. Can be repeated."),
]
_WHOLE = click.IntRange(min=0)
_ENGINE_OPTIONS = [
    click.option("--model", "-m", default="", envvar="CUTAWAY_MODEL", metavar="MODEL",
                 shell_complete=completing.models,
                 help="A folder, a GGUF file or a hub id.  [default: SmolLM2-135M-Instruct]"),
    _option("--precision", default="auto", show_default=True,
            type=click.Choice(["auto", "float32", "bfloat16", "float16", "int8"]), help="Of weights and arithmetic."),
    _option("--device", default="auto", show_default=True, metavar="DEVICE", help="auto, cpu or cuda."),
    _option("--threads", default=0, type=_WHOLE, help="Processor threads; 0 lets the engine measure."),
    _option("--deterministic", is_flag=True, help="A seeded request says the same alone and among any others."),
    _option("--page-size", default=0, type=_WHOLE, help="Tokens a KV page; 0 lets the engine choose."),
    _option("--pages", default=0, type=_WHOLE, help="KV pages; 0 lets the engine choose."),
    _option("--lanes", default=16, show_default=True, type=click.IntRange(min=1), help="Requests computed at once."),
    _option("--token-budget", default=512, show_default=True, type=click.IntRange(min=1), help="Positions a step."),
    _option("--window", default=0, type=_WHOLE, help="Tokens of context; 0 is the model's own."),
    _option("--template", default="", metavar="NAME", help="A built-in chat template, for models without one."),
    _option("--offline", is_flag=True, help="Use only what is on this machine."),
    _option("--policy", type=click.Choice(["continuous", "static"]), help="How requests share the lanes."),
    _option("--prefix-cache/--no-prefix-cache", default=None, help="Reuse pages of equal beginnings.  [default: on]"),
    _option("--kv-reuse/--no-kv-reuse", default=None, help="Or compute every prefix again.  [default: on]"),
    _option("--buffered", is_flag=True, help="Show the reply when it is whole."),
    _option("--server", metavar="URL", help="An OpenAI-compatible server, such as http://gpu-box:8000/v1."),
    _option("--key-env", default="", metavar="VARIABLE", help="The variable that holds the server's key."),
    _option("--engine", metavar="COMMAND", help='The engine to talk to, such as "ssh box cutaway engine".'),
    _option("--trace", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
            help="Record what the engine says, for `cutaway replay`."),
]  # fmt: skip


@dataclasses.dataclass(frozen=True)
class EngineFlags:
    """Which engine, which model, and how it serves."""

    load: Load
    configure: Configure
    command: str | None
    trace: Path | None
    buffered: bool
    server: Server | None = None

    def engine(self) -> Engine:
        """The engine that these flags ask for, not started. Raises `EngineDied` for a command that can't be read."""
        client = EngineClient(self.server.command() if self.server is not None else self.command)
        if self.trace is None:
            return client
        from ...engine.trace import Recording

        return Recording(client, self.trace)


def sampling_flags(function: F) -> F:
    """Add the sampling flags; `sampling_from` takes them out again."""
    return _with(function, _SAMPLING_OPTIONS)


def engine_flags(function: F) -> F:
    """Add the flags of the engine and its model; `engine_from` takes them out again."""
    return _with(function, _ENGINE_OPTIONS)


def sampling_from(values: dict[str, Any], **fixed: Any) -> SamplingSettings:
    """Take the sampling flags out of `values`. Raises `SettingError`."""
    given = {name.replace("-", "_"): values.pop(name.replace("-", "_")) for name in _SAMPLING}
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
        chat_template=values.pop("template"),
    )
    trace = values.pop("trace")
    configure = Configure(
        policy=values.pop("policy"),
        prefix_cache=values.pop("prefix_cache"),
        kv_reuse=values.pop("kv_reuse"),
        inspect=inspect or trace is not None,
    )
    command = values.pop("engine") or None
    server = servers.resolve(values.pop("server") or "", load.model, values.pop("key_env"))
    if server is not None:
        if command is not None:
            raise click.UsageError('Give --server or --engine. Both: --engine "ssh box cutaway engine --server URL".')
        load = msgspec.structs.replace(load, model=server.model)
    return EngineFlags(load, configure, command, trace, values.pop("buffered"), server)


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
