"""The `mptune` command. Each subcommand is one file beside this one; here is only their list.

A command file has `register(app)`, which adds its function to the app. It imports what it works with
(numpy, pandas, the core) inside that function, so that `mptune --help` stays quick.
"""

from mptune.cli import (
    buffers,
    campaign,
    cc,
    clean,
    compare,
    doctor,
    fit,
    impact,
    optimise,
    paths,
    report,
    reproduce,
    run,
)
from mptune.cli._common import program

__all__ = ["app", "main"]

#: In the order in which `mptune --help` lists them.
_COMMANDS = (
    paths,
    run,
    impact,
    optimise,
    campaign,
    report,
    buffers,
    fit,
    reproduce,
    compare,
    cc,
    doctor,
    clean,
)

app = program()
for _command in _COMMANDS:
    _command.register(app)


def main() -> None:
    """Entry point of the console script."""
    app()
