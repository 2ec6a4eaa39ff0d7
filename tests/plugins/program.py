"""A command of `mptune` in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def command_line(*arguments: object) -> list[str]:
    """The command line, for the interpreter that runs the tests."""
    return [sys.executable, "-m", "mptune.cli", *map(str, arguments)]


@contextmanager
def running(*arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """The command in a process group of its own, killed at the end of the block at the latest."""
    with subprocess.Popen(
        command_line(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    ) as program:
        try:
            yield program
        finally:
            program.kill()
