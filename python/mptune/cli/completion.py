"""`mptune completion`: the lines that make a shell complete commands, options and names.

The shell asks the program itself at every Tab, so what is completed follows the declarations that `--help`
shows. Nothing is installed: where the lines belong is the user's choice.
"""

from __future__ import annotations

from typing import Annotated

import typer

from mptune.cli._common import COMPLETION_VARIABLE, PROGRAM, add
from mptune.errors import InputError, one_of

#: Directories in which each shell looks for them (`man bash`, zshcompsys(1), fish's documentation).
_PLACES = {
    "bash": "~/.local/share/bash-completion/completions/mptune",
    "zsh": "~/.zfunc/_mptune",
    "fish": "~/.config/fish/completions/mptune.fish",
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(
        app,
        completion,
        *(f"mptune completion {shell} > {place}" for shell, place in _PLACES.items()),
    )


def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help=f"One of {', '.join(_PLACES)}.")],
) -> None:
    """Print what makes a shell complete commands and names.

    Where the examples put it, new shells find it. For the shell that runs: eval "$(mptune completion bash)".
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined] # imported there

    if shell not in _PLACES:
        raise InputError("SHELL", "", one_of(_PLACES, shell))
    script = get_completion_script(prog_name=PROGRAM, complete_var=COMPLETION_VARIABLE, shell=shell)
    typer.echo(script)
