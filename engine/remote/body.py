"""From a request of ours to the body of theirs; what the server does not take is left out, and said."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import msgspec

from ..errors import PromptError, SettingError
from ..protocol import SamplingSettings, Submit
from .dialects import Dialect

_DEFAULTS = SamplingSettings()
_PANELS = ("logprobs", "top_logprobs")
_UNSUPPORTED = re.compile(r"unsupported|not supported|unknown|unrecognized|unexpected|not permitted|extra", re.I)
_MOST = re.compile(r"(?:max(?:imum)? allowed|at most|less than or equal to|<=):? (\d+)")


@dataclasses.dataclass(frozen=True, slots=True)
class Body:
    """What is posted, and what there is to say about it."""

    values: dict[str, Any]
    notes: tuple[str, ...] = ()

    def encoded(self) -> bytes:
        return msgspec.json.encode(self.values)


def build(
    command: Submit, model: str, dialect: Dialect, *, panels: bool, refused: frozenset[str] = frozenset()
) -> Body:
    """The body for `command`, of a chat completion or, where it has no messages, of a plain one.

    `panels` asks for what only panels show; `refused` are parameters not to send again.

    Raises `PromptError` and `SettingError` for what no server of this kind can do.
    """
    values: dict[str, Any] = {
        "model": model,
        **_prompt(command),
        "stream": True,
        "stream_options": {"include_usage": True},
        **dialect.extra,
    }
    if command.continue_last and command.messages and command.messages[-1].role == "assistant":
        if dialect.go_on is None:
            raise PromptError(
                f"{_server(dialect)} can't write on in an unfinished reply.", "Ask again for another one."
            )
        values |= dialect.go_on
    settings, notes = _settings(command.settings, dialect)
    values |= settings
    if command.samples > 1 and dialect.samples:
        values["n"] = command.samples
    if command.json_schema:
        values["response_format"] = _format(command.json_schema, dialect)
    if panels and command.messages and command.settings.candidates:
        values |= {"logprobs": True, "top_logprobs": min(command.settings.candidates, dialect.candidates)}
    return Body({name: value for name, value in values.items() if name not in refused}, notes)


def _prompt(command: Submit) -> dict[str, Any]:
    given = [bool(command.messages), command.text is not None, command.token_ids is not None]
    if sum(given) != 1:
        raise PromptError("A request needs exactly one of messages, text and token ids.")
    if command.messages:
        return {"messages": [{"role": message.role, "content": message.content} for message in command.messages]}
    return {"prompt": command.text if command.text is not None else list(command.token_ids or ())}


def _settings(settings: SamplingSettings, dialect: Dialect) -> tuple[dict[str, Any], tuple[str, ...]]:
    values: dict[str, Any] = {}
    untaken: list[str] = []
    for name in msgspec.structs.asdict(settings):
        value, default = getattr(settings, name), getattr(_DEFAULTS, name)
        if name == "candidates":
            continue
        if name not in dialect.settings:
            if value != default:
                untaken.append(name)
        elif value != default or name in dialect.explicit:
            off = value == default and name in dialect.off
            values[dialect.settings[name]] = dialect.off[name] if off else _plain(value)
    if not untaken:
        return values, ()
    return values, (f"{_server(dialect)} takes no {' and no '.join(untaken)}: left out",)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): item for key, item in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _format(schema: str, dialect: Dialect) -> dict[str, Any]:
    if not dialect.schema:
        raise SettingError("json_schema", f"{_server(dialect)} can't hold a reply to a JSON schema.")
    try:
        decoded = msgspec.json.decode(schema)
    except msgspec.DecodeError as error:
        raise SettingError("json_schema", f"The JSON schema can't be read: {error}.") from None
    if not isinstance(decoded, dict):
        raise SettingError("json_schema", "The JSON schema must be an object.", 'Such as {"type": "object"}.')
    return {"type": "json_schema", "json_schema": {"name": "reply", "schema": decoded, "strict": True}}


def after_refusal(body: Body, param: str, message: str) -> tuple[Body, frozenset[str]] | None:
    """The body to ask once more with, where a 400 names something that can be left out, and what was left out.

    What only panels show is always left out; a sampling setting only where the server says that it does not know it:
    a value out of its range is the user's to change.
    """
    named = {name for name in body.values if name == param or re.search(rf"\b{name}\b", message)}
    most = _MOST.search(message)
    if named & set(_PANELS) and most and 0 < int(most[1]) < body.values.get("top_logprobs", 0):
        note = f"the server gives at most {most[1]} candidates a token"
        return Body(body.values | {"top_logprobs": int(most[1])}, (*body.notes, note)), frozenset()
    dropped = named & {*_PANELS, "return_token_ids", "stream_options"}
    if dropped & set(_PANELS):
        dropped |= set(_PANELS)
    if _UNSUPPORTED.search(message):
        dropped |= named - {"model", "messages", "prompt", "stream", "response_format", "n"}
    dropped &= set(body.values)
    if not dropped:
        return None
    values = {name: value for name, value in body.values.items() if name not in dropped}
    told = "log-probabilities" if dropped & set(_PANELS) else " and ".join(sorted(dropped))
    return Body(values, (*body.notes, f"the server refused {told}: asked again without")), frozenset(dropped)


def _server(dialect: Dialect) -> str:
    return "This server" if dialect.name == "OpenAI-compatible" else dialect.name
