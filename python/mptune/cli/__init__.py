"""The `mptune` command. Each subcommand has its own file next to this one; this file only lists them.

A command file has `register(app)`, which adds its function to the app. It imports its heavy dependencies
(numpy, pandas, the core) inside that function, so that `mptune --help` stays fast.
"""

import io
import os
import sys

from mptune.cli import (
    advise,
    apply,
    buffers,
    bundle,
    calibrate,
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
    kernel,
    optimise,
    paths,
    probe,
    report,
    reproduce,
    rollback,
    routes,
    rules,
    run,
    shrink,
    status,
    watch,
)
from mptune.cli._common import program

__all__ = ["app", "main"]

#: In the order in which `mptune --help` lists them.
_COMMANDS = (
    probe,
    paths,
    routes,
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
    rules,
    fit,
    calibrate,
    reproduce,
    compare,
    diverge,
    shrink,
    cc,
    kernel,
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
    # The matrices are small and the processors have trials to run: threads of BLAS, which wait by
    # spinning, cost several times what they give. numpy is imported later, and reads it then.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if isinstance(sys.stdout, io.TextIOWrapper):
        # As stderr has it: what a terminal's encoding lacks is written as an escape, and ends nothing.
        sys.stdout.reconfigure(errors="backslashreplace")
    app()
