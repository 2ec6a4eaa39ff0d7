"""The `mptune` command. Each subcommand has its own file next to this one; this file only lists them.

A command file has `register(app)`, which adds its function to the app. It imports its heavy dependencies
(numpy, pandas, the core) inside that function, so that `mptune --help` stays fast.
"""

from mptune.cli import (
    advise,
    apply,
    buffers,
    bundle,
    campaign,
    cc,
    clean,
    compare,
    completion,
    daemon,
    diverge,
    doctor,
    exec,
    fit,
    impact,
    optimise,
    paths,
    probe,
    report,
    reproduce,
    rollback,
    run,
    status,
    watch,
)
from mptune.cli._common import program

__all__ = ["app", "main"]

#: In the order in which `mptune --help` lists them.
_COMMANDS = (
    probe,
    paths,
    run,
    impact,
    optimise,
    campaign,
    report,
    bundle,
    advise,
    apply,
    status,
    rollback,
    buffers,
    fit,
    reproduce,
    compare,
    diverge,
    cc,
    exec,
    daemon,
    watch,
    doctor,
    completion,
    clean,
)

app = program()
for _command in _COMMANDS:
    _command.register(app)


def main() -> None:
    """Entry point of the console script."""
    app()
