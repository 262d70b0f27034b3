"""`cutaway completion`: the script that lets a shell complete commands, flags, models and chats."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from . import exits
from .output import Output

SHELLS = ("bash", "zsh", "fish")
# click's script for fish cuts what it says of a command at the first comma.
_SPLIT, _SPLIT_ONCE = 'string split "," ', 'string split --max 1 "," '


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> int:
    """Print the completion script of SHELL: bash (4.4 or newer), zsh or fish.

    It completes commands, flags, names of models, and kept chats by their key or by a word of their title.

    \b
    Examples:
      cutaway completion bash > ~/.local/share/bash-completion/completions/cutaway
      cutaway completion zsh > ~/.zfunc/_cutaway      with ~/.zfunc in fpath before compinit
      cutaway completion fish > ~/.config/fish/completions/cutaway.fish
    """
    from ..cli import cli

    kind = get_completion_class(shell)
    assert kind is not None, "click knows the three shells"
    # Not `source()`: it runs bash for its version, and whoever prints the script may not be the shell that reads it.
    script = kind(cli, {}, "cutaway", "_CUTAWAY_COMPLETE")
    template = script.source_template
    if shell == "fish":
        template = template.replace(_SPLIT, _SPLIT_ONCE)
    Output().write(template % script.source_vars())
    return exits.OK
