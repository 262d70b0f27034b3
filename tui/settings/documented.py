"""The settings file with everything in it, each setting with what it is for; what `cutaway settings schema` prints."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from .schema import SECTIONS, SETTINGS, WHEN, Setting
from .values import toml, written

_TABLES = """
# -- Settings with a name: switched to in the chat, or by --preset. They hold what [sampling] holds, system,
# and the switches of [engine] that act at once.
#
# [presets.translator]
# system = "You translate into French and say nothing else."
# temperature = 0.2

# -- Prompts with fields in braces; doubled braces stand for braces. `cutaway ask --template translate -f text=@a.txt`
#
# [templates.translate]
# text = "Translate this into {language}:\\n\\n{text}"

# -- Servers that speak OpenAI's protocol; key_env names the variable that holds the key. The two limits of [engine]
# can be given for one server, too.
#
# [servers.box]
# url = "http://box:8000/v1"
# model = "my-model"
# key_env = "BOX_KEY"
# first_token_limit_s = 1800

# -- Keys of your own: a key, several, or none ([]). `cutaway settings keys` lists the actions.
#
# [keys]
# quit = ["ctrl+q", "ctrl+x"]
# maximise = "f11"
"""


def documented() -> str:
    """The whole file; every line is commented out, so that it changes nothing as it is."""
    return "\n".join(_lines()) + _TABLES


def _lines() -> Iterator[str]:
    yield "# Settings of cutaway, in TOML. Uncomment what you want to be otherwise; all values here are the defaults."
    yield "# A variable such as CUTAWAY_TEMPERATURE wins over this file, a flag such as --temperature over both."
    for section, what in SECTIONS.items():
        yield f"\n# -- {what}.\n[{section}]"
        for setting in SETTINGS:
            if setting.section == section:
                yield from (f"# {line}" for line in textwrap.wrap(f"{setting.help} {_range(setting)}", 118))
                yield f"# {setting.name} = {toml(written(setting, setting.default))}"


def _range(setting: Setting) -> str:
    nothing = ' ("none")' if setting.optional else ""
    expects = setting.expects[:1].upper() + setting.expects[1:]
    return f"{expects}{nothing}. Takes effect {WHEN[setting.takes]}."
