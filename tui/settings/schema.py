"""Every setting, once: the file, `CUTAWAY_*`, the flags, `cutaway settings` and the settings screen are made from this.

A setting is known by its `name` everywhere: `temperature` in `[sampling]` of the file, `CUTAWAY_TEMPERATURE`,
`--temperature`. `values.py` reads and checks values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ...engine.remote.limits import FIRST_TOKEN_S, GAP_S
from ...engine.settings import RANGES

Kind = Literal["number", "whole", "flag", "choice", "text", "texts", "ids", "bias"]
When = Literal["now", "chat", "start"]

SECTIONS: dict[str, str] = {  # of the file, in its order -> what is in it
    "chat": "What a chat begins with",
    "sampling": "How replies are drawn; the chat's own controls change it for the time being",
    "engine": "The engine and its model",
    "screen": "What the chat looks like",
    "privacy": "What is kept",
}
WHEN: dict[When, str] = {"now": "at once", "chat": "in the next new chat", "start": "at the next start"}


class Setting(msgspec.Struct, frozen=True):
    """One setting. `expects` is its range in words, `takes` when a change of it takes effect."""

    section: str
    name: str
    kind: Kind
    default: Any
    help: str
    expects: str
    takes: When = "start"
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False  # None is a value, written "none"
    flag: str = ""  # where it is not --name
    unit: str = ""  # what the help calls the flag's value

    @property
    def key(self) -> str:
        """Its full name, "sampling.temperature"."""
        return f"{self.section}.{self.name}"

    @property
    def option(self) -> str:
        """Its flag on the command line."""
        return self.flag or "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return f"CUTAWAY_{self.name.upper()}"


def _sampling(name: str, kind: Kind, default: Any, unit: str, help: str, flag: str = "") -> Setting:
    optional = name in ("seed", "max_tokens")
    return Setting(
        "sampling", name, kind, default, help, RANGES[name][0], "now", optional=optional, flag=flag, unit=unit
    )


def _whole(section: str, name: str, default: int, low: int, high: int, help: str, takes: When = "start") -> Setting:
    words = f"a whole number from {low:,} to {high:,}"
    return Setting(section, name, "whole", default, help, words, takes, low, high, unit="N")


def _choice(section: str, name: str, choices: tuple[str, ...], help: str, takes: When = "start") -> Setting:
    words = f"{', '.join(choices[:-1])} or {choices[-1]}"
    return Setting(section, name, "choice", choices[0], help, words, takes, choices=choices)


def _flag(section: str, name: str, default: bool, help: str, takes: When = "start") -> Setting:
    return Setting(section, name, "flag", default, help, "true or false", takes)


def _text(section: str, name: str, help: str, expects: str = "a text", takes: When = "start", flag: str = "",
          default: str = "", unit: str = "TEXT") -> Setting:  # fmt: skip
    return Setting(section, name, "text", default, help, expects, takes, flag=flag, unit=unit)


_MANY = 1_000_000

SETTINGS: tuple[Setting, ...] = (
    _text("chat", "system", "A system prompt, or @FILE; empty is the model's own.", takes="chat"),
    _text("chat", "preset", "The preset in force from the start.", "the name of a preset", unit="NAME"),
    _sampling("temperature", "number", 0.7, "NUMBER", "0 is greedy; higher is more surprising."),
    _sampling("top_k", "whole", 0, "N", "Draw from the N likeliest tokens; 0 is off."),
    _sampling("top_p", "number", 1.0, "P", "Draw from the likeliest tokens that make up P; 1 is off."),
    _sampling("min_p", "number", 0.0, "P", "Leave out tokens below P times the likeliest; 0 is off."),
    _sampling("repetition_penalty", "number", 1.0, "NUMBER", "Above 1: avoid tokens seen before."),
    _sampling("presence_penalty", "number", 0.0, "NUMBER", "From -2 to 2: avoid tokens already said."),
    _sampling("frequency_penalty", "number", 0.0, "NUMBER", "From -2 to 2: the more often said, the more avoided."),
    _sampling("seed", "whole", None, "N", "The same seed gives the same reply."),
    _sampling("max_tokens", "whole", None, "N", "Cut the reply after N tokens."),
    _sampling("min_tokens", "whole", 0, "N", "Do not end before N tokens."),
    _sampling("stop", "texts", (), "TEXT", "End the reply at TEXT."),
    _sampling("stop_ids", "ids", (), "ID", "End at this token.", "--stop-id"),
    _sampling("ignore_eos", "flag", False, "", "Go on when the model wants to end."),
    _sampling("logit_bias", "bias", {}, "ID=NUMBER", "Make a token likelier or less."),
    _text("engine", "model", "A folder, a GGUF file or a hub id.", "a model's name", unit="MODEL"),
    _choice("engine", "precision", ("auto", "float32", "bfloat16", "float16", "int8"), "Of weights and arithmetic."),
    _text("engine", "device", "auto, cpu or cuda.", "auto, cpu or cuda", default="auto", unit="DEVICE"),
    _whole("engine", "threads", 0, 0, 4096, "Processor threads; 0 lets the engine measure."),
    _flag("engine", "deterministic", False, "A seeded request says the same alone and among any others."),
    _whole("engine", "page_size", 0, 0, 65_536, "Tokens a KV page; 0 lets the engine choose."),
    _whole("engine", "pages", 0, 0, 2**31 - 1, "KV pages; 0 lets the engine choose."),
    _whole("engine", "lanes", 16, 1, _MANY, "Requests computed at once.", "now"),
    _whole("engine", "token_budget", 512, 1, _MANY, "Positions a step.", "now"),
    _whole("engine", "window", 0, 0, 2**31 - 1, "Tokens of context; 0 is the model's own."),
    _text("engine", "chat_template", "A built-in chat template, for models without one.", "a template's name",
          unit="NAME"),
    _flag("engine", "offline", False, "Use only what is on this machine."),
    _choice("engine", "policy", ("continuous", "static"), "How requests share the lanes.", "now"),
    _flag("engine", "prefix_cache", True, "Reuse pages of equal beginnings.", "now"),
    _flag("engine", "kv_reuse", True, "Or compute every prefix again.", "now"),
    _choice("engine", "delivery", ("streamed", "buffered"), "Show the reply as it comes, or when it is whole.", "now"),
    _text("engine", "server", "An OpenAI-compatible server, such as http://gpu-box:8000/v1.",
          "an address, or a name in [servers]", unit="URL"),
    _text("engine", "key_env", "The variable that holds the server's key.", "a variable's name", unit="VARIABLE"),
    _whole("engine", "first_token_limit_s", FIRST_TOKEN_S, 0, _MANY,
           "Seconds to wait for a server's first token; 0 is no limit."),
    _whole("engine", "gap_limit_s", GAP_S, 0, _MANY, "Seconds to wait for more of a server's reply; 0 is no limit."),
    _text("engine", "engine", 'The engine to talk to, such as "ssh box cutaway engine".', "a command",
          unit="COMMAND"),
    _text("screen", "theme", "Colours of the full screen.", "the name of a theme", "now", default="cutaway-dark",
          unit="NAME"),
    _flag("screen", "plain", False, "Line by line, without the full screen."),
    _flag("privacy", "keep_chats", True, "Keep chats, drafts and the history of prompts on disk."),
)  # fmt: skip

BY_NAME: Mapping[str, Setting] = {setting.name: setting for setting in SETTINGS}
# What a preset may hold: whatever a chat that is open can change.
IN_PRESETS: tuple[str, ...] = tuple(
    s.name for s in SETTINGS if s.name == "system" or (s.takes == "now" and s.section in ("sampling", "engine"))
)


def find(name: str) -> Setting | None:
    """The setting called `name`, alone or with its section in front."""
    found = BY_NAME.get(name.rpartition(".")[2].replace("-", "_"))
    return found if found is not None and name.replace("-", "_") in (found.name, found.key) else None
